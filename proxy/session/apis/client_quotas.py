"""AlterClientQuotas and DescribeClientQuotas (KIP-546): ALTER_CONFIGS or DESCRIBE_CONFIGS on the cluster.

DescribeClientQuotas is served from the image, with all kinds of filters: exact, default, any name, strict.
Entities are sorted by their paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proxy.admin.objects import Known, Object, named
from proxy.admin.rejection import Error, code_and_message, rejected_parts
from proxy.metadata.acl import Operation
from proxy.metadata.quota_entity import QuotaEntity, QuotaFilter, QuotaFilterError, last_of_each_type
from proxy.session.call import Api, Call, Change, Respond, Verdict, forward_with_cluster_right, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced, paced_sorted


def decide_describe(call: Call, request: types.DescribeClientQuotasRequest) -> Verdict:
    if not call.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return reject(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    components = ((part.entity_type, part.match_type, part.match) for part in request.components)
    try:
        wanted = QuotaFilter.of(components, request.strict)
    except QuotaFilterError as error:
        return reject(call, request, error.error_code, str(error))
    limits = call.image.quotas.limits
    matching = [entity for entity in paced(list(limits), 2) if wanted.matches(entity)]
    entities = paced_sorted(matching, key=lambda entity: entity.path)
    entries = [_entry(entity, limits[entity]) for entity in entities]
    return Respond(types.DescribeClientQuotasResponse(entries=entries))


def _entry(entity: QuotaEntity, limits: Mapping[str, float]) -> types.DescribeClientQuotasResponse.EntryData:
    response = types.DescribeClientQuotasResponse
    return response.EntryData(
        entity=[
            response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts.items()
        ],
        values=[response.ValueData(key=key, value=limits[key]) for key in sorted(limits)],
    )


def _reject_alter(
    _version: int, request: types.AlterClientQuotasRequest, error: Error
) -> types.AlterClientQuotasResponse:
    response = types.AlterClientQuotasResponse
    return response(
        entries=[
            response.EntryData(
                entity=[
                    response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
                **error,
            )
            for entry in request.entries
        ]
    )


def _altered(
    request: types.AlterClientQuotasRequest, response: types.AlterClientQuotasResponse | None
) -> Iterator[Change]:
    rejected = rejected_parts(response, "entries", _entity_of)
    for entry in request.entries:
        entity = _entity_of(entry)
        # If a key is named twice, the last value applies.
        for key, op in {op.key: op for op in entry.ops}.items():
            if entity not in rejected:
                yield "ClientQuotaRecord", key, *entity, None if op.remove else repr(float(op.value))


def _alterations(
    request: types.AlterClientQuotasRequest, response: types.AlterClientQuotasResponse | None, known: Known
) -> Iterator[Object]:
    parts = {} if response is None else {_entity_of(entry): entry for entry in response.entries}
    for entry in request.entries:
        entity = _entity_of(entry)
        part, name = parts.get(entity), ",".join(entity)
        try:
            of_image = QuotaEntity.of((each.entity_type, each.entity_name) for each in entry.entity)
            old = known.image.quotas.limits.get(of_image) or {}
        except ValueError:
            old = {}  # It is rejected.
        for op in entry.ops:
            yield named(
                "QUOTA",
                name,
                "DELETE" if op.remove else "SET",
                part,
                key=op.key,
                old_value=old.get(op.key),
                new_value=None if op.remove else float(op.value),
            )


def _entity_of(
    entry: types.AlterClientQuotasRequest.EntryData | types.AlterClientQuotasResponse.EntryData,
) -> tuple[str, ...]:
    """Return `client-id=x` for each part, or the type alone for the default; sorted."""
    return tuple(
        sorted(
            part.entity_type if part.entity_name is None else f"{part.entity_type}={part.entity_name}"
            for part in last_of_each_type(entry.entity)
        )
    )


APIS = (
    Api(
        ApiKey.ALTER_CLIENT_QUOTAS,
        forward_with_cluster_right,
        _reject_alter,
        admin="controller",
        cluster_right=Operation.ALTER_CONFIGS,
        changes=_altered,
        objects=_alterations,
    ),
    Api(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        decide_describe,
        code_and_message("DescribeClientQuotasResponse", entries=None),
        admin="image",
    ),
)
