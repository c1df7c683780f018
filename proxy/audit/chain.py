"""The hash chain over one boot's records: it reveals altered, removed and inserted lines (SPEC D2).

chain(n) = H(chain(n - 1) in hex, body(n)); chain(-1) = H(the author's key). H is SHA-256, or HMAC-SHA256 with
a secret: then a client with WRITE on the audit topic cannot forge a chain. proxy.net.audit.audit_log feeds it
with what proxy.audit.record encodes; spark_audit verifies it.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable

from proxy.audit.checkpoints import Checkpoint, SignedNote

MIN_KEY_BYTES = 32
LONGEST_END = 1_024
"""No process has a longer end of its trail: what another one claims is recorded."""
_END_OF_TRAIL = re.compile(r"[^/\x00-\x1f][^\x00-\x1f]*/[^/\x00-\x1f]+/(-1|[0-9]{1,18})/[0-9a-f]{64}")
_MARK = b',"chain":"'
_END = b'"}'


class Chain:
    """The chain of one author; `last` is the value that the next record continues."""

    def __init__(self, author_key: bytes, secret: bytes | None = None) -> None:
        """`author_key`: `<proxy_id>/<boot_id>`; `secret`: audit.chain.key.file, 32 bytes or more."""
        self.algorithm = "sha256" if secret is None else "hmac-sha256"
        self._hash: Callable[[bytes], str] = _sha256 if secret is None else _hmac(secret)
        self.last = self._hash(author_key)

    def after(self, body: bytes) -> str:
        """Return the value of `last` after `body`, in hex."""
        return self._hash(self.last.encode() + body)


def sealed(body: bytes, chain: str) -> bytes:
    """Return the record as a line, without the newline: its chain is the last member."""
    return body + _MARK + chain.encode() + _END


def link(line: bytes) -> str:
    """Return `<boot_id>/<sequence>/<chain>` of a record, for the next boot; version 1 had no chain.

    ValueError or KeyError if the line is not a record.
    """
    record = json.loads(line)
    data = record["data"]
    return f"{data['boot_id']}/{data['sequence']}/{record.get('chain', '')}"


def witnessed_end(text: bytes) -> str | None:
    """Return the end of a trail as another process claims it, None if it has not the form of AuditLog.end."""
    if len(text) > LONGEST_END:
        return None
    claimed = text.decode(errors="replace")
    is_end = _END_OF_TRAIL.fullmatch(claimed) or (SignedNote.parse(claimed) and Checkpoint.parse(claimed))
    return claimed if is_end else None


def author_of(end: str) -> str:
    """Return `<proxy_id>/<boot_id>` of an end that `witnessed_end` has returned."""
    checkpoint = Checkpoint.parse(end)
    if checkpoint is None:
        return end.rsplit("/", 2)[0]
    return f"{checkpoint.proxy_id}/{checkpoint.boot_id}"


def size_of(end: str) -> int:
    """Return how many records are before an end that `witnessed_end` has returned."""
    checkpoint = Checkpoint.parse(end)
    return int(end.rsplit("/", 2)[1]) + 1 if checkpoint is None else checkpoint.size


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hmac(secret: bytes) -> Callable[[bytes], str]:
    return lambda data: hmac.digest(secret, data, "sha256").hex()
