"""What a proxy's audit trail and its metrics say of logins, renewals and kills; both count the same.

Reads the audit topic as it grows. Used by tests.lab.clients.session_stage.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.lab.cluster.settings import AUDIT_TOPIC
from tests.lab.cluster.stack import Stack

Fact = dict[str, Any]
Counts = dict[tuple[str, ...], int]

LOGIN, RENEWAL, KILL = "authentication", "reauthentication", "session_expired"
FAILURES = ("authentication_failed", "reauthentication_failed")

_SERIES = {
    "penstock_authentication_total": ("listener", "mechanism", "outcome"),
    "penstock_reauthentication_total": ("listener", "mechanism", "outcome"),
    "penstock_authentication_no_reauth_total": ("listener",),
    "penstock_expired_connections_killed_total": ("listener",),
}


class Trail:
    """The facts that processes of one role have told so far, as far as they were read."""

    def __init__(self, stack: Stack, role: str = "proxy") -> None:
        self._role = role
        self.facts: list[Fact] = []
        self._consumer = Consumer(
            {"bootstrap.servers": stack.broker.plaintext, "group.id": "none", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(AUDIT_TOPIC, 0, 0)])

    def read(self, timeout_s: float = 0.5) -> None:
        """What has come since, and what comes within that time."""
        for message in self._consumer.consume(10_000, timeout=timeout_s):
            assert message.error() is None, message.error()
            fact = json.loads(message.value() or b"")["data"]
            if fact["role"] == self._role:
                self.facts.append(fact)

    def close(self) -> None:
        self._consumer.close()

    def counts(self) -> Counts:
        """As the metrics name them, since the process was started."""
        boot = self.facts[-1]["boot_id"]
        facts = [fact for fact in self.facts if fact["boot_id"] == boot]
        return dict(Counter(key for fact in facts for key in _keys(fact)))

    def named(self, event: str, principal: str, since_ms: int = 0) -> list[Fact]:
        return [
            fact
            for fact in self.facts
            if fact["event"] == event and fact["principal"] == principal and fact["time_ms"] >= since_ms
        ]


def _keys(fact: Fact) -> Iterable[tuple[str, ...]]:
    listener, mechanism = fact["listener"], fact["mechanism"] or ""
    outcome = "failed" if fact["event"] in FAILURES else "successful"
    if fact["event"] in (LOGIN, FAILURES[0]):
        yield "penstock_authentication_total", listener, mechanism, outcome
    if fact["event"] == LOGIN and fact["api_version"] == 0:
        yield "penstock_authentication_no_reauth_total", listener
    if fact["event"] in (RENEWAL, FAILURES[1]):
        yield "penstock_reauthentication_total", listener, mechanism, outcome
    if fact["event"] == KILL:
        yield "penstock_expired_connections_killed_total", listener


def of_metrics(series: dict[str, float]) -> Counts:
    """The same counts as the proxy's metrics have them."""
    found: Counts = {}
    for text, value in series.items():
        name, _, labels = text.partition("{")
        if name in _SERIES and value:
            told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            found[(name, *(told[label] for label in _SERIES[name]))] = int(value)
    return found
