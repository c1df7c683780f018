"""AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554): ALTER or DESCRIBE on the cluster.

DescribeUserScramCredentials is served from the image: mechanisms and iterations of each requested user, or of
all users if none is requested. A user without credentials is RESOURCE_NOT_FOUND, one requested twice
DUPLICATE_RESOURCE. A denied request for all users gets its error too, although Kafka itself never responds to
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from proxy.admin.rejection import Error, rejected_parts
from proxy.metadata.acl import Operation
from proxy.session.call import Api, Call, Change, Respond, Verdict, forward_with_cluster_right, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def decide_describe(call: Call, request: types.DescribeUserScramCredentialsRequest) -> Verdict:
    """Decide a DescribeUserScramCredentials request."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return reject(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    requested = Counter(user.name for user in request.users or ()) or Counter(call.image.scram.users())
    results = [_result(call, user, count) for user, count in requested.items()]
    return Respond(types.DescribeUserScramCredentialsResponse(results=results))


def _result(
    call: Call, user: str, count: int
) -> types.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
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


def _reject_describe(
    _version: int, request: types.DescribeUserScramCredentialsRequest, error: Error
) -> types.DescribeUserScramCredentialsResponse:
    # As in Kafka, there is a result for each user, without the name.
    response = types.DescribeUserScramCredentialsResponse
    results = [response.DescribeUserScramCredentialsResult(**error) for _ in request.users or ()]
    return response(results=results, **error)


def _reject_alter(
    _version: int, request: types.AlterUserScramCredentialsRequest, error: Error
) -> types.AlterUserScramCredentialsResponse:
    response = types.AlterUserScramCredentialsResponse
    users = sorted({*(gone.name for gone in request.deletions), *(new.name for new in request.upsertions)})
    return response(results=[response.AlterUserScramCredentialsResult(user=user, **error) for user in users])


def _altered(
    request: types.AlterUserScramCredentialsRequest, response: types.AlterUserScramCredentialsResponse | None
) -> Iterator[Change]:
    rejected = rejected_parts(response, "results", lambda result: result.user)
    for gone in paced(request.deletions):
        if gone.name not in rejected:
            yield "RemoveUserScramCredentialRecord", gone.name, SCRAM_MECHANISMS.get(gone.mechanism)
    for new in paced(request.upsertions):
        if new.name not in rejected:
            mechanism = SCRAM_MECHANISMS.get(new.mechanism)
            yield "UserScramCredentialRecord", new.name, mechanism, str(new.iterations)


APIS = (
    Api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        forward_with_cluster_right,
        _reject_alter,
        admin=True,
        forwarded=True,
        cluster_right=Operation.ALTER,
        changes=_altered,
    ),
    Api(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        decide_describe,
        _reject_describe,
        admin=True,
        from_image=True,
    ),
)
