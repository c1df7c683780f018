"""What the audit is told of a forwarded request once it is answered: one record of it, one per changed quota.

Made by forwarding.net.writer from what was decided and committed. The order of the fields and their
encoding are proxy.audit.record's.
"""

import json
from collections.abc import Collection, Iterable
from typing import Any

from forwarding.controller.controller import Sender
from forwarding.controller.record_keys import quota_entity
from forwarding.envelope import Forwarded
from proxy.audit.record import AuditEvent
from proxy.quota.mutation import CONTROLLER_MUTATION_RATE
from proxy.quota.precedence import Governing
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

PARTS = ("topics", "responses", "results", "filter_results", "entries")
"""The fields that hold a response's results, by API."""


def forwarded_received(
    sender: Sender,
    forwarded: Forwarded,
    error_code: int,
    offsets: tuple[int | None, int | None],
    metadata_offset: int | None,
    message: str | None = None,
) -> AuditEvent:
    """The controller's side of a forward; `offsets` are the first and last its records were committed at."""
    header = forwarded.header
    return AuditEvent(
        event="forwarded_received",
        listener=sender.listener,
        host=forwarded.host,
        principal=str(forwarded.principal),
        forwarding_principal=str(sender.principal),
        client_id=header.client_id,
        method=ApiKey.name_of(header.api_key),
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        forward_id=forwarded.forward_id,
        error_code=error_code,
        first_offset=offsets[0],
        last_offset=offsets[1],
        metadata_offset=metadata_offset,
        message=message,
    )


def envelope_refused(sender: Sender, error_code: int, message: str) -> AuditEvent:
    """An Envelope that was not even opened."""
    return AuditEvent(
        event="request_refused",
        listener=sender.listener,
        host=sender.host,
        principal=str(sender.principal),
        client_id=sender.client_id,
        method="Envelope",
        error_code=error_code,
        message=message,
    )


def quotas_changed(records: Iterable[Any], last_offset: int | None) -> list[AuditEvent]:
    """One event for each entity whose quotas changed, with the notification of KIP-55 (Q9)."""
    paths = dict.fromkeys(
        quota_entity(record.entity).path for record in records if type(record).__name__ == "ClientQuotaRecord"
    )
    return [
        AuditEvent(
            event="quota_changed",
            entity_path=path,
            last_offset=last_offset,
            message=json.dumps({"version": 2, "entity_path": path}, separators=(",", ":")),
        )
        for path in paths
    ]


def mutations_throttled(
    sender: Sender, forwarded: Forwarded, quota: Governing, throttle_time_ms: int
) -> AuditEvent:
    """A client that has changed more partitions than its quota allows (KIP-599)."""
    header = forwarded.header
    return AuditEvent(
        event="throttled",
        listener=sender.listener,
        host=forwarded.host,
        principal=str(forwarded.principal),
        forwarding_principal=str(sender.principal),
        client_id=header.client_id,
        method=ApiKey.name_of(header.api_key),
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        forward_id=forwarded.forward_id,
        quota_key=CONTROLLER_MUTATION_RATE,
        quota_id=quota.quota_id,
        quota_limit=quota.limit,
        count=1,
        throttle_time_ms=throttle_time_ms,
    )


def tokens_expired(
    records: Collection[Any], offsets: tuple[int | None, int], metadata_offset: int
) -> AuditEvent:
    """Delegation tokens that the controller removed by itself, and where in the log it did."""
    return AuditEvent(
        event="tokens_expired",
        method=ApiKey.name_of(ApiKey.EXPIRE_DELEGATION_TOKEN),
        count=len(records),
        first_offset=offsets[0],
        last_offset=offsets[1],
        metadata_offset=metadata_offset,
    )


def error_of(response: Any) -> int:
    """The first error a response tells, at its top or of one of its parts; NONE when all went well."""
    top = getattr(response, "error_code", ErrorCode.NONE)
    if top != ErrorCode.NONE:
        return int(top)
    parts = (part for name in PARTS for part in getattr(response, name, None) or ())
    codes = (getattr(part, "error_code", ErrorCode.NONE) for part in parts)
    return int(next((code for code in codes if code != ErrorCode.NONE), ErrorCode.NONE))
