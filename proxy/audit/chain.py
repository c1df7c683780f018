"""The hash chain over one boot's records: a line that was altered, removed or put in between shows (SPEC D2).

chain(n) = H(chain(n - 1) in hex, body(n)); chain(-1) = H(the author's key). H is SHA-256, or HMAC-SHA256
where there is a key: then who may write to the audit topic cannot make a chain that fits. Fed by
proxy.net.audit.audit_log with what proxy.audit.record encodes; checked by spark_audit.
"""

import hashlib
import hmac
import json
from collections.abc import Callable

MIN_KEY_BYTES = 32
_MARK = b',"chain":"'
_END = b'"}'


class Chain:
    """One author's; `last` is what the next record stands on."""

    def __init__(self, author_key: bytes, secret: bytes | None = None) -> None:
        """`author_key`: `<proxy_id>/<boot_id>`; `secret`: audit.chain.key.file, 32 bytes or more."""
        self.algorithm = "sha256" if secret is None else "hmac-sha256"
        self._hash: Callable[[bytes], str] = _sha256 if secret is None else _keyed(secret)
        self.last = self._hash(author_key)

    def after(self, body: bytes) -> str:
        """What `last` is to be once `body` is kept, in hex."""
        return self._hash(self.last.encode() + body)


def sealed(body: bytes, chain: str) -> bytes:
    """The record as a line, without the newline: its chain is the last member."""
    return body + _MARK + chain.encode() + _END


def link(line: bytes) -> str:
    """`<boot_id>/<sequence>/<chain>` of a record, for the boot that follows; version 1 had no chain.

    ValueError or KeyError for what is no record.
    """
    record = json.loads(line)
    data = record["data"]
    return f"{data['boot_id']}/{data['sequence']}/{record.get('chain', '')}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _keyed(secret: bytes) -> Callable[[bytes], str]:
    return lambda data: hmac.digest(secret, data, "sha256").hex()
