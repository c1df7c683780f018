"""Principals in Envelopes by a class of one's own, and what happens when it is none or fails."""

from pathlib import Path
from typing import Any

import pytest

from forwarding.controller.controller import Controller
from forwarding.envelope import ForwardedRequest, RejectedEnvelope, unwrap, wrap
from proxy.config import ConfigError, ProxyConfig
from proxy.config.reading import parse
from proxy.security.authorizer import load_authorizer
from proxy.security.principal import Principal, serialize
from proxy.security.principal_serde import DEFAULT_SERDE_CLASS, PrincipalSerde, load_principal_serde
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import Conversation
from tests.support.controllers import acls_request
from tests.support.decisions import PROXY, STANDARD
from tests.support.images import image_of
from tests.support.team_principals import TeamPrincipal

pytestmark = pytest.mark.spec("E7")

TEAM = "tests.support.team_principals.TeamSerde"
BROKEN = "tests.support.team_principals.BrokenSerde"
ALICE = TeamPrincipal("User", "alice", team="blue")


def envelope(principal: bytes) -> Any:
    body = codecs.request(ApiKey.CREATE_ACLS, 3).encode(acls_request("orders"))
    return wrap(
        ApiKey.CREATE_ACLS,
        3,
        1,
        "cli",
        body,
        principal=principal,
        client_address=bytes([10, 0, 0, 1]),
        forward_id="p/b/0",
    )


def opened(serde: PrincipalSerde, raw: bytes) -> ForwardedRequest | RejectedEnvelope:
    return unwrap(envelope(raw), serde.deserialize, FORWARDED)


def test_kafkas_own_is_the_default() -> None:
    serde = load_principal_serde(DEFAULT_SERDE_CLASS)

    assert serde.serialize(ALICE) == serialize(Principal("User", "alice"))
    assert serde.deserialize(serde.serialize(ALICE)) == Principal("User", "alice")


def test_a_principal_with_a_state_of_its_own_keeps_it_on_the_way_to_the_controller() -> None:
    serde = load_principal_serde(TEAM)

    forwarded = opened(serde, serde.serialize(ALICE))

    assert isinstance(forwarded, ForwardedRequest)
    assert isinstance(forwarded.principal, TeamPrincipal)
    assert (str(forwarded.principal), forwarded.principal.team) == ("User:alice", "blue")


@pytest.mark.parametrize(("path", "raw"), [(TEAM, b"no json"), (TEAM, b"[1]"), (BROKEN, b"alice")])
def test_bytes_that_are_no_principal_are_told_by_kafkas_error(path: str, raw: bytes) -> None:
    refused = opened(load_principal_serde(path), raw)

    assert isinstance(refused, RejectedEnvelope)
    assert refused.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert refused.error_code == 97
    assert "principal.serde.class" in refused.message


def test_a_controller_reads_with_the_class_it_was_given() -> None:
    serde = load_principal_serde(TEAM)
    authorizer = load_authorizer(STANDARD, {"super.users": "User:proxy-1"})
    controller = Controller(authorizer, serde.deserialize, lambda: bytes(16))

    forwarded, _ = controller.open(envelope(serde.serialize(ALICE)), PROXY, image_of())

    assert isinstance(forwarded, ForwardedRequest)
    assert isinstance(forwarded.principal, TeamPrincipal)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("", "empty"),
        ("nowhere.Serde", "cannot load"),
        ("proxy.security.principal.Principal", "cannot load"),
        ("builtins.object", "is not a principal serde"),
    ],
)
def test_no_serde_is_an_error_at_the_start_that_names_the_key(path: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"principal\.serde\.class.*{complaint}"):
        load_principal_serde(path)
    with pytest.raises(ConfigError, match=r"principal\.serde\.class"):
        parse(Path("proxy.yaml"), f'principal.serde.class: "{path}"'.encode(), ProxyConfig)


def test_a_principal_that_cannot_be_written_is_an_error_to_the_client_and_told_to_the_operator() -> None:
    talk = Conversation("ALTER CLUSTER kafka-cluster")
    talk.gate.serde = load_principal_serde(BROKEN)

    talk.asks(ApiKey.CREATE_ACLS, 3, acls_request("orders"))

    heard = talk.heard(ApiKey.CREATE_ACLS, 3)
    assert [result.error_code for result in heard.results] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    (event,) = [event for event in talk.events if event.event == "request_refused"]
    assert "principal.serde.class: User:alice cannot be written: KeyError" in (event.message or "")
