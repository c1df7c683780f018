"""The records of a forwarded request at the controller: every field of each event."""

from dataclasses import asdict, replace

import pytest

from forwarding.controller import audit_events
from forwarding.envelope import ForwardedRequest, Sender
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import end_text
from proxy.metadata.quota_entity import QuotaEntity
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MutationQuota, MutationQuotas
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import RequestHeader
from tests.support.metadata_log import acl, quotas_image

pytestmark = pytest.mark.spec("E3", "E8", "D1")

NOW_MS = 1_700_000_000_000
SENDER = Sender(Principal("User", "proxy-1"), "10.0.0.9", "INTERNAL", "penstock")
FORWARDED = ForwardedRequest(
    RequestHeader(ApiKey.DELETE_TOPICS, 6, 77, "app", 0),
    types.DeleteTopicsRequest(topics=[types.DeleteTopicsRequest.DeleteTopicState(name="orders")]),
    Principal("User", "alice"),
    "10.0.0.1",
    "p/b/5",
)
OF_THE_REQUEST = {
    "listener": "INTERNAL",
    "host": "10.0.0.1",
    "principal": "User:alice",
    "forwarding_principal": "User:proxy-1",
    "client_id": "app",
    "method": "DeleteTopics",
    "api_version": 6,
    "correlation_id": 77,
    "forward_id": "p/b/5",
}


def fields(event: AuditEvent) -> dict[str, object]:
    return {name: value for name, value in asdict(event).items() if value is not None}


def quota(enforced: bool = True, user: str = "alice", *groups: str) -> MutationQuota:
    image = quotas_image({QuotaEntity(user=user): {CONTROLLER_MUTATION_RATE: 2}})
    found = MutationQuotas(11, 1, enforced=enforced).of_request(True, image, "alice", "app", NOW_MS, groups)
    assert found is not None
    found.record(3, NOW_MS)
    return found


def test_a_forward_is_recorded_with_its_error_and_both_offsets() -> None:
    event = audit_events.forwarded_received(SENDER, FORWARDED, 41, (5, 7), 9, "too late")

    assert fields(event) == OF_THE_REQUEST | {
        "event": "forwarded_received",
        "error_code": 41,
        "first_offset": 5,
        "last_offset": 7,
        "metadata_offset": 9,
        "message": "too late",
        "objects": [{"type": "TOPIC", "name": "orders", "operation": "DELETE"}],
    }


def test_an_envelope_that_was_not_opened_is_recorded_with_its_sender_alone() -> None:
    event = audit_events.envelope_rejected(SENDER, 31, "no right")

    assert fields(event) == {
        "event": "request_refused",
        "listener": "INTERNAL",
        "host": "10.0.0.9",
        "principal": "User:proxy-1",
        "client_id": "penstock",
        "method": "Envelope",
        "error_code": 31,
        "message": "no right",
    }


@pytest.mark.spec("Q12", "D5")
@pytest.mark.parametrize(("enforced", "rule"), [(True, {}), (False, {"rule": "observe"})])
def test_mutations_are_recorded_with_the_quota_and_the_request_that_was_charged(
    enforced: bool, rule: dict[str, str]
) -> None:
    charged = quota(enforced)
    of_the_quota = {
        "quota_key": CONTROLLER_MUTATION_RATE,
        "quota_id": "alice:",
        "quota_limit": 2.0,
        "metadata_offset": 9,
    } | rule

    throttled = audit_events.mutations_throttled(SENDER, FORWARDED, charged, 9, 1_500)
    counted = audit_events.mutations_counted(SENDER, FORWARDED, charged, 9, NOW_MS)

    assert fields(throttled) == OF_THE_REQUEST | of_the_quota | {
        "event": "throttled",
        "count": 1,
        "throttle_time_ms": 1_500,
    }
    assert fields(counted) == OF_THE_REQUEST | of_the_quota | {
        "event": "quota_used",
        "count": 3,
        "interval_start_ms": NOW_MS,
        "interval_end_ms": NOW_MS,
    }


@pytest.mark.spec("Q12", "A8")
def test_mutations_of_a_member_are_recorded_with_the_groups_that_have_quotas() -> None:
    charged = quota(True, "Group:ops", "ops", "other")

    for event in (
        audit_events.mutations_throttled(SENDER, FORWARDED, charged, 9, 1_500),
        audit_events.mutations_counted(SENDER, FORWARDED, charged, 9, NOW_MS),
    ):
        assert (event.quota_id, event.quota_limit, event.groups) == ("alice@ops:", 2.0, ("ops", "other"))


@pytest.mark.spec("R8", "A6")
def test_what_the_controller_writes_by_itself_is_recorded_with_its_offsets() -> None:
    expired = [types.RemoveDelegationTokenRecord(token_id=name) for name in ("t1", "t2")]
    tokens = audit_events.tokens_expired(
        expired, audit_events.LogPlace(first_offset=5, last_offset=6, metadata_offset=6)
    )
    owner = types.ConfigRecord(resource_type=2, resource_name="orders", name="owner")
    records = [owner, types.RemoveTopicRecord(), types.RemoveTopicRecord()]
    topics = audit_events.topics_deleted(
        records, audit_events.LogPlace(first_offset=7, last_offset=9, metadata_offset=9)
    )
    again = audit_events.log_written_again(
        records, audit_events.LogPlace(first_offset=10, last_offset=12, metadata_offset=12)
    )

    assert fields(tokens) == {
        "event": "tokens_expired",
        "method": "ExpireDelegationToken",
        "count": 2,
        "first_offset": 5,
        "last_offset": 6,
        "metadata_offset": 6,
        "objects": [{"type": "TOKEN", "name": name, "operation": "EXPIRE"} for name in ("t1", "t2")],
    }
    assert fields(topics) == {
        "event": "topics_gone",
        "method": "DeleteTopics",
        "count": 2,
        "first_offset": 7,
        "last_offset": 9,
        "metadata_offset": 9,
        "objects": [{"type": "TOPIC", "name": "orders", "operation": "DELETE"}],
    }
    assert fields(again) == {
        "event": "log_written_again",
        "method": "MetadataLog",
        "count": 3,
        "first_offset": 10,
        "last_offset": 12,
        "metadata_offset": 12,
    }


@pytest.mark.spec("A11", "D12")
def test_the_removal_of_acls_that_have_ended_names_them_and_their_ends() -> None:
    over = replace(acl("orders"), until_ms=NOW_MS)

    assert fields(
        audit_events.acls_ended(
            [over], audit_events.LogPlace(first_offset=5, last_offset=5, metadata_offset=4)
        )
    ) == {
        "event": "acls_ended",
        "method": "DeleteAcls",
        "count": 1,
        "first_offset": 5,
        "last_offset": 5,
        "metadata_offset": 4,
        "objects": [
            {
                "type": "ACL",
                "name": "orders",
                "operation": "END",
                "key": "until",
                "old_value": end_text(NOW_MS),
                "details": {
                    "resource_type": "TOPIC",
                    "pattern_type": "LITERAL",
                    "principal": "User:alice",
                    "host": "*",
                    "operation_of_acl": "READ",
                    "permission_type": "ALLOW",
                },
            }
        ],
    }
