"""Requests about delegation tokens, as tests of the proxy and of the controller make them."""

from typing import Any

from proxy.wire import types


def token_creation(*renewers: str, owner: str | None = None, max_lifetime_ms: int = -1) -> Any:
    request = types.CreateDelegationTokenRequest
    owner_type, _, owner_name = (owner or ":").partition(":")
    parts = [renewer.partition(":") for renewer in renewers]
    return request(
        owner_principal_type=owner_type or None,
        owner_principal_name=owner_name or None,
        renewers=[request.CreatableRenewers(principal_type=t, principal_name=n) for t, _, n in parts],
        max_lifetime_ms=max_lifetime_ms,
    )
