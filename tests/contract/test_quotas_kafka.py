"""Which quota governs and how long a client waits: ours against Kafka's own quota managers, answer by answer.

Precedence in every set of configured levels; rates in random loads under limits that change. PENSTOCK_SEED
chooses other loads, PENSTOCK_QUOTA_LOADS how many.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import pytest

from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.keys import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.precedence import governing
from proxy.quota.throttle import MAX_THROTTLE_MS, ClientQuotas
from tests.lab.cluster.java import java
from tests.support.metadata_log import quotas_image
from tests.unit.quota.test_throttle import NOW, Settings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ORACLE = Path(__file__).parent / "java" / "ClientQuotas.java"
SEED = int(os.environ.get("PENSTOCK_SEED", "124"))
LOADS = int(os.environ.get("PENSTOCK_QUOTA_LOADS", "40"))
REQUESTS = 120
"""Of one load."""

LEVELS = [*product(("user", DEFAULT), ("client", DEFAULT, None)), (None, "client"), (None, DEFAULT)]
CLIENTS = list(product(("user", "stranger"), ("client", "unknown")))
WITHOUT_CLIENT_ID = [("user", ""), ("stranger", "")]


def entity(user: object, client_id: object) -> QuotaEntity:
    return QuotaEntity(user=user, client_id=client_id)  # type: ignore[arg-type]


def word(name: object) -> str:
    return "*" if name is DEFAULT else "-" if name is None else str(name)


def set_line(level: tuple[object, object], limit: float | None) -> str:
    return f"set {word(level[0])} {word(level[1])} {'-' if limit is None else limit}"


def said_by_kafka(libs: Path, lines: list[str]) -> Iterator[str]:
    command = [java(), "-cp", f"{libs}/*", str(ORACLE)]
    answer = subprocess.run(
        command,
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return iter(answer.stdout.splitlines())


def said_by_us(quotas: QuotasImage, user: str, client_id: str) -> str:
    found = governing(quotas, user, client_id, PRODUCER_BYTE_RATE)
    if found is None:
        return "none"
    return f"{found.limit} {found.user_tag} {found.client_tag}"


@pytest.mark.spec("Q2", "Q4")
def test_kafka_lets_the_same_level_govern_in_every_set_of_configured_levels(kafka_libs: Path) -> None:
    lines, ours = [], []
    for configured in product((False, True), repeat=len(LEVELS)):
        limits = {level: 10.0 + i for i, level in enumerate(LEVELS) if configured[i]}
        quotas = quotas_image({entity(*level): {PRODUCER_BYTE_RATE: x} for level, x in limits.items()})
        lines += ["new PRODUCE 11 1", *(set_line(level, limit) for level, limit in limits.items())]
        for user, client_id in (*CLIENTS, *WITHOUT_CLIENT_ID):
            lines.append(f"who {user} {client_id}")
            ours.append((sorted(map(str, limits)), user, client_id, said_by_us(quotas, user, client_id)))

    # Where nothing governs it does not matter by what Kafka would count.
    theirs = ["none" if said.startswith("none ") else said for said in said_by_kafka(kafka_libs, lines)]

    assert len(ours) == 2 ** len(LEVELS) * len(CLIENTS + WITHOUT_CLIENT_ID)
    wrong = [(case, said) for case, said in zip(ours, theirs, strict=True) if case[-1] != said]
    assert wrong == []


@dataclass
class Load:
    """What one random load asks Kafka, and what we said to it."""

    random: Random
    key: str

    def __post_init__(self) -> None:
        samples, seconds = self.random.choice([(11, 1), (4, 1), (3, 2), (2, 5)])
        kind = "REQUEST" if self.key == REQUEST_PERCENTAGE else "PRODUCE"
        self.lines = [f"new {kind} {samples} {seconds}"]
        self.ours: list[tuple[str, int]] = []
        self._quotas = ClientQuotas(Settings(samples, seconds))
        self._limits: dict[tuple[object, object], float] = {}
        # Something always governs: what is used while nothing does is counted by Kafka, and not by us.
        self._set((None, DEFAULT), self._limit())

    def runs(self) -> None:
        now_ms = NOW
        for _ in range(REQUESTS):
            if self.random.random() < 0.1:
                level = self.random.choice(LEVELS[:-1])
                self._set(level, self._limit() if self.random.random() < 0.7 else None)
            now_ms += self.random.choice([0, 1, 40, 300, 1_000, 2_500, self.random.randrange(12_000)])
            user, client_id = self.random.choice(CLIENTS)
            value = self.random.choice([0, 1, self._limit(), 30 * self._limit()])
            bucket = self._quotas.bucket(self.key, self._image, user, client_id)
            line = f"record {user} {client_id} {value} {now_ms}"
            self.lines.append(line)
            self.ours.append((line, bucket.record(value, now_ms)))

    def _limit(self) -> float:
        return float(self.random.choice([1, 10, 1_000, 50_000]) * self.random.randrange(1, 10))

    def _set(self, level: tuple[object, object], limit: float | None) -> None:
        self.lines.append(set_line(level, limit))
        self._limits.pop(level, None)
        if limit is not None:
            self._limits[level] = limit
        self._image = quotas_image({entity(*at): {self.key: x} for at, x in self._limits.items()})


@pytest.mark.spec("Q6", "Q12")
@pytest.mark.parametrize("key", [PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE])
def test_in_every_load_each_request_is_throttled_for_as_long_as_kafka_does(
    kafka_libs: Path, key: str
) -> None:
    loads = [Load(Random(f"{SEED} {key} {number}"), key) for number in range(LOADS)]
    for load in loads:
        load.runs()

    theirs = said_by_kafka(kafka_libs, [line for load in loads for line in load.lines])

    wrong = [
        f"load {number}: {line}: {ours}, Kafka {said}"
        for number, load in enumerate(loads)
        for line, ours in load.ours
        # Beyond 31 bits Kafka's time wraps round (docs/differences.md).
        if (said := next(theirs)) != str(ours) and ours != MAX_THROTTLE_MS
    ]
    assert wrong == []
    assert sum(ours > 0 for load in loads for _, ours in load.ours) > LOADS * REQUESTS // 10
