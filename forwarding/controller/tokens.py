"""Create, Renew and ExpireDelegationToken (KIP-48, KIP-373): a request and the tokens there are -> records.

As KRaft's controller decides them: who asks may get a token for himself, with CREATE_TOKENS on the user for
another; owner and renewers, and nobody else, renew and expire it, whatever rights they have. The HMAC goes
into the answer to who created the token, never into a record. Asked by controller.py.
"""

from __future__ import annotations

from typing import TypeVar

from forwarding.controller.outcome import Outcome
from forwarding.controller.served import Asked, Repeated, Served
from proxy.admin.tokens import (
    NOT_ALLOWED,
    creation_denial,
    creation_response,
    has_foreign_renewers,
    named_owner,
    rejected_creation,
)
from proxy.metadata.acl import uuid_text
from proxy.metadata.image import MetadataImage
from proxy.metadata.tokens import DelegationToken
from proxy.security.principal import Principal, parse_principal
from proxy.session.apis.table import rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

Asking = TypeVar("Asking", bound=Message)

LONG_MAX = 2**63 - 1
MALFORMED = ErrorCode.UNKNOWN_SERVER_ERROR
"""Kafka fails on an owner with a name and no type, and reports it like this."""
MAX_RECORDS_PER_SWEEP = 1_000
"""As KRaft's controller: what has expired goes in pieces, between which others have their turn."""


def create_delegation_token(asked: Asked[types.CreateDelegationTokenRequest]) -> Outcome:
    """A token for who asks, or for the owner named in the request (v3)."""
    request, requester, version = asked.request, asked.access.context.principal, asked.access.api_version
    owner = named_owner(request, requester)
    if owner is None:
        return Outcome((), rejection(ApiKey.CREATE_DELEGATION_TOKEN, version, request, MALFORMED))
    denial = creation_denial(asked.access, _may_ask(asked), owner)
    if denial is not None:
        return Outcome((), rejected_creation(version, owner, requester, denial))
    secret, response = asked.tokens.secret, creation_response(version, owner, requester)
    if secret is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return Outcome((), response)
    if has_foreign_renewers(request):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return Outcome((), response)
    token = _new_token(asked, owner)
    response.token_id, response.hmac = token.token_id, secret.hmac(token.token_id)
    response.issue_timestamp_ms = token.issue_timestamp_ms
    response.expiry_timestamp_ms = token.expiry_timestamp_ms
    response.max_timestamp_ms = token.max_timestamp_ms
    return Outcome((_record(token, token.expiry_timestamp_ms),), response)


def renew_delegation_token(asked: Asked[types.RenewDelegationTokenRequest]) -> Outcome:
    """Longer, by the period asked for or the default one, but not beyond the token's maximum."""
    response = types.RenewDelegationTokenResponse
    if not _may_ask(asked):
        return Outcome((), response(**NOT_ALLOWED))
    found = _found(asked)
    if isinstance(found, ErrorCode):
        return Outcome((), response(error_code=found))
    # In this order: of a token that is over anybody who has the HMAC learns just that.
    if found.expired(asked.now_ms):
        return Outcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_change(asked, found):
        return Outcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = _at_most(asked.tokens.expiry_time_ms, asked.request.renew_period_ms)
    expiry_ms = min(found.max_timestamp_ms, asked.now_ms + period_ms)
    return Outcome((_record(found, expiry_ms),), response(expiry_timestamp_ms=expiry_ms))


def expire_delegation_token(asked: Asked[types.ExpireDelegationTokenRequest]) -> Outcome:
    """Over after the period asked for; a negative one removes the token at once."""
    response = types.ExpireDelegationTokenResponse
    if not _may_ask(asked):
        return Outcome((), response(**NOT_ALLOWED))
    found = _found(asked)
    if isinstance(found, ErrorCode):
        return Outcome((), response(error_code=found))
    if not _may_change(asked, found):
        return Outcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = asked.request.expiry_time_period_ms
    if period_ms < 0:
        return Outcome((_removal(found),), response(expiry_timestamp_ms=asked.now_ms))
    if found.expired(asked.now_ms):
        return Outcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry_ms = min(found.max_timestamp_ms, asked.now_ms + period_ms)
    return Outcome((_record(found, expiry_ms),), response(expiry_timestamp_ms=expiry_ms))


def expired_tokens(image: MetadataImage, now_ms: int) -> tuple[types.RemoveDelegationTokenRecord, ...]:
    """Records that remove what has expired, some at a time."""
    over = [token for token in image.tokens.by_id.each_value() if token.expired(now_ms)]
    return tuple(_removal(token) for token in over[:MAX_RECORDS_PER_SWEEP])


def _new_token(asked: Asked[types.CreateDelegationTokenRequest], owner: Principal) -> DelegationToken:
    settings, now_ms = asked.tokens, asked.now_ms
    max_ms = min(now_ms + _at_most(settings.max_lifetime_ms, asked.request.max_lifetime_ms), LONG_MAX)
    return DelegationToken(
        token_id=uuid_text(asked.new_id()),
        owner=str(owner),
        requester=str(asked.access.context.principal),
        renewers=tuple(f"{part.principal_type}:{part.principal_name}" for part in asked.request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=max_ms,
        expiry_timestamp_ms=min(max_ms, now_ms + settings.expiry_time_ms),
    )


def _found(
    asked: Asked[types.RenewDelegationTokenRequest] | Asked[types.ExpireDelegationTokenRequest],
) -> DelegationToken | ErrorCode:
    """The token whose HMAC the request bears."""
    if asked.tokens.secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    found = asked.tokens.secret.token_of(bytes(asked.request.hmac), asked.image.tokens)
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND if found is None else found


def _may_ask(asked: Asked[Asking]) -> bool:
    # A token must not be good for further ones: whoever stole it could stay for ever.
    return not (asked.tokens.plaintext_listener or asked.access.context.principal.token_authenticated)


def _may_change(asked: Asked[Asking], token: DelegationToken) -> bool:
    return token.renewable_by(str(asked.access.context.principal))


def _at_most(limit_ms: int, asked_ms: int) -> int:
    """What is asked for, if anything is and it is less."""
    return min(limit_ms, asked_ms) if asked_ms > 0 else limit_ms


def _record(token: DelegationToken, expiry_ms: int) -> types.DelegationTokenRecord:
    return types.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
    )


def _removal(token: DelegationToken) -> types.RemoveDelegationTokenRecord:
    return types.RemoveDelegationTokenRecord(token_id=token.token_id)


def _created_before(
    repeated: Repeated[types.CreateDelegationTokenResponse],
) -> types.CreateDelegationTokenResponse:
    token = _committed_token(repeated)
    if token is None or repeated.secret is None:
        return repeated.response
    version = repeated.forwarded.header.api_version
    response = creation_response(version, parse_principal(token.owner), parse_principal(token.requester))
    response.token_id, response.hmac = token.token_id, repeated.secret.hmac(token.token_id)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    return response


def _renewed_before(
    repeated: Repeated[types.RenewDelegationTokenResponse],
) -> types.RenewDelegationTokenResponse:
    token = _committed_token(repeated)
    if token is None:
        return repeated.response
    return types.RenewDelegationTokenResponse(expiry_timestamp_ms=token.expiration_timestamp)


def _expired_before(
    repeated: Repeated[types.ExpireDelegationTokenResponse],
) -> types.ExpireDelegationTokenResponse:
    token = _committed_token(repeated)
    expiry_ms = repeated.now_ms if token is None else token.expiration_timestamp
    return types.ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def _committed_token(repeated: Repeated[Asking]) -> types.DelegationTokenRecord | None:
    """The record of the token; None: the forward committed none."""
    records = (each for each in repeated.records if isinstance(each, types.DelegationTokenRecord))
    return next(records, None)


SERVED = (
    Served(
        key=ApiKey.CREATE_DELEGATION_TOKEN,
        decide=create_delegation_token,
        repeated=_created_before,
    ),
    Served(
        key=ApiKey.RENEW_DELEGATION_TOKEN,
        decide=renew_delegation_token,
        repeated=_renewed_before,
    ),
    Served(
        key=ApiKey.EXPIRE_DELEGATION_TOKEN,
        decide=expire_delegation_token,
        repeated=_expired_before,
    ),
)
