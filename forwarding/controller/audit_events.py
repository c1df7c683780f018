"""The audit events of a forwarded request, and of changes that the controller makes by itself.

forwarding.net.request_processor makes them from decisions and commits. proxy.audit.record defines the order
and the encoding of the fields.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from typing import TypedDict

from forwarding.controller.records import quota_entity
from forwarding.envelope import ForwardedRequest, Sender
from proxy.admin.objects import MAX_BYTES, Object, bounded, named, recorded
from proxy.audit import events
from proxy.audit.events import Requester
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Acl
from proxy.quota.keys import CONTROLLER_MUTATION_RATE
from proxy.quota.mutation import MutationQuota
from proxy.session.accounting.summaries import OBSERVE
from proxy.session.apis.acls import ended_object
from proxy.session.apis.table import TABLE
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message


def forwarded_received(
    sender: Sender,
    forwarded: ForwardedRequest,
    error_code: int,
    offsets: tuple[int | None, int | None],
    metadata_offset: int | None,
    message: str | None = None,
    response: Message | None = None,
) -> AuditEvent:
    """The controller's record of a forward. `offsets`: first and last offset of its records in the log."""
    return events.forwarded_received(
        **requester(sender, forwarded),
        error_code=error_code,
        first_offset=offsets[0],
        last_offset=offsets[1],
        metadata_offset=metadata_offset,
        message=message,
        objects=_objects(forwarded, response),
    )


def _objects(forwarded: ForwardedRequest, response: Message | None) -> list[Object] | None:
    objects = TABLE[forwarded.header.api_key].objects
    if objects is None:
        return None
    return recorded(objects, forwarded.message, response, forwarded.known, forwarded.size_bytes)


def envelope_rejected(sender: Sender, error_code: int, message: str) -> AuditEvent:
    """An Envelope that was rejected before it was opened."""
    return events.request_refused(
        listener=sender.listener,
        host=sender.host,
        principal=str(sender.principal),
        client_id=sender.client_id,
        method="Envelope",
        error_code=error_code,
        message=message,
    )


def assertion_broken(
    sender: Sender, forwarded: ForwardedRequest, metadata_offset: int, message: str
) -> AuditEvent:
    """A change of ACLs was rejected: an assertion about the policy would not hold after it."""
    return events.request_refused(
        **requester(sender, forwarded),
        error_code=int(ErrorCode.POLICY_VIOLATION),
        metadata_offset=metadata_offset,
        message=message,
    )


def quotas_changed(records: Iterable[Message], last_offset: int | None) -> Iterator[AuditEvent]:
    """Yield one event for each entity whose quotas changed, with the notification of KIP-55 (Q9)."""
    seen: set[str] = set()
    for record in records:
        if not isinstance(record, types.ClientQuotaRecord):
            continue
        path = quota_entity(record.entity).path
        if path not in seen:
            seen.add(path)
            message = json.dumps({"version": 2, "entity_path": path}, separators=(",", ":"))
            yield events.quota_changed(entity_path=path, last_offset=last_offset, message=message)


def mutations_throttled(
    sender: Sender,
    forwarded: ForwardedRequest,
    quota: MutationQuota,
    metadata_offset: int,
    throttle_time_ms: int,
) -> AuditEvent:
    """A client changed more partitions than its quota allows (KIP-599)."""
    return events.throttled(
        **requester(sender, forwarded),
        **_quota(quota),
        metadata_offset=metadata_offset,
        count=1,
        throttle_time_ms=throttle_time_ms,
    )


def mutations_counted(
    sender: Sender, forwarded: ForwardedRequest, quota: MutationQuota, metadata_offset: int, now_ms: int
) -> AuditEvent:
    """The number of partitions that a request was charged for, before a broker carries it out."""
    return events.quota_used(
        **requester(sender, forwarded),
        **_quota(quota),
        metadata_offset=metadata_offset,
        count=quota.taken,
        interval_start_ms=now_ms,
        interval_end_ms=now_ms,
    )


class _Quota(TypedDict):
    quota_key: str
    quota_id: str
    quota_limit: float
    settings_generation: int | None
    groups: tuple[str, ...] | None
    rule: str | None


def _quota(quota: MutationQuota) -> _Quota:
    return {
        "quota_key": CONTROLLER_MUTATION_RATE,
        "quota_id": quota.governing.quota_id,
        "quota_limit": quota.governing.limit,
        "settings_generation": quota.settings_generation or None,
        "groups": quota.groups or None,
        "rule": None if quota.enforced else OBSERVE,
    }


class LogPlace(TypedDict):
    """Where the log has the records of a change, and the offset of the image that has it."""

    first_offset: int | None
    last_offset: int
    metadata_offset: int


def tokens_expired(records: Collection[Message], at: LogPlace) -> AuditEvent:
    """Expired delegation tokens that the controller removed."""
    names = [record.token_id for record in records if isinstance(record, types.RemoveDelegationTokenRecord)]
    return events.tokens_expired(
        method=ApiKey.name_of(ApiKey.EXPIRE_DELEGATION_TOKEN),
        count=len(records),
        **at,
        objects=bounded((named("TOKEN", name, "EXPIRE") for name in names), MAX_BYTES),
    )


def acls_ended(acls: Collection[Acl], at: LogPlace) -> AuditEvent:
    """ACLs that had ended and that the controller removed."""
    return events.acls_ended(
        method=ApiKey.name_of(ApiKey.DELETE_ACLS),
        count=len(acls),
        **at,
        objects=bounded((ended_object(acl) for acl in acls), MAX_BYTES),
    )


def log_written_again(records: Collection[Message], at: LogPlace) -> AuditEvent:
    """What was in effect, written again: unsigned records hid it, or the log was not signed before."""
    return events.log_written_again(method="MetadataLog", count=len(records), **at)


def topics_deleted(records: Collection[Message], at: LogPlace) -> AuditEvent:
    """Topics that were deleted directly at a broker: the log's records of them are removed."""
    # Of each topic there is a removed config; the record that removes it has only its id.
    names = dict.fromkeys(each.resource_name for each in records if isinstance(each, types.ConfigRecord))
    return events.topics_gone(
        method=ApiKey.name_of(ApiKey.DELETE_TOPICS),
        count=sum(isinstance(record, types.RemoveTopicRecord) for record in records),
        **at,
        objects=bounded((named("TOPIC", name, "DELETE") for name in names), MAX_BYTES),
    )


def requester(sender: Sender, forwarded: ForwardedRequest) -> Requester:
    """The fields that identify a forwarded request: client, sender, request and forward id."""
    header = forwarded.header
    return {
        "listener": sender.listener,
        "host": forwarded.host,
        "principal": str(forwarded.principal),
        "forwarding_principal": str(sender.principal),
        "client_id": header.client_id,
        "method": ApiKey.name_of(header.api_key),
        "api_version": header.api_version,
        "correlation_id": header.correlation_id,
        "forward_id": forwarded.forward_id,
    }
