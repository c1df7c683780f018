"""DescribeAcls (KIP-140, KIP-290): DESCRIBE on the cluster; answered here, from the image.

Bindings are grouped by resource pattern, in the order of their names. A filter that means something nobody
knows closes the connection (see acl_numbers): it must not come to match everything.
"""

from collections import defaultdict
from typing import Any

from proxy.metadata.acl import Acl, AclFilter, Operation
from proxy.security.protected import acls_in_log
from proxy.session.apis.acl_numbers import must_be_known
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import denied, refused
from proxy.session.call import Answer, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced, paced_sorted

NO_AUTHORIZER_MESSAGE = "No Authorizer is configured on the broker"


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    must_be_known([request])
    if not call.allows_cluster(Operation.DESCRIBE):
        return denied(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not acls_in_log(call.gate.authorizer):
        return refused(call, request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_MESSAGE)
    wanted = AclFilter.requested(request)
    response = types.DescribeAclsResponse
    by_pattern: defaultdict[tuple[Any, ...], list[Acl]] = defaultdict(list)
    for acl in call.image.acls.select(wanted):
        by_pattern[acl.resource_type, acl.resource_name, acl.pattern_type].append(acl)
    return Answer(
        response(
            resources=[
                _resource(response, pattern, by_pattern.pop(pattern)) for pattern in paced_sorted(by_pattern)
            ],
        )
    )


def _resource(response: Any, pattern: tuple[Any, ...], acls: list[Acl]) -> Any:
    bindings = dict.fromkeys(acl.binding for acl in paced(acls))
    return response.DescribeAclsResource(
        resource_type=int(pattern[0]),
        resource_name=pattern[1],
        pattern_type=int(pattern[2]),
        acls=[
            response.AclDescription(
                principal=principal, host=host, operation=int(operation), permission_type=int(permission)
            )
            for *_, principal, host, operation, permission in paced_sorted(bindings)
        ],
    )


API = Api(ApiKey.DESCRIBE_ACLS, decide, admin=True)
