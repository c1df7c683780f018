"""Create, Renew and ExpireDelegationToken (KIP-48, KIP-373): a request and the existing tokens -> records.

The rules are those of KRaft's controller. A principal may create tokens for itself, and with CREATE_TOKENS on
a user for that user. Only owner and renewers may renew and expire a token, whatever other rights exist. The
HMAC goes into the response to the creator, never into a record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from forwarding.controller.api import ControllerApi, ControllerOutcome, DecisionInputs, DuplicateForward
from proxy.admin.tokens import (
    NOT_ALLOWED,
    creation_denial,
    creation_response,
    has_foreign_renewers,
    named_owner,
    rejected_creation,
)
from proxy.metadata.acl import uuid_text
from proxy.metadata.delta import token_from_record
from proxy.metadata.image import DelegationToken, MetadataImage
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import Principal, parse_principal
from proxy.session.apis.table import rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

Requested = TypeVar("Requested", bound=Message)

LONG_MAX = 2**63 - 1
MALFORMED = ErrorCode.UNKNOWN_SERVER_ERROR
"""Kafka fails on an owner with a name and no type, and returns this error."""
MAX_TOKENS_OF_REQUESTER = 1_000
MAX_RENEWERS = 100
MAX_RENEWERS_CHARACTERS = 10_000
"""Of one token, all names together."""
MAX_RECORDS_PER_SWEEP = 1_000
"""The limit of KRaft's controller: other requests are served between the batches."""


def create_delegation_token(inputs: DecisionInputs[types.CreateDelegationTokenRequest]) -> ControllerOutcome:
    """Create a token for the requesting principal, or for the owner that the request names (v3)."""
    request, authorization = inputs.request, inputs.authorization
    requester, version = authorization.context.principal, authorization.api_version
    owner = named_owner(request, requester)
    if owner is None:
        return ControllerOutcome((), rejection(ApiKey.CREATE_DELEGATION_TOKEN, version, request, MALFORMED))
    denial = creation_denial(authorization, _may_request(inputs), owner)
    if denial is not None:
        return ControllerOutcome((), rejected_creation(version, owner, requester, denial))
    secret, response = inputs.tokens.secret, creation_response(version, owner, requester)
    if secret is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return ControllerOutcome((), response)
    if has_foreign_renewers(request):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return ControllerOutcome((), response)
    token = _new_token(inputs, owner)
    if _is_too_much(token, inputs.image):
        response.error_code = ErrorCode.POLICY_VIOLATION
        return ControllerOutcome((), response)
    return ControllerOutcome((token_record(token),), _with_token(response, token, secret))


def _with_token(
    response: types.CreateDelegationTokenResponse, token: DelegationToken, secret: TokenSecret
) -> types.CreateDelegationTokenResponse:
    response.token_id, response.hmac = token.token_id, secret.hmac(token.token_id)
    response.issue_timestamp_ms = token.issue_timestamp_ms
    response.expiry_timestamp_ms = token.expiry_timestamp_ms
    response.max_timestamp_ms = token.max_timestamp_ms
    return response


def renew_delegation_token(inputs: DecisionInputs[types.RenewDelegationTokenRequest]) -> ControllerOutcome:
    """Extend a token by the requested or the default period, up to the token's maximum."""
    response = types.RenewDelegationTokenResponse
    if not _may_request(inputs):
        return ControllerOutcome((), response(**NOT_ALLOWED))
    found = _found(inputs)
    if isinstance(found, ErrorCode):
        return ControllerOutcome((), response(error_code=found))
    # In this order: anybody with the HMAC of an expired token learns that it has expired, and nothing else.
    if found.expired(inputs.now_ms):
        return ControllerOutcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_change(inputs, found):
        return ControllerOutcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = _at_most(inputs.tokens.expiry_time_ms, inputs.request.renew_period_ms)
    expiry_ms = min(found.max_timestamp_ms, inputs.now_ms + period_ms)
    changed = replace(found, expiry_timestamp_ms=expiry_ms)
    return ControllerOutcome((token_record(changed),), response(expiry_timestamp_ms=expiry_ms))


def expire_delegation_token(inputs: DecisionInputs[types.ExpireDelegationTokenRequest]) -> ControllerOutcome:
    """Expire a token after the requested period; a negative period removes it at once."""
    response = types.ExpireDelegationTokenResponse
    if not _may_request(inputs):
        return ControllerOutcome((), response(**NOT_ALLOWED))
    found = _found(inputs)
    if isinstance(found, ErrorCode):
        return ControllerOutcome((), response(error_code=found))
    if not _may_change(inputs, found):
        return ControllerOutcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = inputs.request.expiry_time_period_ms
    if period_ms < 0:
        return ControllerOutcome((_removal(found),), response(expiry_timestamp_ms=inputs.now_ms))
    if found.expired(inputs.now_ms):
        return ControllerOutcome((), response(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry_ms = min(found.max_timestamp_ms, inputs.now_ms + period_ms)
    changed = replace(found, expiry_timestamp_ms=expiry_ms)
    return ControllerOutcome((token_record(changed),), response(expiry_timestamp_ms=expiry_ms))


def expired_tokens(image: MetadataImage, now_ms: int) -> tuple[types.RemoveDelegationTokenRecord, ...]:
    """Return the records that remove expired tokens, at most MAX_RECORDS_PER_SWEEP."""
    over = [token for token in image.tokens.by_id.each_value() if token.expired(now_ms)]
    return tuple(_removal(token) for token in over[:MAX_RECORDS_PER_SWEEP])


def _new_token(
    inputs: DecisionInputs[types.CreateDelegationTokenRequest], owner: Principal
) -> DelegationToken:
    settings, now_ms = inputs.tokens, inputs.now_ms
    max_ms = min(now_ms + _at_most(settings.max_lifetime_ms, inputs.request.max_lifetime_ms), LONG_MAX)
    return DelegationToken(
        token_id=uuid_text(inputs.new_id()),
        owner=str(owner),
        requester=str(inputs.authorization.context.principal),
        renewers=tuple(f"{part.principal_type}:{part.principal_name}" for part in inputs.request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=max_ms,
        expiry_timestamp_ms=min(max_ms, now_ms + settings.expiry_time_ms),
    )


def _is_too_much(token: DelegationToken, image: MetadataImage) -> bool:
    """Whether every process would have to remember too much: no right is needed for a token of one's own."""
    if len(token.renewers) > MAX_RENEWERS or sum(map(len, token.renewers)) > MAX_RENEWERS_CHARACTERS:
        return True
    # Expired ones count until they are removed: a lifetime may be a millisecond.
    known = (1 for each in image.tokens.by_id.each_value() if each.requester == token.requester)
    return sum(known) >= MAX_TOKENS_OF_REQUESTER


def _found(
    inputs: DecisionInputs[types.RenewDelegationTokenRequest]
    | DecisionInputs[types.ExpireDelegationTokenRequest],
) -> DelegationToken | ErrorCode:
    """Return the token with the HMAC of the request, or an error."""
    if inputs.tokens.secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    found = inputs.tokens.secret.token_of(bytes(inputs.request.hmac), inputs.image.tokens)
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND if found is None else found


def _may_request(inputs: DecisionInputs[Requested]) -> bool:
    # A token must not create further tokens: a stolen one could otherwise be used for ever.
    return not (
        inputs.tokens.plaintext_listener or inputs.authorization.context.principal.token_authenticated
    )


def _may_change(inputs: DecisionInputs[Requested], token: DelegationToken) -> bool:
    return token.renewable_by(str(inputs.authorization.context.principal))


def _at_most(limit_ms: int, requested_ms: int) -> int:
    """Return the requested period, limited to the configured one, which is the default."""
    return min(limit_ms, requested_ms) if requested_ms > 0 else limit_ms


def token_record(token: DelegationToken) -> types.DelegationTokenRecord:
    """Return the record that sets a token."""
    return types.DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiry_timestamp_ms,
        token_id=token.token_id,
    )


def _removal(token: DelegationToken) -> types.RemoveDelegationTokenRecord:
    return types.RemoveDelegationTokenRecord(token_id=token.token_id)


def _created_by_duplicate(
    duplicate: DuplicateForward[types.CreateDelegationTokenResponse],
) -> types.CreateDelegationTokenResponse:
    record = _committed_token(duplicate)
    if record is None or duplicate.secret is None:
        return duplicate.response
    version = duplicate.forwarded.header.api_version
    response = creation_response(version, parse_principal(record.owner), parse_principal(record.requester))
    return _with_token(response, token_from_record(record), duplicate.secret)


def _renewed_by_duplicate(
    duplicate: DuplicateForward[types.RenewDelegationTokenResponse],
) -> types.RenewDelegationTokenResponse:
    token = _committed_token(duplicate)
    if token is None:
        return duplicate.response
    return types.RenewDelegationTokenResponse(expiry_timestamp_ms=token.expiration_timestamp)


def _expired_by_duplicate(
    duplicate: DuplicateForward[types.ExpireDelegationTokenResponse],
) -> types.ExpireDelegationTokenResponse:
    token = _committed_token(duplicate)
    expiry_ms = duplicate.now_ms if token is None else token.expiration_timestamp
    return types.ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def _committed_token(duplicate: DuplicateForward[Requested]) -> types.DelegationTokenRecord | None:
    """Return the record of the token; None if the forward committed none."""
    records = (each for each in duplicate.records if isinstance(each, types.DelegationTokenRecord))
    return next(records, None)


CONTROLLER_APIS = (
    ControllerApi(
        key=ApiKey.CREATE_DELEGATION_TOKEN,
        decide=create_delegation_token,
        writes=("DelegationTokenRecord",),
        duplicate_response=_created_by_duplicate,
    ),
    ControllerApi(
        key=ApiKey.RENEW_DELEGATION_TOKEN,
        decide=renew_delegation_token,
        writes=("DelegationTokenRecord",),
        duplicate_response=_renewed_by_duplicate,
    ),
    ControllerApi(
        key=ApiKey.EXPIRE_DELEGATION_TOKEN,
        decide=expire_delegation_token,
        writes=("DelegationTokenRecord", "RemoveDelegationTokenRecord"),
        duplicate_response=_expired_by_duplicate,
    ),
)
