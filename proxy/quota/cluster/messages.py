"""What members write to each other: one batch for each partition and tick, as bytes and back.

    batch = version, member id, boot id, sequence, sections
    section = kind, length, body; a section of an unknown kind is skipped

Integers are big-endian. Shares, demands and credits are fractions of a limit: 1 is 2**31 - 1. Rounding is
down, so that a sum of shares never grows on the wire.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

VERSION: Final = 1
DIGEST_BYTES: Final = 16
KEY_BYTES: Final = 8
BOOT_BYTES: Final = 8
ONE: Final = 2**31 - 1
MAX_ADDRESS_BYTES: Final = 255

_HEAD = struct.Struct(">B8sIB")
_SECTION = struct.Struct(">BI")
_CLAIM = struct.Struct(">HI")
_REPORT = struct.Struct(">HIIIBHHH")
_DEMAND = struct.Struct(">16sIII")
_GRANTS = struct.Struct(">HIH")
_TARGET = struct.Struct(">8sIIIBH")
_CHANGE = struct.Struct(">16sII")
_HEARTBEAT, _GOODBYE, _CLAIMED, _REPORTED, _GRANTED = 1, 2, 3, 4, 5
_THROTTLED = 1 << 31
_FULL, _IN_FALLBACK = 1, 2
_REPORT_ALL, _ACK_WANTED = 1, 2


class MalformedError(ValueError):
    """The bytes are not a batch of this version."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    address: str
    """host:port of a listener of the member, for probes."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The member uses no more than its floor from now on."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The sender coordinates the shard, unless an earlier claim of this epoch or a higher epoch exists."""

    shard: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What a member wants of one quota-id's limit, as fractions of the limit."""

    digest: bytes
    demand: float
    throttled: bool = False
    """Its clients are throttled: they want more than they use."""
    held: float = 0.0
    """In a full report: the share that was granted to the member, and may be in use. Otherwise the unused
    credit that the member still has: 1 is all credit of the whole limit."""
    surrendered: float = 0.0
    """The unused credit that it gave up."""


@dataclass(frozen=True, slots=True)
class Report:
    """The demands of a member in one shard, and the acknowledgement of grants."""

    shard: int
    epoch: int
    generation: int
    """The sequence of the full report that the member's shares are based on."""
    applied: int
    """The number of the last grants that it has applied."""
    demands: tuple[Demand, ...] = ()
    full: bool = False
    """Begins a new generation: the member holds exactly these shares."""
    in_fallback: bool = False
    part: int = 0
    parts: int = 1
    """A long full report has several parts, in batches of their own; the last one names the generation."""


@dataclass(frozen=True, slots=True)
class ShareChange:
    digest: bytes
    share: float
    credit: float = 0.0
    """Unused credit of other members that comes with the share: 1 is all credit of the whole limit."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a coordinator says to one member: its lease, and the changes of its shares."""

    key: bytes
    sequence: int
    """The last sequence of the member that the coordinator has read: the lease begins when it was sent."""
    generation: int
    number: int
    """Counts the targets with changes of this generation."""
    changes: tuple[ShareChange, ...] = ()
    report_all: bool = False
    """The coordinator does not know what the member holds: a full report has to come first."""
    ack_wanted: bool = False


@dataclass(frozen=True, slots=True)
class Grants:
    shard: int
    epoch: int
    targets: tuple[Target, ...]


Section: TypeAlias = Heartbeat | Goodbye | Claim | Report | Grants


@dataclass(frozen=True, slots=True)
class Batch:
    """What a member writes to one partition at once. `sequence` increases from batch to batch."""

    member: str
    boot: bytes
    sequence: int
    sections: tuple[Section, ...]

    @property
    def key(self) -> bytes:
        return member_key(self.member, self.boot)


def member_key(member: str, boot: bytes) -> bytes:
    """Return the name of one run of a member: a restarted one has another key."""
    return blake2b(boot + member.encode(), digest_size=KEY_BYTES).digest()


def digest_of(name: Sequence[str]) -> bytes:
    """Return the name of a quota-id on the wire; `name` is quota key, user tag, client tag."""
    hashed = blake2b(digest_size=DIGEST_BYTES)
    for part in name:
        encoded = part.encode()
        hashed.update(struct.pack(">I", len(encoded)) + encoded)
    return hashed.digest()


def encode(batch: Batch) -> bytes:
    """Return the batch as the value of a record."""
    name = batch.member.encode()
    parts = [_HEAD.pack(VERSION, batch.boot, batch.sequence, len(name)), name]
    for section in batch.sections:
        kind, body = _encoded(section)
        parts += [_SECTION.pack(kind, len(body)), body]
    return b"".join(parts)


def decode(value: bytes) -> Batch:
    """Return the batch; MalformedError if it is none, or of another version."""
    try:
        version, boot, sequence, length = _HEAD.unpack_from(value)
        if version != VERSION:
            raise MalformedError(f"version {version}")
        at = _HEAD.size
        member = _text(value[at : at + length], length)
        at += length
        sections = []
        while at < len(value):
            kind, length = _SECTION.unpack_from(value, at)
            at += _SECTION.size + length
            if at > len(value):
                raise MalformedError("a section is cut off")
            read = _READERS.get(kind)
            if read is not None:
                sections.append(read(value[at - length : at]))
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedError(str(error)) from error
    return Batch(member, boot, sequence, tuple(sections))


def section_bytes(section: Section) -> int:
    """Return about how many bytes the section has, for the size of a batch."""
    if isinstance(section, Report):
        return 32 + _DEMAND.size * len(section.demands)
    if isinstance(section, Grants):
        changes = sum(len(target.changes) for target in section.targets)
        return 16 + _TARGET.size * len(section.targets) + _CHANGE.size * changes
    return 32


def _encoded(section: Section) -> tuple[int, bytes]:
    match section:
        case Heartbeat():
            return _HEARTBEAT, section.address.encode()
        case Goodbye():
            return _GOODBYE, b""
        case Claim():
            return _CLAIMED, _CLAIM.pack(section.shard, section.epoch)
        case Report():
            return _REPORTED, _encoded_report(section)
        case Grants():
            return _GRANTED, _encoded_grants(section)


def _encoded_report(report: Report) -> bytes:
    flags = _FULL * report.full | _IN_FALLBACK * report.in_fallback
    head = _REPORT.pack(
        report.shard,
        report.epoch,
        report.generation,
        report.applied,
        flags,
        report.part,
        report.parts,
        len(report.demands),
    )
    return head + b"".join(
        _DEMAND.pack(
            demand.digest,
            _integer(demand.demand) | _THROTTLED * demand.throttled,
            _integer(demand.held),
            _integer(demand.surrendered),
        )
        for demand in report.demands
    )


def _encoded_grants(grants: Grants) -> bytes:
    parts = [_GRANTS.pack(grants.shard, grants.epoch, len(grants.targets))]
    for target in grants.targets:
        flags = _REPORT_ALL * target.report_all | _ACK_WANTED * target.ack_wanted
        parts.append(
            _TARGET.pack(
                target.key, target.sequence, target.generation, target.number, flags, len(target.changes)
            )
        )
        parts += [_CHANGE.pack(c.digest, _integer(c.share), _integer(c.credit)) for c in target.changes]
    return b"".join(parts)


def _read_heartbeat(body: bytes) -> Heartbeat:
    if len(body) > MAX_ADDRESS_BYTES:
        raise MalformedError(f"an address of {len(body)} bytes")
    return Heartbeat(body.decode())


def _read_goodbye(body: bytes) -> Goodbye:
    _end(body, 0)
    return Goodbye()


def _read_claim(body: bytes) -> Claim:
    _end(body, _CLAIM.size)
    return Claim(*_CLAIM.unpack(body))


def _read_report(body: bytes) -> Report:
    shard, epoch, generation, applied, flags, part, parts, count = _REPORT.unpack_from(body)
    _end(body, _REPORT.size + count * _DEMAND.size)
    if part >= parts:
        raise MalformedError("a part of a report that has fewer parts")
    demands = tuple(
        Demand(
            digest, _fraction(demand & ONE), bool(demand & _THROTTLED), _fraction(share), _fraction(credit)
        )
        for digest, demand, share, credit in _DEMAND.iter_unpack(body[_REPORT.size :])
    )
    full, in_fallback = bool(flags & _FULL), bool(flags & _IN_FALLBACK)
    return Report(shard, epoch, generation, applied, demands, full, in_fallback, part, parts)


def _read_grants(body: bytes) -> Grants:
    shard, epoch, count = _GRANTS.unpack_from(body)
    at = _GRANTS.size
    targets = []
    for _ in range(count):
        key, sequence, generation, number, flags, length = _TARGET.unpack_from(body, at)
        at += _TARGET.size
        changes = []
        for _ in range(length):
            digest, share, credit = _CHANGE.unpack_from(body, at)
            changes.append(ShareChange(digest, _fraction(share), _fraction(credit)))
            at += _CHANGE.size
        report_all, ack_wanted = bool(flags & _REPORT_ALL), bool(flags & _ACK_WANTED)
        targets.append(Target(key, sequence, generation, number, tuple(changes), report_all, ack_wanted))
    _end(body, at)
    return Grants(shard, epoch, tuple(targets))


_READERS: dict[int, Callable[[bytes], Section]] = {
    _HEARTBEAT: _read_heartbeat,
    _GOODBYE: _read_goodbye,
    _CLAIMED: _read_claim,
    _REPORTED: _read_report,
    _GRANTED: _read_grants,
}


def _integer(fraction: float) -> int:
    return min(max(int(fraction * ONE), 0), ONE)


def _fraction(value: int) -> float:
    if value > ONE:
        raise MalformedError("a fraction above 1")
    return value / ONE


def _text(value: bytes, length: int) -> str:
    if len(value) != length:
        raise MalformedError("a name is cut off")
    return value.decode()


def _end(body: bytes, at: int) -> None:
    if len(body) != at:
        raise MalformedError(f"a section of {len(body)} bytes ends after {at}")
