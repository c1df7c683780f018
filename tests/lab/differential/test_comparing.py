"""What the comparison of two answers finds, and what it leaves out."""

from typing import Any

import pytest

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.differential.comparing import ABSENT, Difference, differences, plain
from tests.lab.differential.naming import Names, topic_id
from tests.lab.side_by_side.dialogue import Closed, Heard, Silent

pytestmark = pytest.mark.tooling

NAMES = Names(7)
BROKER_IDS, PROXY_IDS = {topic_id("t-alpha"): b"b" * 16}, {topic_id("t-alpha"): b"p" * 16}


def metadata(*topics: tuple[str, bytes, int], **fields: Any) -> Heard:
    response = types.MetadataResponse
    parts = [
        response.MetadataResponseTopic(name=name, topic_id=id_, error_code=code) for name, id_, code in topics
    ]
    return Heard(response(topics=parts, **fields))


def found(broker: Any, proxy: Any, key: ApiKey = ApiKey.METADATA, version: int = 12) -> list[Difference]:
    trees = [plain(one, key, version, NAMES, ids) for one, ids in ((broker, BROKER_IDS), (proxy, PROXY_IDS))]
    return list(differences(*trees))


def test_the_same_topic_under_the_ids_of_each_side_is_no_difference() -> None:
    broker = metadata(("t-alpha", b"b" * 16, 0), throttle_time_ms=5)
    proxy = metadata(("t-alpha", b"p" * 16, 0), throttle_time_ms=9)

    assert found(broker, proxy) == []


def test_an_error_code_and_a_topic_that_is_not_told_are_found_at_their_place() -> None:
    broker = metadata(("t-alpha", b"b" * 16, 29), ("t-ghost", bytes(16), 3))
    proxy = metadata(("t-alpha", b"p" * 16, 3))

    code, missing = found(broker, proxy)

    assert code == Difference("topics.t-alpha/t-alpha.error_code", 29, 3)
    assert (missing.path, missing.proxy) == ("topics.t-ghost/no id", ABSENT)


def test_the_id_of_another_topic_is_found() -> None:
    assert found(metadata(("t-alpha", b"b" * 16, 0)), metadata(("t-alpha", b"?" * 16, 0))) != []


def test_topics_of_other_cases_and_of_penstock_itself_are_left_out() -> None:
    theirs = metadata(("t-6-one", b"x" * 16, 0), ("__penstock_audit", b"y" * 16, 0))

    assert found(metadata(), theirs) == []
    assert found(metadata(), metadata(("t-7-one", b"x" * 16, 0))) != []


def test_the_order_of_topics_is_not_compared_but_that_of_bindings_is() -> None:
    topics = [("t-alpha", bytes(16), 0), ("t-beta", bytes(16), 3)]
    result = types.CreateAclsResponse.AclCreationResult
    bindings = [result(error_code=0), result(error_code=42)]
    one, other = (Heard(types.CreateAclsResponse(results=r)) for r in (bindings, bindings[::-1]))

    assert found(metadata(*topics), metadata(*topics[::-1])) == []
    assert len(found(one, other, ApiKey.CREATE_ACLS, 3)) == 2


def test_a_closed_connection_and_silence_are_answers_too() -> None:
    assert found(Closed(), Closed()) == found(Silent(), Silent()) == []
    assert found(Closed(), Silent()) == [Difference("", "closed", "silent")]
    assert found(Closed(), metadata()) != []
