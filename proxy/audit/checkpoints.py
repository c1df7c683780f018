"""Checkpoints: signed statements of how far an audit trail goes, and with which link (SPEC D14).

A checkpoint is a signed note as C2SP defines it (c2sp.org/signed-note, c2sp.org/tlog-checkpoint): an origin,
a size, a hash, and further lines; then a blank line, and lines with signatures. Others add theirs with the
time (c2sp.org/tlog-cosignature, version 1). The origin is that of one boot, the size is the number of its
records, and the hash is the link of the last of them: a hash chain stands in for C2SP's Merkle tree. Runs of
the audit jobs are signed in the same form.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.metadata.signing_keys import PublicKey, SigningKey

ORIGIN: Final = "penstock.audit"
NOTE_TYPE, COSIGNATURE_TYPE = b"\x01", b"\x04"
"""Ed25519 in a note, and in a cosignature with its time."""
WORKER: Final = r"\.w[0-9]+"
"""What a worker adds to the proxy's id; its key has the proxy's name."""
_SIGNATURE: Final = "\u2014 "
_ID_BYTES, _TIME_BYTES = 4, 8
_TEXT = re.compile(
    ORIGIN + r"/(?P<proxy_id>[^/\s]+)/(?P<boot_id>[^/\s]+)\n"
    r"(?P<size>0|[1-9][0-9]{0,17})\n(?P<link>[A-Za-z0-9+/]{43}=)\n"
    r"time (?P<time>[1-9][0-9]{0,14})\n"
    r"(?:metadata (?P<topic>\S+) (?P<offset>[0-9]{1,18}) (?P<digest>[A-Za-z0-9+/]{43}=)\n)?"
    r"(?P<stops>stops\n)?"
)


class StateInEffect(NamedTuple):
    """What a process has in effect of the metadata log."""

    topic: str
    offset: int
    digest: bytes
    """`MetadataImage.digest`."""


class Checkpoint(NamedTuple):
    """What a process says of its trail."""

    proxy_id: str
    boot_id: str
    size: int
    """The number of records."""
    link: str
    """Of the last of them, in hex."""
    time_ms: int
    state: StateInEffect | None = None
    stops: bool = False
    """Only the record of the checkpoint and `stopped` follow."""

    def text(self) -> str:
        """Return what is signed."""
        link = b64encode(bytes.fromhex(self.link)).decode()
        lines = [f"{ORIGIN}/{self.proxy_id}/{self.boot_id}", str(self.size), link, f"time {self.time_ms}"]
        if self.state is not None:
            topic, offset, digest = self.state
            lines.append(f"metadata {topic} {offset} {b64encode(digest).decode()}")
        return "\n".join([*lines, *(["stops"] if self.stops else []), ""])

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what a text or a note says; None if it is of another kind."""
        found = _TEXT.fullmatch(text.partition("\n\n")[0] + "\n" if "\n\n" in text else text)
        if found is None:
            return None
        state = None
        if found["topic"] is not None:
            state = StateInEffect(found["topic"], int(found["offset"]), b64decode(found["digest"]))
        link, stops = b64decode(found["link"]).hex(), found["stops"] is not None
        return cls(
            found["proxy_id"], found["boot_id"], int(found["size"]), link, int(found["time"]), state, stops
        )


class NoteSignature(NamedTuple):
    """One signature below a note, not verified yet."""

    name: str
    key_id: bytes
    value: bytes


class SignedNote(NamedTuple):
    """A text with signatures."""

    text: str
    """It ends with a newline."""
    signatures: tuple[NoteSignature, ...]

    @classmethod
    def parse(cls, note: str) -> Self | None:
        """None if it has not the form of a signed note."""
        text, blank, below = note.rpartition("\n\n")
        lines = below.split("\n")
        if not blank or lines.pop() or not lines:
            return None
        signatures = []
        for line in lines:
            name, _, encoded = line.removeprefix(_SIGNATURE).partition(" ")
            try:
                raw = b64decode(encoded, validate=True)
            except ValueError:
                return None
            if not line.startswith(_SIGNATURE) or not name or len(raw) <= _ID_BYTES:
                return None
            signatures.append(NoteSignature(name, raw[:_ID_BYTES], raw[_ID_BYTES:]))
        return cls(text + "\n", tuple(signatures))

    def signer(self, name: str, keys: Sequence[PublicKey]) -> PublicKey | None:
        """Return the one of these keys that has signed the note under this name."""
        for signature in self.signatures:
            for key in keys:
                if (signature.name, signature.key_id) == (name, key_id(name, NOTE_TYPE, key.raw)):
                    return key if key.verifies(signature.value, self.text.encode()) else None
        return None


class Signer:
    """Signs notes under one name."""

    def __init__(self, name: str, key: SigningKey) -> None:
        self._name, self._key = name, key
        self.public = key.public.public_bytes_raw()
        """The 32 bytes of the public key."""
        self._note_id, self._cosignature_id = (
            key_id(name, kind, self.public) for kind in (NOTE_TYPE, COSIGNATURE_TYPE)
        )

    def signed(self, text: str) -> str:
        """Return the note."""
        return f"{text}\n{self._line(self._note_id, self._key.signature_of(text.encode()))}"

    def cosigned(self, note: str, time_ms: int) -> str:
        """Return another one's note with a cosignature."""
        time_s = time_ms // 1000
        text = f"cosignature/v1\ntime {time_s}\n" + note.rpartition("\n\n")[0] + "\n"
        signature = self._key.signature_of(text.encode())
        return note + self._line(self._cosignature_id, time_s.to_bytes(_TIME_BYTES, "big") + signature)

    def _line(self, identifier: bytes, value: bytes) -> str:
        return f"{_SIGNATURE}{self._name} {b64encode(identifier + value).decode()}\n"


def key_id(name: str, kind: bytes, public: bytes) -> bytes:
    """Return the id of a key in notes: it says which key to try, and proves nothing."""
    return sha256(name.encode() + b"\n" + kind + public).digest()[:_ID_BYTES]


def is_key_of(key: PublicKey, proxy_id: str) -> bool:
    """Whether a key is that of a process, or of the proxy whose worker it is."""
    return re.fullmatch(f"{re.escape(key.name)}({WORKER})?", proxy_id) is not None
