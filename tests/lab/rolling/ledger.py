"""What one client has sent, and what became of it; filled by several threads, judged at the end."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from subprocess import Popen

from proxy.net.runtime.clock import now_ms

PAUSE_S = 0.01
"""Between two records of a client."""


@dataclass
class Ledger:
    """Of one producer and its consumer. Records are numbers, as text."""

    name: str
    topic: str
    sent_at_ms: list[int] = field(default_factory=list)
    """When each record was handed to the producer."""
    acknowledged: set[int] = field(default_factory=set)
    consumed: Counter[int] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    """That the application was given."""
    reconnects: Counter[str] = field(default_factory=Counter)
    """What the client told in passing."""
    longest_send_ms: int = 0
    longest_way_ms: int = 0
    """From the producer's application to the consumer's, since `lap` was asked last."""
    laps_ms: list[int] = field(default_factory=list)
    _without_gap: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    """Nothing more is sent."""
    all_taken: threading.Event = field(default_factory=threading.Event)

    def next(self) -> int:
        """The number of the next record, which is sent now."""
        self.sent_at_ms.append(now_ms())
        return len(self.sent_at_ms) - 1

    def send_by(self, process: "Popen[bytes]") -> None:
        """A line of a program's standard input for each record, until nothing more is sent."""
        stream = process.stdin
        assert stream is not None
        with stream:
            while not self.over.wait(PAUSE_S):
                stream.write(b"%d\n" % self.next())
                stream.flush()

    def was_acknowledged(self, number: int) -> None:
        self.longest_send_ms = max(self.longest_send_ms, now_ms() - self.sent_at_ms[number])
        self.acknowledged.add(number)

    def was_consumed(self, value: bytes) -> None:
        number = int(value)
        self.consumed[number] += 1
        if self.consumed[number] == 1:
            self.longest_way_ms = max(self.longest_way_ms, now_ms() - self.sent_at_ms[number])

    def start_of_laps(self) -> None:
        """What was waited for until here, such as a client's start, is not counted."""
        self.longest_send_ms = self.longest_way_ms = 0

    def lap(self) -> int:
        """The longest way of a record since the last lap, in ms."""
        self.laps_ms.append(self.longest_way_ms)
        self.longest_way_ms = 0
        return self.laps_ms[-1]

    def reconnected(self, why: str) -> None:
        self.reconnects[why] += 1

    def consumed_up_to(self) -> int:
        """How many records, from the first on, are consumed without a gap."""
        while self._without_gap in self.consumed:
            self._without_gap += 1
        return self._without_gap

    def failed(self, what: str, error: object) -> None:
        self.errors.append(f"{what}: {error!r}")

    def faults(self, stored: int) -> list[str]:
        """What must not be; `stored` is the number of records that the topic has."""
        sent, missing = len(self.sent_at_ms), self.acknowledged - self.consumed.keys()
        found = [f"{self.name}: {error}" for error in self.errors]
        if len(self.acknowledged) != sent:
            found.append(f"{self.name}: {len(self.acknowledged)} of {sent} records were acknowledged")
        if missing:
            found.append(f"{self.name}: {len(missing)} acknowledged records were not consumed")
        if stored != sent:
            found.append(f"{self.name}: {stored} records are in the topic, {sent} were sent")
        return found

    def told(self) -> str:
        """One line for whoever watches."""
        again = sum(self.consumed.values()) - len(self.consumed)
        return (
            f"{self.name}: {len(self.sent_at_ms)} records, {again} consumed again;"
            f" longest send {self.longest_send_ms} ms,"
            f" to the consumer {max(*self.laps_ms, self.longest_way_ms, 0)} ms;"
            f" {dict(self.reconnects)}"
        )
