"""AlterClientQuotas (KIP-546): alterations of quota entities -> ClientQuotaRecords.

Validation is that of KRaft's controller, and stricter where Kafka would store values that cannot work (NaN,
infinity, host names as ip). Each entity succeeds or fails as a whole. controller.py calls this once
ALTER_CONFIGS on the cluster is granted.
"""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from typing import TypeAlias

from forwarding.controller.api import MAX_RECORDS_PER_REQUEST, ControllerApi, ControllerOutcome, over_limit
from forwarding.controller.records import quota_entity
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import CLIENT_ID, IP, USER, last_of_each_type
from proxy.quota.keys import INT_MAX, KEYS
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

Part: TypeAlias = "types.AlterClientQuotasRequest.EntityData"


def alter_client_quotas(request: types.AlterClientQuotasRequest, image: MetadataImage) -> ControllerOutcome:
    """Alter quotas. The response has one result for each entity, in order; `validate_only` writes nothing."""
    entry_data = types.AlterClientQuotasResponse.EntryData
    entity_data = types.AlterClientQuotasResponse.EntityData
    times: Counter[frozenset[tuple[str, str | None]]] = Counter()
    # An entity that is named twice has one result, as in Kafka.
    last_of_entity = {}
    for entry in request.entries:
        entry.entity = last_of_each_type(entry.entity)
        identity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
        times[identity] += 1
        last_of_entity[identity] = entry
    entries, records = [], []
    for identity, entry in last_of_entity.items():
        fault = _fault(entry, times[identity])
        if fault is None:
            records += _records(entry, image)
        error_code = ErrorCode.NONE if fault is None else ErrorCode.INVALID_REQUEST
        entity = [
            entity_data(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
        ]
        entries.append(entry_data(error_code=error_code, error_message=fault, entity=entity))
    if len(records) > MAX_RECORDS_PER_REQUEST:
        what = f"Unable to perform a batch of {len(records)} records"
        return over_limit(ApiKey.ALTER_CLIENT_QUOTAS, request, what)
    response = types.AlterClientQuotasResponse(entries=entries)
    return ControllerOutcome(() if request.validate_only else tuple(records), response)


def _fault(entry: types.AlterClientQuotasRequest.EntryData, times: int) -> str | None:
    """Return what is wrong with one entity, or None."""
    if times > 1:
        # Kafka stores the first one and reports an error; here neither is stored.
        return "Ignoring duplicate entity"
    fault = _entity_fault(entry.entity)
    if fault is not None:
        return fault
    keys = Counter(op.key for op in entry.ops)
    twice = next((key for key, count in keys.items() if count > 1), None)
    if twice is not None:
        return f"Duplicate quota key {twice} not updating quota for this entity"
    faults = (_op_fault(op, entry.entity[0].entity_type == IP) for op in entry.ops)
    return next((fault for fault in faults if fault is not None), None)


def _entity_fault(entity: list[Part]) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    kinds = [part.entity_type for part in entity]
    for part in entity:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {part.entity_type}"
        if part.entity_name == "":
            return f"Empty {part.entity_type} not supported"
    if IP not in kinds:
        return None
    if len(kinds) > 1:
        return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
    return _ip_fault(entity[0].entity_name)


def _ip_fault(name: str | None) -> str | None:
    try:
        if name is not None:
            ipaddress.ip_address(name)
    except ValueError:
        # Kafka resolves a host name once, when the quota is set. If the name moved, its quota would stay on
        # the old address, so only addresses are accepted here.
        return f"{name} is not a valid IP address"
    return None


def _op_fault(op: types.AlterClientQuotasRequest.OpData, of_address: bool) -> str | None:
    if op.remove:
        # Removing is always possible, also of a key that an older version allowed.
        return None
    quota = KEYS.get(op.key)
    if quota is None or quota.of_addresses is not of_address:
        return f"Invalid configuration key {op.key}"
    if not math.isfinite(op.value):
        return f"Quota {op.key} must be a finite number"
    if op.value <= 0:
        return f"Quota {op.key} must be greater than 0"
    if quota.largest is None:
        return None
    if op.value > quota.largest:
        number = "an INT" if quota.largest == INT_MAX else "a LONG"
        return f"Proposed value for {op.key} is too large for {number}."
    if abs(op.value % 1.0) > 1e-6:
        return f"{op.key} cannot be a fractional value."
    return None


def _records(
    entry: types.AlterClientQuotasRequest.EntryData, image: MetadataImage
) -> list[types.ClientQuotaRecord]:
    """Return the records of what changes: none for a value already in effect, or for the removal of none."""
    record = types.ClientQuotaRecord
    entity = quota_entity(entry.entity)
    return [
        record(
            entity=[
                record.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ],
            key=op.key,
            value=0.0 if op.remove else op.value,
            remove=op.remove,
        )
        for op in entry.ops
        if image.quotas.limit(entity, op.key) != (None if op.remove else op.value)
    ]


CONTROLLER_APIS = (
    ControllerApi(
        key=ApiKey.ALTER_CLIENT_QUOTAS,
        decide=lambda inputs: alter_client_quotas(inputs.request, inputs.image),
        writes=("ClientQuotaRecord",),
    ),
)
