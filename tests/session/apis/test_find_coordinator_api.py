"""FindCoordinator: one key up to v3, several from v4; whose coordinators are told, and where they are."""

from typing import Any

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asking

pytestmark = pytest.mark.spec("A7")

GROUP, TRANSACTION, SHARE = 0, 1, 2
DENIED_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
DENIED_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NOWHERE = (-1, "", -1)
ANSWER = t.FindCoordinatorResponse


def asking(version: int, *rights: str) -> Asking:
    return Asking(ApiKey.FIND_COORDINATOR, version, *rights)


def where(node: Any) -> tuple[int, str, int]:
    return node.node_id, node.host, node.port


def of(*keys: str, key_type: int = GROUP) -> Any:
    return t.FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def told_by_broker(**nodes: int) -> Any:
    return ANSWER(
        coordinators=[
            ANSWER.Coordinator(key=key, node_id=node, host=f"broker-{node}", port=9092)
            for key, node in nodes.items()
        ]
    )


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", range(4))
def test_one_coordinator_is_told_by_the_address_of_its_proxy(version: int) -> None:
    asked = asking(version, "READ GROUP team").for_(t.FindCoordinatorRequest(key="team"))

    assert asked.goes_as_it_came
    assert where(asked.told(ANSWER(node_id=2, host="broker-2", port=9092))) == (2, "proxy-two", 29092)


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", range(4))
def test_a_coordinator_that_cannot_be_reached_is_not_available(version: int) -> None:
    told = (
        asking(version, "READ GROUP team")
        .for_(t.FindCoordinatorRequest(key="team"))
        .told(ANSWER(node_id=3, host="broker-3", port=9092))
    )

    assert told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert where(told) == NOWHERE


@pytest.mark.parametrize("version", range(4))
def test_a_denied_key_is_told_at_the_top(version: int) -> None:
    answer = asking(version).for_(t.FindCoordinatorRequest(key="team")).answer

    assert answer.error_code == DENIED_GROUP
    assert where(answer) == NOWHERE
    if version >= 1:
        assert answer.error_message == "Group authorization failed."


def test_a_transaction_has_a_right_of_its_own() -> None:
    request = t.FindCoordinatorRequest(key="payer", key_type=TRANSACTION)

    assert asking(3, "WRITE TRANSACTIONAL_ID payer").for_(request).goes_as_it_came
    assert asking(3, "READ GROUP payer").for_(request).answer.error_code == DENIED_TRANSACTION


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", [4, 5, 6])
def test_denied_keys_are_put_back_in_the_order_of_the_request(version: int) -> None:
    asked = asking(version, "READ GROUP b", "READ GROUP d").for_(of("a", "b", "c", "d"))

    assert asked.forwarded.coordinator_keys == ["b", "d"]
    told = asked.told(told_by_broker(d=1, b=3)).coordinators
    assert [(part.key, part.error_code, where(part)) for part in told] == [
        ("a", DENIED_GROUP, NOWHERE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE, NOWHERE),
        ("c", DENIED_GROUP, NOWHERE),
        ("d", 0, (1, "proxy-one", 19092)),
    ]


@pytest.mark.parametrize("version", [4, 6])
def test_with_every_key_denied_the_broker_is_not_asked(version: int) -> None:
    answer = asking(version).for_(of("b", "a", key_type=TRANSACTION)).answer

    assert [(part.key, part.error_code) for part in answer.coordinators] == [
        ("b", DENIED_TRANSACTION),
        ("a", DENIED_TRANSACTION),
    ]


def test_share_coordinators_are_for_brokers() -> None:
    request = of("team:topic:0", key_type=SHARE)

    def codes(version: int, *rights: str) -> list[int]:
        return [part.error_code for part in asking(version, *rights).for_(request).answer.coordinators]

    assert codes(5) == [ErrorCode.INVALID_REQUEST]
    assert codes(6) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    allowed = asking(6, f"CLUSTER_ACTION {CLUSTER_RIGHT}").for_(request)
    assert where(allowed.told(told_by_broker(x=2)).coordinators[0]) == (2, "proxy-two", 29092)


@pytest.mark.parametrize("version", [3, 6])
def test_a_kind_of_key_that_nobody_knows_is_not_asked_for(version: int) -> None:
    request = of("a", key_type=9) if version >= 4 else t.FindCoordinatorRequest(key="a", key_type=9)

    answer = asking(version, "ALL GROUP *", "ALL TRANSACTIONAL_ID *").for_(request).answer

    assert {answer.error_code, *(part.error_code for part in answer.coordinators)} - {0} == {
        ErrorCode.INVALID_REQUEST
    }
