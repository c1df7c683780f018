"""A client that bears a proxy's principal: it administers nothing, whatever its rights are (KIP-590)."""

from random import Random
from typing import Any

import pytest

from proxy.session.apis.table import TABLE
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.test_every_version import EVERYTHING, codes_in, legible
from tests.session.conversation import Conversation, fetch, produce
from tests.support.wire_messages import MessageFiller

ADMIN = [
    pytest.param(key, version, id=f"{ApiKey.name_of(key)}-v{version}")
    for key in sorted(TABLE)
    if TABLE[key].admin
    for version in codecs.request_versions(key)
]


def talking(*rights: str, principal: str = "alice", proxy: str = "User:alice") -> Conversation:
    """ACLs of the tests are alice's, so she is the proxy here."""
    talk = Conversation(*(rights or EVERYTHING), principal=principal)
    talk.gate.proxy_principals = frozenset(("User:proxy-1", proxy))
    return talk


def filled(key: int, version: int) -> Any:
    return legible(MessageFiller(Random(7), tame=True).message(request_schema(key).name, version))


@pytest.mark.spec("E10", "D1")
@pytest.mark.parametrize(("key", "version"), ADMIN)
def test_an_administrative_request_of_a_proxys_principal_is_rejected(key: int, version: int) -> None:
    talk = talking()

    talk.asks(key, version, filled(key, version))

    assert (talk.forwarded_bytes(), talk.controller, talk.closed) == (b"", [], None)
    assert codes_in(talk.heard(key, version)) <= {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    (event,) = talk.events
    assert (event.event, event.method, event.principal) == (
        "request_refused",
        ApiKey.name_of(key),
        "User:alice",
    )
    assert event.granted is False
    assert "give this client a user of its own" in (event.message or "")


@pytest.mark.spec("E10")
def test_being_a_super_user_makes_no_difference_to_that() -> None:
    talk = talking(principal="root", proxy="User:root")

    talk.asks(ApiKey.CREATE_TOPICS, 7, filled(ApiKey.CREATE_TOPICS, 7))

    assert talk.controller == []
    assert [event.error_code for event in talk.events] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


@pytest.mark.spec("E10")
def test_its_other_requests_are_decided_by_acls_like_everyones() -> None:
    talk = talking("READ TOPIC orders")

    talk.asks(ApiKey.FETCH, 12, fetch("orders"))
    assert len(talk.forwarded()) == 1
    talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    assert talk.forwarded_bytes() == b""


@pytest.mark.spec("E10")
def test_another_principal_administers_as_before() -> None:
    talk = talking(proxy="User:proxy-2")

    talk.asks(ApiKey.CREATE_TOPICS, 7, filled(ApiKey.CREATE_TOPICS, 7))

    assert len(talk.controller) == 1
