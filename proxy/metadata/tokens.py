"""Delegation tokens (KIP-48, KIP-373) as the log holds them: whose, for whom, until when; no secret.

Made from DelegationTokenRecords. What proves a token is computed from its id and the cluster's secret key, by
proxy.security.token_secret; who may ask for one is decided by proxy.session and forwarding.controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.metadata.errors import MetadataError
from proxy.wire import types


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals are texts, "User:alice". Times are ms since the epoch."""

    token_id: str
    owner: str
    """Whom it logs in."""
    requester: str
    """Who asked for it; not the owner where one got it for another (KIP-373)."""
    renewers: tuple[str, ...]
    """Who may renew and expire it besides the owner."""
    issue_timestamp_ms: int
    max_timestamp_ms: int
    """No renewal goes beyond it."""
    expiry_timestamp_ms: int

    def expired(self, now_ms: int) -> bool:
        """Whether it is over; in its last ms it is not, as in Kafka."""
        return self.expiry_timestamp_ms < now_ms or self.max_timestamp_ms < now_ms

    def renewable_by(self, principal: str) -> bool:
        """Whether that principal may renew and expire it: not who asked for it, unless it is the owner."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """All whom it concerns."""
        return (self.owner, self.requester, *self.renewers)

    def concerns(self, principal: str) -> bool:
        """Whether that principal owns it, asked for it or may renew it."""
        return principal == self.requester or self.renewable_by(principal)


def token_from_record(record: types.DelegationTokenRecord) -> DelegationToken:
    """What a DelegationTokenRecord says; MetadataError when one of its principals is none."""
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
