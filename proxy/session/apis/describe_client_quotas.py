"""DescribeClientQuotas (KIP-546): DESCRIBE_CONFIGS on the cluster; answered here, from the image.

All filter kinds: exact, default, any name, and strict. Entities come in the order of their paths.
"""

from typing import Any

from proxy.metadata.acl import Operation
from proxy.metadata.quota_entity import QuotaEntity, QuotaFilter, QuotaFilterError
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import refused
from proxy.session.call import Answer, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced, paced_sorted


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return refused(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    components = ((part.entity_type, part.match_type, part.match) for part in request.components)
    try:
        wanted = QuotaFilter.of(components, request.strict)
    except QuotaFilterError as error:
        return refused(call, request, error.error_code, str(error))
    limits = call.image.quotas.limits
    matching = [entity for entity in paced(list(limits), 2) if wanted.matches(entity)]
    entities = paced_sorted(matching, key=lambda entity: entity.path)
    entries = [_entry(entity, limits[entity]) for entity in entities]
    return Answer(types.DescribeClientQuotasResponse(entries=entries))


def _entry(entity: QuotaEntity, limits: Any) -> Any:
    response = types.DescribeClientQuotasResponse
    return response.EntryData(
        entity=[
            response.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts.items()
        ],
        values=[response.ValueData(key=key, value=limits[key]) for key in sorted(limits)],
    )


API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, decide, admin=True)
