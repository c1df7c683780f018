"""DescribeUserScramCredentials (KIP-554): DESCRIBE on the cluster; answered here, from the image.

Mechanisms and iterations of each user asked for, of all when none is. A user without credentials is
RESOURCE_NOT_FOUND, one asked for twice DUPLICATE_RESOURCE. A denied request for all users gets its error too:
Kafka itself never answers that one.
"""

from collections import Counter
from typing import Any

from proxy.metadata.acl import Operation
from proxy.session.apis.api import Api
from proxy.session.apis.refusal import refused
from proxy.session.call import Answer, Call, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide(call: Call, request: Any) -> Verdict:
    """See the module."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return refused(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = Counter(user.name for user in request.users or ()) or Counter(call.image.scram.users())
    results = [_result(call, user, count) for user, count in asked.items()]
    return Answer(types.DescribeUserScramCredentialsResponse(results=results))


def _result(call: Call, user: str, count: int) -> Any:
    response = types.DescribeUserScramCredentialsResponse
    result = response.DescribeUserScramCredentialsResult
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=message)
    credentials = call.image.scram.of_user(user)
    if not credentials:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=message)
    infos = [
        response.CredentialInfo(mechanism=int(mechanism), iterations=credential.iterations)
        for mechanism, credential in credentials.items()
    ]
    return result(user=user, credential_infos=infos)


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, decide, admin=True)
