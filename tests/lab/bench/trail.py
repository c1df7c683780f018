"""What an audit record takes, and how reading a backlog grows: `python -m tests.lab.bench.trail`.

On the request path: making the line, its place in the chain, and putting it down; CPU time, so that others on
the machine count less. The thread's part (write(2)) is in the last of these rows, as the process's CPU time.
The backlog is read in the batches that shipping takes, at three sizes: linear is what is wanted.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time, thread_time

from proxy.audit.chain import Chain, sealed
from proxy.audit.record import AuditEvent, Author, Encoder
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.shipper import BATCH_LINES
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import encode_line

BUILD = Path(__file__).resolve().parents[3] / "build"
ROUNDS = 7
TIMES = 5_000
BACKLOGS = (50_000, 200_000, 1_000_000)
NOW_MS = 1_795_348_800_123
AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="5c0e5c0e5c0e5c0e")
DENIAL = AuditEvent(
    event="authorization",
    connection_id="0a1b2c3d4e5f",
    listener="SASL_SSL",
    host="10.11.12.13",
    principal="User:alice",
    client_id="producer-1",
    method="Produce",
    api_version=9,
    correlation_id=4_711,
    resource_type="TOPIC",
    resource_name="payments.eu.orders",
    pattern_type="LITERAL",
    operation="WRITE",
    granted=False,
    rule="default.deny",
    metadata_offset=123_456,
    error_code=29,
)


@dataclass(frozen=True, slots=True)
class Row:
    """`us`: microseconds for one record."""

    name: str
    us: float


def main(argv: Sequence[str]) -> int:
    backlogs = BACKLOGS[:1] if "--quick" in argv else BACKLOGS
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        rows = [*_records(Path(directory)), *(_backlog(Path(directory), count) for count in backlogs)]
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench-trail.json").write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    for row in rows:
        sys.stdout.write(f"{row.name:<58}{row.us:8.2f} us\n")
    return 0


def _records(directory: Path) -> list[Row]:
    encoder, key = Encoder(AUTHOR), b"k" * 32
    body = encoder.body(DENIAL, 7, NOW_MS)
    plain, keyed = Chain(AUTHOR.key), Chain(AUTHOR.key, key)
    audit = AuditLog(AUTHOR, Spool(directory / "records", 1 << 30), None, lambda: NOW_MS)  # type: ignore[arg-type]
    return [
        Row("encode", _cost(lambda: encoder.body(DENIAL, 7, NOW_MS))),
        Row("chain, SHA-256", _cost(lambda: sealed(body, plain.after(body)))),
        Row("chain, HMAC-SHA256", _cost(lambda: sealed(body, keyed.after(body)))),
        Row("audit record: all of it on the event loop", _cost(lambda: audit.append(DENIAL), thread_time)),
        Row("audit record: the thread's write as well", _cost(lambda: audit.append(DENIAL))),
    ]


def _cost(one: Callable[[], object], clock: Callable[[], float] = process_time) -> float:
    return median(_round(one, clock) for _ in range(ROUNDS))


def _round(one: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(TIMES):
        one()
    return (clock() - began) / TIMES * 1e6


def _backlog(directory: Path, count: int) -> Row:
    spool = Spool(directory / str(count), 1 << 40)
    encoder = Encoder(AUTHOR)
    for start in range(0, count, 1_000):
        lines = [
            encode_line(AUTHOR.key, encoder.body(DENIAL, number, NOW_MS))
            for number in range(start, start + 1_000)
        ]
        while lines:
            lines = lines[spool.write(lines) :]
    began, read = process_time(), 0
    while lines_read := spool.unshipped(BATCH_LINES):
        spool.shipped(lines_read[-1].end)
        read += len(lines_read)
    took = process_time() - began
    spool.close()
    assert read == count
    return Row(f"reading back a backlog of {count:,} records", took / count * 1e6)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
