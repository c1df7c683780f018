"""What a proxy may offer while brokers of two releases are in the cluster."""

import pytest

from proxy.wire.api_keys import ApiKey
from tests.support.offered_apis import expected, wrongly_offered

pytestmark = pytest.mark.tooling

OLD = {int(ApiKey.FETCH): (0, 17), int(ApiKey.UPDATE_FEATURES): (0, 1), int(ApiKey.METADATA): (0, 12)}
NEW = {int(ApiKey.FETCH): (4, 18), int(ApiKey.UPDATE_FEATURES): (0, 2), int(ApiKey.METADATA): (0, 13)}


def offered_before(
    broker: dict[int, tuple[int, int]], **changes: tuple[int, int]
) -> dict[int, tuple[int, int]]:
    named = {int(ApiKey[name]): versions for name, versions in changes.items()}
    return {key: versions for key, versions in expected(broker).items() if versions is not None} | named


def test_what_the_controller_sends_to_a_broker_has_the_versions_of_any_of_them() -> None:
    assert wrongly_offered(offered_before(OLD), OLD, [OLD, NEW]) == []
    assert wrongly_offered(offered_before(OLD, UPDATE_FEATURES=(0, 2)), OLD, [OLD, NEW]) == []
    assert wrongly_offered(offered_before(OLD, UPDATE_FEATURES=(0, 2)), OLD, [OLD, OLD]) == [
        "UpdateFeatures (0, 2), not ['(0, 1)']"
    ]


def test_all_else_has_the_versions_of_the_proxys_own_broker() -> None:
    assert wrongly_offered(offered_before(OLD, FETCH=(4, 18)), OLD, [OLD, NEW]) == [
        "Fetch (4, 18), not ['(4, 17)']"
    ]
    without = offered_before(OLD)
    del without[int(ApiKey.METADATA)]
    assert wrongly_offered(without, OLD, [OLD, NEW]) == ["Metadata None, not ['(0, 12)']"]
