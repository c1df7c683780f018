"""Delegation tokens (KIP-48, KIP-373) as in the log: owner, renewers, expiry; no secret.

proxy.security.token_secret computes the HMAC of a token from its id and the cluster's secret key.
proxy.session and forwarding.controller decide who may create one.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.metadata.errors import MetadataError
from proxy.wire import types


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token. Principals are texts ("User:alice"), times are ms since the epoch."""

    token_id: str
    owner: str
    """The principal that the token authenticates."""
    requester: str
    """The principal that requested the token; it may differ from the owner (KIP-373)."""
    renewers: tuple[str, ...]
    """The principals that may renew and expire it besides the owner."""
    issue_timestamp_ms: int
    max_timestamp_ms: int
    """No renewal goes beyond it."""
    expiry_timestamp_ms: int

    def expired(self, now_ms: int) -> bool:
        """Whether it has expired; in its last ms it has not, as in Kafka."""
        return self.expiry_timestamp_ms < now_ms or self.max_timestamp_ms < now_ms

    def renewable_by(self, principal: str) -> bool:
        """Whether that principal may renew and expire it: the owner and the renewers may."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """Owner, requester and renewers."""
        return (self.owner, self.requester, *self.renewers)

    def concerns(self, principal: str) -> bool:
        """Whether that principal is its owner, its requester or a renewer."""
        return principal == self.requester or self.renewable_by(principal)


def token_from_record(record: types.DelegationTokenRecord) -> DelegationToken:
    """Return the token of a record; MetadataError if one of its principals is malformed."""
    for principal in (record.owner, record.requester, *record.renewers):
        if ":" not in principal:
            raise MetadataError(f"DelegationTokenRecord: {principal!r} is not a principal")
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        max_timestamp_ms=record.max_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
    )
