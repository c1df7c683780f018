"""Credentials of users: SCRAM credentials (KIP-554) and delegation tokens (KIP-48, KIP-373).

AlterUserScramCredentials and DescribeUserScramCredentials need ALTER or DESCRIBE on the cluster.
DescribeUserScramCredentials is served from the image: mechanisms and iterations of each requested user, or of
all users if none is requested. A user without credentials is RESOURCE_NOT_FOUND, one requested twice
DUPLICATE_RESOURCE. A denied request for all users gets its error too, although Kafka itself never responds to
it.

Creating a token for another owner needs CREATE_TOKENS on that user. The controller decides who may renew or
expire a token. Descriptions come from the image: a client sees its own tokens, and those of others with
DESCRIBE on the token or DESCRIBE_TOKENS on its owner. All of it is denied to a client that has logged in with
a token, and to one that is not authenticated, and disabled without a secret key: no right is needed for these
requests, so they do not reach the controller then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from proxy.admin.objects import Known, Object, Objects, named
from proxy.admin.rejection import Error, code_only, rejected_parts, succeeded
from proxy.admin.tokens import (
    NOT_ALLOWED,
    creation_denial,
    creation_response,
    has_foreign_renewers,
    name_requester,
    named_owner,
    rejected_creation,
)
from proxy.metadata.acl import UNTIL_TAG, Operation, ResourceType, end_of_tags, end_text, tags_of_end
from proxy.metadata.image import DelegationToken
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import ANONYMOUS, parse_principal
from proxy.session.call import (
    Api,
    Call,
    Change,
    ForwardToController,
    Respond,
    Verdict,
    forward_to_controller,
    forward_with_cluster_right,
    reject,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced, paced_sorted

_DISABLED = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


NO_ENDS = "The cluster's controller is Kafka's, which would make this credential without its end."


def decide_alter_scram(call: Call, request: types.AlterUserScramCredentialsRequest) -> Verdict:
    verdict = forward_with_cluster_right(call, request)
    ends = any(UNTIL_TAG in (new.unknown_tags or ()) for new in request.upsertions)
    if ends and isinstance(verdict, ForwardToController) and not call.gate.ends_acls:
        return reject(call, request, ErrorCode.INVALID_REQUEST, NO_ENDS)
    return verdict


def decide_describe_scram(call: Call, request: types.DescribeUserScramCredentialsRequest) -> Verdict:
    if not call.allows_cluster(Operation.DESCRIBE):
        return reject(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    requested = Counter(user.name for user in request.users or ())
    if not requested:
        users = {user for _, user in paced(list(call.image.scram.credentials))}
        requested.update(paced(paced_sorted(users)))
    results = [_result(call, user, count) for user, count in requested.items()]
    # So that a client knows that the cluster ends credentials.
    tags = {UNTIL_TAG: b""} if call.gate.ends_acls else None
    return Respond(types.DescribeUserScramCredentialsResponse(results=results, unknown_tags=tags))


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
        response.CredentialInfo(
            mechanism=int(mechanism),
            iterations=credential.iterations,
            unknown_tags=tags_of_end(credential.until_ms),
        )
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
    for gone in request.deletions:
        if gone.name not in rejected:
            yield "RemoveUserScramCredentialRecord", gone.name, SCRAM_MECHANISMS.get(gone.mechanism)
    for new in request.upsertions:
        if new.name not in rejected:
            mechanism = SCRAM_MECHANISMS.get(new.mechanism)
            yield "UserScramCredentialRecord", new.name, mechanism, str(new.iterations)


def _alterations(
    request: types.AlterUserScramCredentialsRequest,
    response: types.AlterUserScramCredentialsResponse | None,
    known: Known,
) -> Iterator[Object]:
    parts = {} if response is None else {result.user: result for result in response.results}
    changes = [
        *((gone.name, gone.mechanism, None, None) for gone in request.deletions),
        *(
            (new.name, new.mechanism, new.iterations, end_of_tags(new.unknown_tags))
            for new in request.upsertions
        ),
    ]
    for user, mechanism, iterations, until_ms in changes:
        old = {int(kind): each.iterations for kind, each in known.image.scram.of_user(user).items()}
        yield named(
            "USER",
            user,
            "DELETE" if iterations is None else "UPSERT",
            parts.get(user),
            key="iterations",
            old_value=old.get(mechanism),
            new_value=iterations,
            mechanism=SCRAM_MECHANISMS.get(mechanism, str(mechanism)),
            until=None if until_ms is None else end_text(until_ms),
        )


def decide_create(call: Call, request: types.CreateDelegationTokenRequest) -> Verdict:
    """Decide a CreateDelegationToken request, for the client itself or for the owner in the request (v3)."""
    requester = call.context.principal
    owner = named_owner(request, requester)
    if owner is None:
        return reject(call, request, ErrorCode.UNKNOWN_SERVER_ERROR)
    error = creation_denial(call, may_request_tokens(call), owner)
    if error is None and call.gate.token_secret is None:
        disabled = creation_response(call.version, owner, requester)
        disabled.error_code = _DISABLED
        return Respond(disabled)
    if error is None and has_foreign_renewers(request):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is not None:
        return Respond(rejected_creation(call.version, owner, requester, error))
    return forward_to_controller(request)


def _decide_change(
    call: Call,
    request: types.RenewDelegationTokenRequest | types.ExpireDelegationTokenRequest,
    response: type[types.RenewDelegationTokenResponse | types.ExpireDelegationTokenResponse],
) -> Verdict:
    """Decide a request for another end of a token; the controller checks who may change it."""
    if not may_request_tokens(call):
        return Respond(response(**NOT_ALLOWED))
    if call.gate.token_secret is None:
        return Respond(response(error_code=_DISABLED))
    return forward_to_controller(request)


def decide_describe_tokens(call: Call, request: types.DescribeDelegationTokenRequest) -> Verdict:
    """Decide a DescribeDelegationToken request: the tokens that the client may see, oldest first."""
    response = types.DescribeDelegationTokenResponse
    secret = call.gate.token_secret
    if not may_request_tokens(call):
        return Respond(response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if secret is None:
        return Respond(response(error_code=_DISABLED))
    shown = paced_sorted(
        _shown(call, request.owners), key=lambda token: (token.issue_timestamp_ms, token.token_id)
    )
    return Respond(response(tokens=[_described(call.version, token, secret) for token in paced(shown, 16)]))


def may_request_tokens(call: Call) -> bool:
    """Whether the client is authenticated, and not by a token: a token must not yield further ones."""
    principal, listener = call.context.principal, call.listener
    is_unauthenticated = principal == ANONYMOUS or listener.security_protocol == "PLAINTEXT"
    return not (principal.token_authenticated or (listener.sasl is None and is_unauthenticated))


def _shown(
    call: Call, owners: list[types.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
) -> list[DelegationToken]:
    """Return the tokens of these owners that the client may see; `owners` None: of all owners."""
    own_name = str(call.context.principal)
    names = (
        None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in paced(owners)}
    )
    tokens = list(call.image.tokens.by_id.each_value())
    requested = [
        token for token in paced(tokens, 2) if names is None or not names.isdisjoint(token.principals)
    ]
    others = [token for token in paced(requested) if not token.concerns(own_name)]
    # A hidden token is not a denial. A shown one is recorded, because the client gets its secret.
    ids, owners_of_others = (t.token_id for t in paced(others)), (t.owner for t in paced(others))
    by_id = call.granted_names(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, ids)
    by_owner = call.granted_names(Operation.DESCRIBE_TOKENS, ResourceType.USER, owners_of_others)
    hidden = {t.token_id for t in paced(others) if t.token_id not in by_id and t.owner not in by_owner}
    return [token for token in paced(requested) if token.token_id not in hidden]


def _described(
    version: int, token: DelegationToken, secret: TokenSecret
) -> types.DescribeDelegationTokenResponse.DescribedDelegationToken:
    response = types.DescribeDelegationTokenResponse
    owner = parse_principal(token.owner)
    described = response.DescribedDelegationToken(
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=secret.hmac(token.token_id),
        renewers=[
            response.DescribedDelegationTokenRenewer(
                principal_type=renewer.principal_type, principal_name=renewer.name
            )
            for renewer in map(parse_principal, token.renewers)
        ],
    )
    name_requester(described, version, parse_principal(token.requester))
    return described


def _reject_create(
    version: int, _request: types.CreateDelegationTokenRequest, error: Error
) -> types.CreateDelegationTokenResponse:
    """Reject with User:ANONYMOUS as owner and requester, as Kafka's brokers do."""
    return rejected_creation(version, ANONYMOUS, ANONYMOUS, error["error_code"])


def _created(
    request: types.CreateDelegationTokenRequest, response: types.CreateDelegationTokenResponse | None
) -> Iterator[Change]:
    if response is None:
        yield ("DelegationTokenRecord",)
    elif succeeded(response):
        yield "DelegationTokenRecord", str(response.expiry_timestamp_ms), response.token_id


def _renewed(
    request: Message,
    response: types.RenewDelegationTokenResponse | types.ExpireDelegationTokenResponse | None,
) -> Iterator[Change]:
    if response is None:
        yield ("DelegationTokenRecord",)
    elif succeeded(response):
        yield "DelegationTokenRecord", str(response.expiry_timestamp_ms)


def _expired(
    request: types.ExpireDelegationTokenRequest, response: types.ExpireDelegationTokenResponse | None
) -> Iterator[Change]:
    # A negative period expires the token at once. The request names the token by its HMAC only.
    if request.expiry_time_period_ms >= 0:
        yield from _renewed(request, response)
    elif response is None or succeeded(response):
        yield ("RemoveDelegationTokenRecord",)


def _creation(
    request: types.CreateDelegationTokenRequest,
    response: types.CreateDelegationTokenResponse | None,
    _known: Known,
) -> Iterator[Object]:
    named_owner = request.owner_principal_type, request.owner_principal_name
    owner = named_owner if response is None else (response.principal_type, response.principal_name)
    details = {
        "key": "expiry_timestamp_ms",
        "new_value": response.expiry_timestamp_ms if response and succeeded(response) else None,
        "owner": ":".join(part or "" for part in owner) if any(owner) else None,
        "renewers": ",".join(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
        or None,
        "max_lifetime_ms": request.max_lifetime_ms,
    }
    yield named("TOKEN", (response and response.token_id) or None, "CREATE", response, **details)


def _new_expiry(operation: str) -> Objects:
    def objects(
        request: types.RenewDelegationTokenRequest | types.ExpireDelegationTokenRequest,
        response: types.RenewDelegationTokenResponse | types.ExpireDelegationTokenResponse | None,
        known: Known,
    ) -> Iterator[Object]:
        # The request names the token by its HMAC only.
        secret = known.token_secret
        token = secret.token_of(bytes(request.hmac), known.image.tokens) if secret is not None else None
        new_value = response.expiry_timestamp_ms if response and succeeded(response) else None
        details = {"key": "expiry_timestamp_ms", "new_value": new_value}
        if token is None:
            yield named("TOKEN", None, operation, response, **details)
            return
        details |= {"old_value": token.expiry_timestamp_ms, "owner": token.owner}
        yield named("TOKEN", token.token_id, operation, response, **details)

    return objects


APIS = (
    Api(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        decide_alter_scram,
        _reject_alter,
        admin="controller",
        cluster_right=Operation.ALTER,
        changes=_altered,
        objects=_alterations,
    ),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, decide_describe_scram, _reject_describe, admin="image"),
    Api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        decide_create,
        _reject_create,
        admin="controller",
        changes=_created,
        objects=_creation,
    ),
    Api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        lambda call, request: _decide_change(call, request, types.RenewDelegationTokenResponse),
        code_only("RenewDelegationTokenResponse"),
        admin="controller",
        changes=_renewed,
        objects=_new_expiry("RENEW"),
    ),
    Api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        lambda call, request: _decide_change(call, request, types.ExpireDelegationTokenResponse),
        code_only("ExpireDelegationTokenResponse"),
        admin="controller",
        changes=_expired,
        objects=_new_expiry("EXPIRE"),
    ),
    Api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        decide_describe_tokens,
        code_only("DescribeDelegationTokenResponse"),
        admin="image",
    ),
)
