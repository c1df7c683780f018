"""A forward whose change is in the log already -> the answer that its first attempt would have had.

The controller that made the change is gone, and with it the answer. The request is decided again, by whoever
is active now, on an image that has the change; what that makes of the answer is put right here by what the
log tells. Fed by forwarding.net.writer; nothing is written again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from forwarding.controller.acls import matching_acl
from forwarding.envelope import Forwarded
from proxy.admin.tokens import creation_response
from proxy.metadata.acl import Acl, AclFilter
from proxy.security.principal import Principal
from proxy.security.token_secret import TokenSecret
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def as_before(
    forwarded: Forwarded,
    response: Any,
    records: Sequence[Any],
    removed: Mapping[str, Acl],
    secret: TokenSecret | None,
    now_ms: int,
) -> Any:
    """`response`: what was decided anew; `records`: what the first attempt committed."""
    by_kind = {type(record).__name__: record for record in records}
    match forwarded.header.api_key:
        case ApiKey.DELETE_ACLS:
            return _deleted(forwarded.message, response, removed)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            return _altered(response, records)
        case ApiKey.CREATE_DELEGATION_TOKEN if "DelegationTokenRecord" in by_kind and secret is not None:
            return _created(forwarded, by_kind["DelegationTokenRecord"], secret)
        case ApiKey.RENEW_DELEGATION_TOKEN if "DelegationTokenRecord" in by_kind:
            expiry_ms = by_kind["DelegationTokenRecord"].expiration_timestamp
            return types.RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
        case ApiKey.EXPIRE_DELEGATION_TOKEN:
            left = by_kind.get("DelegationTokenRecord")
            expiry_ms = now_ms if left is None else left.expiration_timestamp
            return types.ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return response


def _deleted(request: Any, response: Any, removed: Mapping[str, Acl]) -> Any:
    for asked, result in zip(request.filters, response.filter_results, strict=True):
        if result.error_code == ErrorCode.NONE:
            wanted = AclFilter.requested(asked)
            result.matching_acls = [matching_acl(acl) for acl in removed.values() if wanted.matches(acl)]
    return response


def _altered(response: Any, records: Sequence[Any]) -> Any:
    """What was deleted then is not found now."""
    names = {record.name for record in records}
    for result in response.results:
        if result.user in names:
            result.error_code, result.error_message = ErrorCode.NONE, None
    return response


def _created(forwarded: Forwarded, token: Any, secret: TokenSecret) -> Any:
    version = forwarded.header.api_version
    response = creation_response(version, _principal(token.owner), _principal(token.requester))
    response.token_id, response.hmac = token.token_id, secret.hmac(token.token_id)
    response.issue_timestamp_ms = token.issue_timestamp
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = token.max_timestamp
    return response


def _principal(text: str) -> Principal:
    principal_type, _, name = text.partition(":")
    return Principal(principal_type, name)
