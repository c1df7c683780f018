"""What is tried again and when, and which versions everyone on the way speaks."""

import pytest

from forwarding.envelope import AUTHORIZER_NOT_READY, CONNECTION_LOST, NextAttempt, next_step
from forwarding.versions import for_clients
from proxy.net.runtime.reachability import Backoff
from proxy.session.apis.table import FORWARDED
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


@pytest.mark.spec("E5", "S9")
@pytest.mark.parametrize(
    ("error", "step"),
    [
        (CONNECTION_LOST, NextAttempt.FIND_CONTROLLER),
        (ErrorCode.NOT_CONTROLLER, NextAttempt.FIND_CONTROLLER),
        (AUTHORIZER_NOT_READY, NextAttempt.SAME_CONTROLLER),
        (ErrorCode.NONE, NextAttempt.DONE),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NextAttempt.DONE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, NextAttempt.DONE),
        (ErrorCode.UNSUPPORTED_VERSION, NextAttempt.DONE),
        (ErrorCode.REQUEST_TIMED_OUT, NextAttempt.DONE),
    ],
)
def test_only_what_time_or_another_controller_can_mend_is_tried_again(
    error: int | None, step: NextAttempt
) -> None:
    assert next_step(error) == step


@pytest.mark.spec("E5")
def test_pauses_double_up_to_a_limit() -> None:
    backoff = Backoff(initial_ms=50, maximum_ms=1_000)

    assert [backoff.pause_ms(attempt, 0.5, 60_000) for attempt in (1, 2, 3, 5, 6, 60)] == [
        50,
        100,
        200,
        800,
        1_000,
        1_000,
    ]


@pytest.mark.spec("E5")
def test_chance_spreads_a_pause_by_a_fifth_either_way() -> None:
    backoff = Backoff(initial_ms=100, maximum_ms=100)

    assert (backoff.pause_ms(1, 0.0, 60_000), backoff.pause_ms(1, 0.999, 60_000)) == (80, 119)


@pytest.mark.spec("E5")
@pytest.mark.parametrize(("left_ms", "pause_ms"), [(30, 30), (0, 0), (-5, 0)])
def test_no_pause_goes_beyond_the_requests_own_deadline(left_ms: int, pause_ms: int) -> None:
    assert Backoff(initial_ms=1_000, maximum_ms=1_000).pause_ms(1, 0.5, left_ms) == pause_ms


@pytest.mark.spec("E8", "O10")
def test_a_forwarded_api_has_the_versions_of_the_controller_even_if_the_broker_lacks_it() -> None:
    offered = for_clients(
        proxy={
            ApiKey.CREATE_ACLS: (1, 3),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
            ApiKey.FETCH: (4, 17),
        },
        upstream={ApiKey.CREATE_ACLS: (3, 3), ApiKey.FETCH: (4, 13)},
        controller={ApiKey.CREATE_ACLS: (0, 2), ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0)},
    )

    assert offered == {
        ApiKey.CREATE_ACLS: (1, 2),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
        ApiKey.FETCH: (4, 13),
    }


@pytest.mark.spec("E8")
def test_what_has_no_version_in_common_is_not_offered() -> None:
    offered = for_clients(
        proxy={ApiKey.CREATE_ACLS: (1, 3), ApiKey.FETCH: (4, 17), ApiKey.METADATA: (0, 13)},
        upstream={ApiKey.CREATE_ACLS: (1, 3), ApiKey.FETCH: (18, 20)},
        controller={ApiKey.CREATE_ACLS: (0, 0)},
    )

    assert offered == {}


@pytest.mark.spec("E8")
def test_nothing_forwardable_is_offered_before_a_controller_was_reached() -> None:
    everything: dict[int, tuple[int, int]] = dict.fromkeys([*FORWARDED, ApiKey.FETCH], (0, 5))

    assert for_clients(everything, everything, None) == {ApiKey.FETCH: (0, 5)}


@pytest.mark.spec("E8")
def test_what_the_proxy_answers_itself_needs_nobody_elses_versions() -> None:
    offered = for_clients({ApiKey.SASL_HANDSHAKE: (0, 1)}, {}, None, {ApiKey.SASL_HANDSHAKE})

    assert offered == {ApiKey.SASL_HANDSHAKE: (0, 1)}


@pytest.mark.spec("E2")
def test_the_forwardable_apis_are_those_of_the_specification() -> None:
    assert {ApiKey.name_of(api_key) for api_key in FORWARDED} == {
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "CreateAcls",
        "DeleteAcls",
        "AlterClientQuotas",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "AlterPartitionReassignments",
        "CreatePartitions",
        "CreateTopics",
        "DeleteTopics",
        "UpdateFeatures",
        "AlterUserScramCredentials",
        "ElectLeaders",
    }
