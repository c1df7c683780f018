"""CreateDelegationToken (KIP-48, KIP-373): who may create a token for which owner, and the responses.

The rules are the same at the proxy and at the controller. Whether tokens may be requested at all depends on
the listener, which the caller knows.
"""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from proxy.admin.authorization import Authorization
from proxy.metadata.acl import Operation, ResourceType
from proxy.security.principal import USER_TYPE, Principal
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode

FIRST_WITH_REQUESTER = 3
"""From this version of Create and Describe on, a token may have an owner other than its requester
(KIP-373)."""
NO_TIME_MS = -1
"""The time that brokers report where there is no token."""
TokenPart: TypeAlias = (
    "types.CreateDelegationTokenResponse | types.DescribeDelegationTokenResponse.DescribedDelegationToken"
)


class NotAllowed(TypedDict):
    """The fields of a response without a token."""

    error_code: int
    expiry_timestamp_ms: int


NOT_ALLOWED = NotAllowed(
    error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME_MS
)


def named_owner(request: types.CreateDelegationTokenRequest, requester: Principal) -> Principal | None:
    """Return the owner of the token, by default the requester; None if one is named without a type."""
    if not request.owner_principal_name:
        return requester
    if request.owner_principal_type is None:
        return None
    return Principal(request.owner_principal_type, request.owner_principal_name)


def creation_denial(authorization: Authorization, may_request: bool, owner: Principal) -> ErrorCode | None:
    """Return why the token may not be created, or None.

    It needs CREATE_TOKENS on an owner other than oneself. Sessions with groups get no token: one by the token
    would be without them, and a DENY for a group would not reach it.
    """
    requester = authorization.context.principal
    if not may_request or (owner == requester and requester.groups):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner == requester:
        return None
    allowed = authorization.allows(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    return None if allowed else ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def has_foreign_renewers(request: types.CreateDelegationTokenRequest) -> bool:
    """Whether a renewer is not a user: only users can renew."""
    return any(renewer.principal_type != USER_TYPE for renewer in request.renewers)


def creation_response(
    version: int, owner: Principal, requester: Principal
) -> types.CreateDelegationTokenResponse:
    """Return a response with owner and requester, still without a token."""
    response = types.CreateDelegationTokenResponse(
        principal_type=owner.principal_type, principal_name=owner.name
    )
    name_requester(response, version, requester)
    return response


def rejected_creation(
    version: int, owner: Principal, requester: Principal, error_code: int
) -> types.CreateDelegationTokenResponse:
    """Return the response without a token."""
    response = creation_response(version, owner, requester)
    response.error_code = error_code
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME_MS
    return response


def name_requester(part: TokenPart, version: int, requester: Principal) -> None:
    """Set the requester, in versions that have the fields."""
    if version >= FIRST_WITH_REQUESTER:
        part.token_requester_principal_type = requester.principal_type
        part.token_requester_principal_name = requester.name
