"""Owner and ACLs of a topic that there is, altered: split from the broker's configs, and by whom."""

from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome, SendToBroker
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.metadata.topic_acls import stripped, topic_acls, topic_acls_text
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.decisions import ADMIN, ALICE, decided
from tests.support.images import acl_record, image_of
from tests.support.metadata_log import owned

pytestmark = pytest.mark.spec("A6")

TOPIC = 2
SET, DELETE, APPEND = 0, 1, 2
IDS = {"orders": (1).to_bytes(16, "big")}
ALICES = image_of(*owned("orders", "User:alice"))
NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
INVALID = ErrorCode.INVALID_CONFIG


def change(*configs: tuple[str, str | None], operation: int = SET, validate_only: bool = False) -> Any:
    request = types.IncrementalAlterConfigsRequest
    return request(
        resources=[
            request.AlterConfigsResource(
                resource_type=TOPIC,
                resource_name="orders",
                configs=[
                    request.AlterableConfig(name=name, config_operation=operation, value=value)
                    for name, value in configs
                ],
            )
        ],
        validate_only=validate_only,
    )


def replacement(*configs: tuple[str, str | None]) -> Any:
    """AlterConfigs: whatever is not in it goes back to its default."""
    request = types.AlterConfigsRequest
    resource = request.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="orders",
        configs=[request.AlterableConfig(name=name, value=value) for name, value in configs],
    )
    return request(resources=[resource])


def told(response: Any) -> list[tuple[str, int]]:
    return [(part.resource_name, part.error_code) for part in response.responses]


def done(request: Any, image: MetadataImage, who: Any = ADMIN, ids: Any = None) -> tuple[Any, MetadataImage]:
    """A request that no broker has a part in: its one result, and the image after it."""
    api_key = ApiKey.ALTER_CONFIGS
    if isinstance(request, types.IncrementalAlterConfigsRequest):
        api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    known = IDS if ids is None else ids
    decision = decided(api_key, request, who, image, topic_ids=known).decision
    assert isinstance(decision, ControllerOutcome), decision
    (result,) = decision.response.responses
    return result, image_of(*decision.records, base=image)


@pytest.mark.parametrize(
    ("who", "rights", "error"),
    [
        pytest.param(ALICE, [], NONE, id="the owner"),
        pytest.param(ADMIN, [], NONE, id="an administrator"),
        pytest.param(ALICE, [("other", None)], DENIED, id="one with ALTER_CONFIGS only"),
    ],
)
def test_an_owner_is_changed_by_the_owner_or_an_administrator(who: Any, rights: Any, error: int) -> None:
    image = ALICES
    if rights:
        may = acl_record(1, operation=Operation.ALTER_CONFIGS)
        image = image_of(may, base=image_of(*owned("orders", "User:zoe")))

    result, after = done(change(("owner", "User:bob")), image, who)

    assert result.error_code == error
    assert after.topics.owner("orders") == ("User:bob" if error == NONE else "User:zoe")


def test_without_alter_configs_on_the_topic_the_owner_is_nobody_elses_to_change() -> None:
    may = acl_record(1, "kafka-cluster", ResourceType.CLUSTER, operation=Operation.ALTER)

    result, _ = done(change(("owner", "User:bob")), image_of(may), ALICE)

    assert (result.error_code, result.error_message) == (DENIED, "Topic authorization failed.")


def test_an_owner_is_taken_away_and_given_to_a_topic_that_had_none() -> None:
    nobodys = done(change(("owner", None), operation=DELETE), ALICES)[1]
    bobs = done(change(("owner", "User:bob")), MetadataImage.EMPTY)[1]

    assert nobodys.topics.owner("orders") is None
    assert bobs.topics.owner("orders") == "User:bob"


def test_the_owner_of_an_older_topic_of_that_name_has_no_say() -> None:
    newer = {"orders": (7).to_bytes(16, "big")}

    refused, _ = done(change(("owner", "User:bob")), ALICES, ALICE, newer)
    _, after = done(change(("owner", "User:alice")), ALICES, ADMIN, newer)

    assert refused.error_code == DENIED
    assert (after.topics.owner("orders"), list(after.topics.names_by_id)) == (
        "User:alice",
        ["AAAAAAAAAAAAAAAAAAAABw"],
    )


def test_acls_are_replaced_by_those_given_and_only_those_on_exactly_the_topic() -> None:
    before = image_of(
        acl_record(1, "orders"), acl_record(2, "orders", principal="User:x"), acl_record(3, "*")
    )

    _, after = done(change(("acls", "User:alice:READ:allow;User:b:ALL:deny")), before)
    _, none = done(change(("acls", None), operation=DELETE), before)

    text = topic_acls_text(stripped(acl) for acl in topic_acls(after, "orders"))
    assert text == "User:b:ALL:deny:*;User:alice:READ:allow:*"
    assert topic_acls(none, "orders") == []
    assert [acl.resource_name for acl in none.acls.by_id.values()] == ["*"]


def test_an_owner_may_not_set_acls() -> None:
    result, after = done(change(("acls", "User:bob:READ:allow")), ALICES, ALICE)

    assert (result.error_code, after.acls) == (DENIED, ALICES.acls)


@pytest.mark.parametrize(
    ("request_", "ids", "error"),
    [
        (change(("owner", "User:b"), operation=APPEND), IDS, INVALID),
        (change(("owner", "b")), IDS, INVALID),
        (change(("owner", "User:b"), ("owner", "User:c")), IDS, INVALID),
        (change(("acls", "nonsense")), IDS, INVALID),
        (change(("owner", "User:b")), {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_cannot_be_kept_is_refused(request_: Any, ids: Any, error: int) -> None:
    result, after = done(request_, ALICES, ADMIN, ids)

    assert (result.error_code, after.topics) == (error, ALICES.topics)


def test_a_dry_run_changes_nothing() -> None:
    result, after = done(change(("owner", "User:bob"), validate_only=True), ALICES)

    assert (result.error_code, after.topics) == (NONE, ALICES.topics)


def test_with_other_configs_the_broker_gets_those_and_the_owner_is_kept_when_it_took_them() -> None:
    request = change(("retention.ms", "1"), ("owner", "User:bob"))
    decision = decided(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, ALICE, ALICES, topic_ids=IDS).decision
    assert isinstance(decision, SendToBroker)
    assert decision.follow_up is not None
    response = types.IncrementalAlterConfigsResponse
    owners = []
    for code in (NONE, ErrorCode.INVALID_CONFIG):
        part = response.AlterConfigsResourceResponse(
            error_code=code, resource_type=TOPIC, resource_name="orders"
        )
        answer = decision.merge(response(responses=[part]))
        records = decision.follow_up.records(answer, ALICES, {})
        owners.append((told(answer), image_of(*records, base=ALICES).topics.owner("orders")))

    assert [config.name for config in decision.request.resources[0].configs] == ["retention.ms"]
    assert owners == [([("orders", 0)], "User:bob"), ([("orders", INVALID)], "User:alice")]


def test_a_resource_that_is_all_ours_is_answered_among_those_of_the_broker_in_order() -> None:
    request = change(("owner", "User:bob"))
    other = types.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="payments",
        configs=[types.IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="1")],
    )
    request.resources.append(other)
    decision = decided(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, ADMIN, ALICES, topic_ids=IDS).decision
    assert isinstance(decision, SendToBroker)
    response = types.IncrementalAlterConfigsResponse
    part = response.AlterConfigsResourceResponse(resource_type=TOPIC, resource_name="payments")

    assert [resource.resource_name for resource in decision.request.resources] == ["payments"]
    assert told(decision.merge(response(responses=[part]))) == [("orders", 0), ("payments", 0)]


def test_a_tool_that_writes_back_all_it_was_told_needs_no_right_for_what_stays() -> None:
    may = acl_record(1, operation=Operation.ALTER_CONFIGS)
    image = image_of(may, *owned("orders", "User:zoe"))
    written_back = replacement(
        ("retention.ms", "1"), ("owner", "User:zoe"), ("acls", "User:alice:ALTER_CONFIGS:allow:*")
    )

    decision = decided(ApiKey.ALTER_CONFIGS, written_back, ALICE, image, topic_ids=IDS).decision

    assert isinstance(decision, SendToBroker)
    assert [config.name for config in decision.request.resources[0].configs] == ["retention.ms"]
    response = types.AlterConfigsResponse
    part = response.AlterConfigsResourceResponse(resource_type=TOPIC, resource_name="orders")
    answer = decision.merge(response(responses=[part]))
    assert decision.follow_up is not None
    assert decision.follow_up.records(answer, image, {}) == ()


def test_a_replacement_that_names_no_owner_leaves_the_owner_and_still_resets_the_brokers_configs() -> None:
    only_owner = decided(
        ApiKey.ALTER_CONFIGS, replacement(("owner", "User:bob")), ADMIN, ALICES, topic_ids=IDS
    ).decision
    no_owner = decided(ApiKey.ALTER_CONFIGS, replacement(), ADMIN, ALICES, topic_ids=IDS).decision

    assert isinstance(only_owner, SendToBroker)
    assert only_owner.request.resources[0].configs == []
    assert isinstance(no_owner, SendToBroker)
    assert no_owner.follow_up is None
