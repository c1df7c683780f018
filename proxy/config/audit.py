"""The `audit:` section: where records go, the spool, the policies, and the key of the hash chain."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from proxy.audit.chain import MIN_KEY_BYTES
from proxy.audit.classes import ADMIN, AUTHENTICATION, CLASSES, DENIAL
from proxy.config.parts import FilePath, Milliseconds, Part, SecretFile
from proxy.net.audit.capacity import QUEUE_MAX_BYTES, RATE_PER_PRINCIPAL, AuditPolicy
from proxy.net.audit.writer import Fsync
from proxy.security.protected import DEFAULT_AUDIT_TOPIC

SYNCED = (ADMIN, DENIAL, AUTHENTICATION)
"""The classes of records that a response can wait for."""
Policy = Literal["refuse", "drop-and-count"]


class Audit(Part):
    """The `audit:` section of a proxy or a controller."""

    topic: str = DEFAULT_AUDIT_TOPIC
    spool_dir: FilePath
    spool_max_bytes: Annotated[int, Field(ge=1 << 20)] = 1 << 30
    spool_fsync: Fsync = Fsync.INTERVAL
    spool_fsync_interval_ms: Milliseconds = 100
    fsync_admin: bool = False
    fsync_denial: bool = False
    fsync_authentication: bool = False
    queue_max_bytes: Annotated[int, Field(ge=1 << 18)] = QUEUE_MAX_BYTES
    rate_per_principal: Annotated[int, Field(ge=0)] = RATE_PER_PRINCIPAL
    policy_admin: Policy = "refuse"
    policy_denial: Policy = "drop-and-count"
    policy_authentication: Policy = "drop-and-count"
    policy_summary: Policy = "drop-and-count"
    summary_interval_ms: Annotated[int, Field(ge=100)] = 10_000
    chain_key_file: SecretFile | None = None

    @field_validator("chain_key_file")
    @classmethod
    def _can_be_used(cls, path: Path | None) -> Path | None:
        if path is not None:
            _key(path)
        return path

    def policy(self) -> AuditPolicy:
        """The policy for records, by class. ValueError if the chain's key can no longer be read."""
        return AuditPolicy(
            {name: getattr(self, f"policy_{name}") for name in CLASSES},
            self.spool_fsync,
            self.spool_fsync_interval_ms,
            frozenset(name for name in SYNCED if getattr(self, f"fsync_{name}")),
            self.queue_max_bytes,
            None if self.chain_key_file is None else _key(self.chain_key_file),
            self.rate_per_principal,
        )


def _key(path: Path) -> bytes:
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"{path}: the key has {len(key)} bytes; it needs at least {MIN_KEY_BYTES}")
    return key
