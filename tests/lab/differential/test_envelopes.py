"""Our controller beside KRaft's: the same Envelopes to both, with nothing filtered before."""

from collections.abc import Iterator
from typing import Any

import pytest

from proxy.metadata.acl import Operation
from proxy.session.apis.table import FORWARDED
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.differential.envelope_faults import FAULTS, told
from tests.lab.differential.envelopes import ForwardingSide, at_the_controller
from tests.lab.differential.planning import plan
from tests.lab.differential.running import Run
from tests.lab.differential.staging import until
from tests.lab.side_by_side.dialogue import Heard
from tests.lab.side_by_side.sides import Side
from tests.support.controllers import cluster_right
from tests.support.two_sides import limit_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SEED = 20_251_122
CASES = 45
BATCH = 15
"""Each API of E2 once."""


@pytest.fixture(scope="module")
def forwarding(run: Run) -> Iterator[Run]:
    """The run's sides, their controllers asked directly."""
    forwarding = Run(*map(at_the_controller, run.sides), staged=True)
    yield forwarding
    for side in forwarding.sides:
        side.close()


@pytest.mark.spec("E1", "E2", "E4")
def test_both_controllers_take_every_api_that_is_forwarded(forwarding: Run) -> None:
    assert forwarding.served.keys() == FORWARDED


@pytest.mark.spec("E1", "E2", "E4")
@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_random_requests_in_envelopes_are_answered_as_by_krafts_controller(
    forwarding: Run, first: int
) -> None:
    cases = [
        case for case in plan(SEED, CASES, forwarding.served, ()) if first <= case.number < first + BATCH
    ]

    different = [str(result) for result in map(forwarding.case, cases) if result.unexplained]

    assert not different, "\n".join(different)


@pytest.mark.spec("E1", "E4", "E7", "E10")
@pytest.mark.parametrize("fault", FAULTS)
def test_an_envelope_at_fault_is_refused_as_by_krafts_controller(
    sides: tuple[Side, Side], fault: str
) -> None:
    broker, ours = (told(side, fault) for side in sides)

    assert ours == broker


def creation(name: str, partitions: int) -> Any:
    request = types.CreateTopicsRequest
    topic = request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return request(topics=[topic], timeout_ms=10_000)


def limited(side: ForwardingSide, user: str) -> None:
    """One mutation in a second: a burst of eleven."""
    request = limit_request(user, 1.0, "controller_mutation_rate")
    answer = side.admin(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]


def charged(side: ForwardingSide, user: str, version: int) -> list[tuple[int, bool]]:
    """Error code and whether the client is to wait, of topics of 12, of 5 and of 1 partitions."""
    seen = []
    dialogue = side.dialogue(user)
    for number, partitions in enumerate((12, 5, 1)):
        name = f"charged-{user}-{number}"
        outcome = dialogue.ask(ApiKey.CREATE_TOPICS, version, creation(name, partitions))
        assert isinstance(outcome, Heard), outcome
        (topic,) = outcome.message.topics
        seen.append((topic.error_code, outcome.message.throttle_time_ms > 0))
    dialogue.close()
    return seen


@pytest.mark.spec("E2", "Q12")
@pytest.mark.parametrize("version", [5, 6, 7])
def test_mutations_beyond_the_quota_are_refused_or_only_slowed_down_as_by_krafts_controller(
    forwarding: Run, version: int
) -> None:
    outcomes = []
    for side in forwarding.sides:
        assert isinstance(side, ForwardingSide)
        user = f"mutating-{version}"
        side.admin(ApiKey.CREATE_ACLS, 3, cluster_right(Operation.CREATE, f"User:{user}"))
        limited(side, user)
        until(lambda side=side, user=user: has_quota(side, user), "the quota is in force")  # type: ignore[misc]
        outcomes.append(charged(side, user, version))

    assert outcomes[1] == outcomes[0]
    assert (ErrorCode.THROTTLING_QUOTA_EXCEEDED in dict(outcomes[0])) == (version >= 6)


def has_quota(side: ForwardingSide, user: str) -> bool:
    request = types.DescribeClientQuotasRequest
    component = request.ComponentData(entity_type="user", match_type=0, match=user)
    answer = side.admin(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request(components=[component], strict=True))
    return bool(answer.entries)
