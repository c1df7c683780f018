"""The signatures of the metadata log: which records a controller has written (SPEC S14).

Each record of Penstock's own log carries a header (`HEADER`) with the id of the controller's key, the number
of its transaction, the digest of the state after that transaction, and an Ed25519 signature (RFC 8032) over
these, the topic, the record's key, and the SHA-256 of its value. Values stay KRaft's byte for byte. Who has
the public keys can verify the log, and only who has the private key can write it: neither a proxy nor a
broker's administrator can. The audit tables have the hash of a value with secrets, and not the value.

The digest says more than the signatures of records do: a process that has the state of the last signature has
every record that counts, and no other. `LogVerifier` uses it first, and looks at each record only if it
differs. proxy.metadata.signing_keys has the keys.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, Self

from proxy.metadata.delta import MetadataError


@dataclass(frozen=True, slots=True)
class Hashed:
    """Stands for a value of which only the hash is known."""

    sha256: bytes


Value = bytes | memoryview | None
"""The value of a record; None is a tombstone."""
Values = Sequence[Value]
"""In log order."""
Signable = Sequence[Value | Hashed]

HEADER: Final = "penstock.signature"
"""The record header that has the signature."""

_VERSION: Final = 1
_FIELDS = struct.Struct(">B8sQ32s64s")
"""Version, id of the key, number, digest, signature."""
_LENGTHS = struct.Struct(">HI")
_CONTEXT: Final = b"penstock metadata record\0"
MAX_OVERWRITTEN = 10_000
"""Keys that are remembered until what they had is written again."""
STEP_RECORDS = 20
"""The number of signatures verified in one step: some 2 ms."""


class Proof(NamedTuple):
    """What a record has besides its value: the key, and the value of the header, None without one."""

    key: bytes
    header: bytes | None


@dataclass(frozen=True, slots=True)
class Signature:
    """The value of the header, decoded."""

    key_id: bytes
    """The first 8 bytes of the SHA-256 of the public key's 32 bytes."""
    number: int
    """Of the transaction, ascending; all records of one have the same."""
    digest: bytes
    """`MetadataImage.digest` after the transaction."""
    signature: bytes = b""

    @classmethod
    def decode(cls, header: bytes | None) -> Self | None:
        """None if it is none that this version knows."""
        if header is None or len(header) != _FIELDS.size or header[0] != _VERSION:
            return None
        _, key_id, number, digest, signature = _FIELDS.unpack(header)
        return cls(key_id, number, digest, signature)

    def is_of(self, other: Signature) -> bool:
        """Whether both are of the same transaction."""
        return (self.key_id, self.number, self.digest) == (other.key_id, other.number, other.digest)

    def encode(self) -> bytes:
        return _FIELDS.pack(_VERSION, self.key_id, self.number, self.digest, self.signature)

    def signed_bytes(self, topic: str, key: bytes, value: bytes | memoryview | Hashed) -> bytes:
        """What the signature is over."""
        name = topic.encode()
        head = _CONTEXT + self.key_id + self.number.to_bytes(8, "big") + self.digest
        hashed = value.sha256 if isinstance(value, Hashed) else sha256(value).digest()
        return head + _LENGTHS.pack(len(name), len(key)) + name + key + hashed


_NOTHING: Final = Signature(b"", 0, b"")


class Unsigned(StrEnum):
    """Why records do not count."""

    NO_SIGNATURE = "no signature"
    UNKNOWN_KEY = "signed by an unknown key"
    BAD_SIGNATURE = "a signature of something else"
    REPLAYED = "a copy of an older record"
    MISSING = "signed records before them are missing or were changed"


@dataclass(frozen=True, slots=True)
class UnsignedRecords:
    """Records of the log that no controller has signed, or without those that it has signed."""

    first_offset: int
    last_offset: int
    reasons: Counter[Unsigned]
    in_effect: bool
    """With `metadata.unsigned: report`."""

    def with_later(self, later: UnsignedRecords) -> UnsignedRecords:
        """Return both as one."""
        return replace(self, last_offset=later.last_offset, reasons=self.reasons + later.reasons)

    def __str__(self) -> str:
        count, where = self.reasons.total(), f"offset {self.first_offset}"
        if count > 1:
            where = f"{count} records from {where} to {self.last_offset}"
        return f"{where}: {', '.join(self.reasons)}; {'in effect' if self.in_effect else 'not in effect'}"


class LogKeys(Protocol):
    """The public keys of controllers (proxy.metadata.signing_keys)."""

    def __contains__(self, key_id: object, /) -> bool: ...

    def verify(
        self, signature: Signature, topic: str, key: bytes, value: bytes | memoryview | Hashed
    ) -> bool:
        """Whether one of the keys has signed this record."""


class LogVerifier:
    """Decides which records count, of one transaction or of a part of the log at once.

    The loader passes what was read, in log order, and the digest of the state with it.
    """

    def __init__(self, topic: str, keys: LogKeys, *, rejects: bool = True, begins: bool = False) -> None:
        """`rejects`: `metadata.unsigned: reject`; else what is not signed is in effect, and reported.

        `begins`: this process may sign the first record of a log that is empty.
        """
        self._topic = topic
        self._keys = keys
        self.rejects = rejects
        self._begins = begins
        self.last = _NOTHING
        """The signature of the last transaction that counts."""
        self._seen_number = 0
        self._found_unsigned = False
        self.unsigned: list[UnsignedRecords] = []
        """What was found; the reader takes it away."""
        self.overwritten: set[bytes] = set()
        """At a controller, the keys of records that do not count: compaction keeps these, and not the signed
        ones before."""

    @property
    def number(self) -> int:
        """The number of the last transaction that counts, 0 without one. Later ones have higher numbers."""
        return self.last.number

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is known of the log: it has no signed record yet."""
        known = self._found_unsigned or self._seen_number or not self._begins
        return bool(self.rejects and not self.number and known)

    def is_whole(self, values: Signable, proofs: Sequence[Proof], digest: bytes) -> bool:
        """Whether the last record is signed, newer than all before, and for a state with this digest."""
        signatures = [Signature.decode(proof.header) for proof in proofs]
        last = signatures[-1]
        if last is None or last.digest != digest or last.number <= self.number:
            return False
        if last.number < max(self._seen_number, *(each.number for each in signatures if each is not None)):
            return False
        if self._fault(last, values[-1], proofs[-1]) is not None:
            return False
        self.last = last
        return True

    def signed_steps(
        self, values: Signable, proofs: Sequence[Proof], offsets: Sequence[int]
    ) -> Generator[None, None, dict[int, Unsigned]]:
        """Return the indexes of the records that do not count, STEP_RECORDS a step, and report them."""
        any_signed = False
        faults: dict[int, Unsigned] = {}
        for index, (value, proof) in enumerate(zip(values, proofs, strict=True)):
            signature = Signature.decode(proof.header)
            fault = self._fault(signature, value, proof)
            if fault is None and signature is not None:
                if signature.number > self.number or (any_signed and signature.is_of(self.last)):
                    self.last = signature
                    any_signed = True
                else:
                    fault = Unsigned.REPLAYED
            if fault is not None:
                faults[index] = fault
                if self._begins and len(self.overwritten) < MAX_OVERWRITTEN:
                    self.overwritten.add(proof.key)
            if (index + 1) % STEP_RECORDS == 0:
                yield
        if faults:
            self._report(offsets[min(faults)], offsets[max(faults)], Counter(faults.values()))
        return faults

    def confirm(self, offset: int, digest: bytes) -> None:
        """Compare the state with the signed one. MetadataError if it is another one, or an old one."""
        if self.number < self._seen_number:
            end = f"the log ends with transaction {self.number}"
            raise MetadataError(f"{end}, and {self._seen_number} was applied here before: it was cut")
        if self.last.digest != digest:
            if self.rejects:
                raise MetadataError(f"{Unsigned.MISSING} (transaction {self.number})")
            self._report(offset, offset, Counter([Unsigned.MISSING]))

    def has_seen(self, number: int) -> None:
        """An earlier process at this place has applied this transaction: the log has to reach as far."""
        self._seen_number = max(self._seen_number, number)

    def start_over(self) -> None:
        """The log is read again from its beginning, and has to reach as far as before."""
        self._seen_number = max(self._seen_number, self.number)
        self.last = _NOTHING

    def signs(self, values: Values, proofs: Sequence[Proof]) -> bool:
        """Whether each of these records is signed; they may be old."""
        return all(
            self._fault(Signature.decode(proof.header), value, proof) is None
            for value, proof in zip(values, proofs, strict=True)
        )

    def _fault(self, signature: Signature | None, value: Value | Hashed, proof: Proof) -> Unsigned | None:
        if signature is None or value is None:
            return Unsigned.NO_SIGNATURE
        if signature.key_id not in self._keys:
            return Unsigned.UNKNOWN_KEY
        is_signed = self._keys.verify(signature, self._topic, proof.key, value)
        return None if is_signed else Unsigned.BAD_SIGNATURE

    def _report(self, first_offset: int, last_offset: int, reasons: Counter[Unsigned]) -> None:
        self._found_unsigned = True
        self.unsigned.append(UnsignedRecords(first_offset, last_offset, reasons, not self.rejects))
