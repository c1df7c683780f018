"""Create, Renew, Expire and DescribeDelegationToken (KIP-48, KIP-373).

CREATE_TOKENS on the user for a token that somebody else is to own; who may renew and expire one the
controller knows. Descriptions come from the image: one's own tokens, those of others with DESCRIBE on the
token or DESCRIBE_TOKENS on its owner. Nothing of it for a client that logged in with a token itself, nor for
one that nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proxy.admin.rejection import Error, code_only, succeeded
from proxy.admin.tokens import (
    NOT_ALLOWED,
    creation_denial,
    has_foreign_renewers,
    name_requester,
    named_owner,
    rejected_creation,
)
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.tokens import DelegationToken
from proxy.security.principal import ANONYMOUS, Principal, parse_principal
from proxy.security.token_secret import TokenSecret
from proxy.session.call import Api, Call, Change, Respond, Verdict, forward_to_controller, reject
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message
from proxy.wire.work import paced, paced_sorted


def decide_create(call: Call, request: types.CreateDelegationTokenRequest) -> Verdict:
    """A token for who asks, or for the owner named in the request (v3)."""
    requester = call.context.principal
    owner = named_owner(request, requester)
    if owner is None:
        return reject(call, request, ErrorCode.UNKNOWN_SERVER_ERROR)
    fault = _creation_fault(call, request, owner)
    if fault is not None:
        return Respond(rejected_creation(call.version, owner, requester, fault))
    return forward_to_controller(request)


def decide_renew(call: Call, request: types.RenewDelegationTokenRequest) -> Verdict:
    """The controller knows whose it is."""
    if not may_ask(call):
        return Respond(types.RenewDelegationTokenResponse(**NOT_ALLOWED))
    return forward_to_controller(request)


def decide_expire(call: Call, request: types.ExpireDelegationTokenRequest) -> Verdict:
    """The controller knows whose it is."""
    if not may_ask(call):
        return Respond(types.ExpireDelegationTokenResponse(**NOT_ALLOWED))
    return forward_to_controller(request)


def decide_describe(call: Call, request: types.DescribeDelegationTokenRequest) -> Verdict:
    """Of the owners asked for, or of all: what the client may see, the oldest first."""
    response = types.DescribeDelegationTokenResponse
    secret = call.gate.token_secret
    if not may_ask(call):
        return Respond(response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if secret is None:
        return Respond(response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    shown = paced_sorted(
        _shown(call, request.owners), key=lambda token: (token.issue_timestamp_ms, token.token_id)
    )
    return Respond(response(tokens=[_described(call.version, token, secret) for token in paced(shown, 16)]))


def may_ask(call: Call) -> bool:
    """Not with a token, which must not be good for further ones, and not as anybody."""
    principal, listener = call.context.principal, call.listener
    nobody = principal == ANONYMOUS or listener.security_protocol == "PLAINTEXT"
    return not (principal.token_authenticated or (listener.sasl is None and nobody))


def _creation_fault(
    call: Call, request: types.CreateDelegationTokenRequest, owner: Principal
) -> ErrorCode | None:
    fault = creation_denial(call, may_ask(call), owner)
    if fault is None and has_foreign_renewers(request):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return fault


def _shown(
    call: Call, owners: list[types.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
) -> list[DelegationToken]:
    """`owners` None: of everybody."""
    me = str(call.context.principal)
    names = (
        None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in paced(owners)}
    )
    tokens = list(call.image.tokens.by_id.each_value())
    asked = [token for token in paced(tokens, 2) if names is None or not names.isdisjoint(token.principals)]
    others = [token for token in paced(asked) if not token.concerns(me)]
    by_id = _granted(call, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, (t.token_id for t in others))
    by_owner = _granted(call, Operation.DESCRIBE_TOKENS, ResourceType.USER, (t.owner for t in others))
    hidden = {t.token_id for t in paced(others) if t.token_id not in by_id and t.owner not in by_owner}
    return [token for token in paced(asked) if token.token_id not in hidden]


def _granted(call: Call, operation: Operation, resource_type: ResourceType, names: Iterable[str]) -> set[str]:
    """Not to see another's token is no denial; to see it is to get its secret, and written down."""
    return call.allowed_names(operation, resource_type, call.shows(operation, resource_type, names))


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
    """Names nobody as owner and requester, as Kafka's brokers do."""
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
    # At once, or a time given to it; which token it is the request says by its HMAC only.
    if request.expiry_time_period_ms >= 0:
        yield from _renewed(request, response)
    elif response is None or succeeded(response):
        yield ("RemoveDelegationTokenRecord",)


APIS = (
    Api(
        ApiKey.CREATE_DELEGATION_TOKEN,
        decide_create,
        _reject_create,
        admin=True,
        forwarded=True,
        changes=_created,
    ),
    Api(
        ApiKey.RENEW_DELEGATION_TOKEN,
        decide_renew,
        code_only("RenewDelegationTokenResponse"),
        admin=True,
        forwarded=True,
        changes=_renewed,
    ),
    Api(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        decide_expire,
        code_only("ExpireDelegationTokenResponse"),
        admin=True,
        forwarded=True,
        changes=_expired,
    ),
    Api(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        decide_describe,
        code_only("DescribeDelegationTokenResponse"),
        admin=True,
        from_image=True,
    ),
)
