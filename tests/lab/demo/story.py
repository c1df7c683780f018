"""The story: which steps are played, which of them side by side, and the table of what was seen.

When a step does not show what it should, the story goes on: the later steps tell how far the fault reaches.
"""

import json
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import KafkaException

from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.errors import SetupError
from tests.lab.demo.stage import ACTORS, CONSUMER, IDLER, PRODUCER, TOPIC, NotShown, Stage, Step
from tests.lab.demo.steps import access, audit, brokers, limits, people, sessions

# These are no faults of this program. The step reports what it saw instead.
_MISHAPS = (
    NotShown,
    SetupError,
    KafkaException,
    AiokafkaError,
    OSError,
    json.JSONDecodeError,
)

ACTS: Sequence[Sequence[Step]] = (
    (Step("users", f"kafka-configs: SCRAM users {', '.join(ACTORS)}", people.create),),
    (Step("topic", f"kafka-topics: create {TOPIC}", access.create_topic),),
    (Step("denied", f"kafka-console-producer as {PRODUCER}, no ACL yet", access.denied),),
    (Step("ACLs", "kafka-acls: --producer and --consumer", access.allow),),
    (Step("allowed", "the console producer and consumer again", access.allowed),),
    (
        Step(
            "quota",
            f"kafka-configs: producer_byte_rate for {PRODUCER}; librdkafka sends a burst",
            limits.throttle,
        ),
        Step(
            "re-authentication", f"librdkafka as {CONSUMER} past the session's end", sessions.reauthenticate
        ),
        Step("expiry", f"aiokafka as {IDLER} past the session's end", sessions.expire),
    ),
    (Step("quota lifted", "kafka-configs: --delete-config", limits.lift),),
    (Step("ACLs withdrawn", "kafka-acls: --remove", access.withdraw),),
    (Step("users removed", "kafka-configs: --delete-config SCRAM-SHA-256", people.remove),),
    (Step("audit", "Spark: ingest, reconcile, report", audit.reconcile),),
)


_BROKERS = Step("every broker", "librdkafka: each partition, from one proxy on", brokers.reach_all)


def acts(brokers: int) -> Sequence[Sequence[Step]]:
    """With several brokers, also that clients find each of them by its own proxy."""
    if brokers == 1:
        return ACTS
    allowed = next(place for place, act in enumerate(ACTS) if act[0].name == "allowed")
    return (*ACTS[: allowed + 1], (_BROKERS,), *ACTS[allowed + 1 :])


@dataclass(frozen=True, slots=True)
class Outcome:
    step: Step
    seen: str
    shown: bool


def play(stage: Stage, acts: Sequence[Sequence[Step]] = ACTS) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for act in acts:
        print("* " + " | ".join(step.doing for step in act), flush=True)
        outcomes += at_once([partial(_play, stage, step) for step in act])
    return outcomes


def _play(stage: Stage, step: Step) -> Outcome:
    try:
        return Outcome(step, step.play(stage), True)
    except _MISHAPS as mishap:
        return Outcome(step, str(mishap) or type(mishap).__name__, False)


def table(outcomes: Iterable[Outcome], width: int) -> str:
    """A row a step: what was done, what was seen, whether that is what it should be."""
    rows = [line for outcome in outcomes for line in _row(outcome, width)]
    return "\n".join([_columns("", "step", "done", "seen"), "-" * width, *rows])


_NAME, _DONE = 18, 34


def _row(outcome: Outcome, width: int) -> list[str]:
    seen = textwrap.wrap(outcome.seen, max(30, width - _NAME - _DONE - 7), break_on_hyphens=False) or [""]
    done = textwrap.wrap(outcome.step.doing, _DONE, break_on_hyphens=False)
    height = max(len(seen), len(done))
    marks = ["ok" if outcome.shown else "NO", *[""] * height]
    names = [outcome.step.name, *[""] * height]
    padded = (column + [""] * (height - len(column)) for column in (done, seen))
    return [_columns(*cells) for cells in zip(marks, names, *padded, strict=False)]


def _columns(mark: str, name: str, done: str, seen: str) -> str:
    return f"{mark:<2} {name:<{_NAME}} {done:<{_DONE}}  {seen}".rstrip()
