"""A made-up trail as its processes write it: lines of the real encoder, sealed by the real hash chain.

What a test wants to spoil it spoils in the lines, as somebody would who can write to the audit topic.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from proxy.audit.chain import Chain, sealed
from proxy.audit.checkpoints import Checkpoint, Signer, StateInEffect
from proxy.audit.record import EVENT_FIELDS, AuditEvent, Author, Encoder
from spark_audit.ingest import decode
from tests.spark.audit_trail import NOON_MS, Process, Record
from tests.spark.frames import kafka_frame
from tests.support.signing import signing_key

MINUTE_MS = 60_000
LOG = "__penstock_metadata"
LATER_MS = NOON_MS + 3 * MINUTE_MS
"""When a key is replaced: after two checkpoints, before the third."""


class Signing(Process):
    """A process that signs each minute, and as its real counterpart at its start and end."""

    key = ""
    digest = b"d" * 32

    def sign(self, *, stops: bool = False) -> None:
        signer = Signer(self.proxy_id, signing_key(self.key or self.proxy_id))
        time_ms, size = self.clock.now_ms + 1, len(self.records)
        state = StateInEffect(LOG, 7, self.digest)

        def note(link: str) -> str:
            said = Checkpoint(self.proxy_id, self.boot_id, size, link, time_ms, state, stops)
            return signer.signed(said.text())

        self.write("checkpoint", message=note, metadata_offset=7)

    def run(self, *, to_its_end: bool = True, minutes: int = 3, later_key: str = "") -> "Signing":
        self.start()
        self.sign()
        for minute in range(minutes):
            self.clock.now_ms += MINUTE_MS
            self.high_water()
            if minute == 2:
                self.clock.now_ms = max(self.clock.now_ms, LATER_MS)
                self.key = later_key or self.key
            self.sign()
        if to_its_end:
            self.sign(stops=True)
            self.stop()
        return self


@dataclass
class Line:
    """One record on its way: its key, the record as it was meant, the bytes."""

    key: bytes
    record: Record
    value: bytes


def seal(process: Process, secret: bytes | None = None, previous: str | None = None) -> list[Line]:
    """All of a process's records; `previous` is what its spool held: `<boot_id>/<sequence>/<link>`.

    A message may be a function of the link before it, as a checkpoint is.
    """
    author = Author(role=process.role, proxy_id=process.proxy_id, boot_id=process.boot_id)
    encoder, chain = Encoder(author), Chain(author.key, secret)
    lines = []
    for record in process.records:
        if record["event"] == "started":
            settings = record["settings"] | {"audit.chain": chain.algorithm}
            record["settings"] = settings | ({"audit.previous": previous} if previous else {})
        if callable(record["message"]):
            record["message"] = record["message"](chain.last)
        event = AuditEvent(**{name: record[name] for name in EVENT_FIELDS})
        body = encoder.body(event, record["sequence"], record["time_ms"])
        chain.last = chain.after(body)
        lines.append(Line(author.key, record, sealed(body, chain.last)))
    return lines


def end_of(lines: Sequence[Line]) -> str:
    """What the next boot's spool says of these."""
    record = lines[-1].record
    return f"{record['boot_id']}/{record['sequence']}/{json.loads(lines[-1].value)['chain']}"


def altered(line: Line, **data: Any) -> Line:
    """The line with other data and its old chain."""
    text = json.loads(line.value)
    text["data"] |= data
    return Line(line.key, line.record, json.dumps(text, separators=(",", ":")).encode())


def table(spark: SparkSession, lines: Sequence[Line], first_offset: int = 0) -> DataFrame:
    """Lines as table `audit`, as ingest reads them from the topic."""
    kafka = kafka_frame(spark, [(line.key, line.value) for line in lines], first_offset=first_offset)
    return kafka.transform(decode.check_audit).transform(decode.audit_rows)
