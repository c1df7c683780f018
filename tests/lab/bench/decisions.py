"""What a decision takes, however many ACLs there are: `python -m tests.lab.bench.decisions`.

Decisions are remembered by each connection, so this is paid once for a client's topic, not for a request.
Beside it: what an image of that many ACLs takes to build, to change by one record, and to hold. CPU time, so
that others on the machine count less; what counts is how the rows compare.
"""

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any
from uuid import UUID

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types
from tests.support.images import image_of

BUILD = Path(__file__).resolve().parents[3] / "build"
ROUNDS = 5
SECONDS = 0.1
"""How long one round lasts."""

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY

LONGEST = "".join(chr(ord("a") + index % 26) for index in range(249))
"""As long as a topic's name may be."""


def record(number: int, name: str, user: str, pattern: PatternType = LITERAL, **changes: Any) -> Any:
    """`user` may write topics of that pattern."""
    fields: dict[str, Any] = {
        "id": UUID(int=number + 1).bytes,
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "pattern_type": pattern,
        "principal": f"User:{user}",
        "host": "*",
        "operation": Operation.WRITE,
        "permission_type": ALLOW,
    }
    return types.AccessControlEntryRecord(**(fields | changes))


def spread(count: int) -> Iterator[Any]:
    """1,000 users with a topic each of a team, literal and prefixed in turns."""
    for number in range(count):
        pattern = LITERAL if number % 2 else PREFIXED
        yield record(number, f"team-{number % 1000}.topic-{number}", f"user-{number % 1000}", pattern)


def one_resource(count: int) -> Iterator[Any]:
    """All on one topic, each for another user."""
    return (record(number, "orders", f"user-{number}") for number in range(count))


def nested(count: int) -> Iterator[Any]:
    """Every prefix of one longest name, each for some 400 users."""
    for number in range(count):
        yield record(number, LONGEST[: 1 + number % len(LONGEST)], f"user-{number}", PREFIXED)


def denied(count: int) -> Iterator[Any]:
    """alice may write everything, save what so many DENYs take from her."""
    yield record(0, "*", "alice", operation=Operation.ALL)
    for number in range(1, count):
        pattern = LITERAL if number % 2 else PREFIXED
        yield record(number, f"secret-{number}", "alice", pattern, permission_type=DENY)


def owning(count: int) -> Iterator[Any]:
    """All are alice's."""
    return (record(number, f"topic-{number}", "alice") for number in range(count))


def taken_back(count: int) -> Iterator[Any]:
    """All are alice's, and one DENY takes them all back: the worst there is for a question by type."""
    yield record(0, "topic-", "alice", PREFIXED, permission_type=DENY)
    for number in range(1, count):
        yield record(number, f"topic-{number}", "alice")


@dataclass(frozen=True)
class Case:
    """ACLs of some shape, and who asks what of them."""

    shape: str
    count: int
    records: Callable[[int], Iterator[Any]]
    questions: Sequence[tuple[str, str, str | None]]
    """(what, user, topic); without a topic: by resource type."""


CASES = (
    Case("none", 0, spread, [("denied", "user-3", "team-3.topic-3"), ("by type", "user-3", None)]),
    *(
        Case(
            "spread",
            count,
            spread,
            [
                ("literal", "user-1", "team-1.topic-1"),
                ("prefix", "user-2", "team-2.topic-2.events"),
                ("denied", "user-3", "team-1.topic-1"),
                ("by type", "user-3", None),
                ("by type, denied", "nobody", None),
            ],
        )
        for count in (1_000, 10_000, 100_000)
    ),
    *(
        Case(
            "one topic",
            count,
            one_resource,
            [("allowed", "user-9", "orders"), ("denied", "nobody", "orders")],
        )
        for count in (10, 10_000, 100_000)
    ),
    *(
        Case("nested", count, nested, [("allowed", "user-0", LONGEST), ("denied", "nobody", LONGEST)])
        for count in (249, 100_000)
    ),
    *(
        Case(
            "denied",
            count,
            denied,
            [
                ("allowed", "alice", "orders"),
                ("denied", "alice", "secret-99.events" if count < 1_000 else "secret-998.events"),
                ("by type", "alice", None),
            ],
        )
        for count in (100, 100_000)
    ),
    *(Case("taken back", count, taken_back, [("by type, denied", "alice", None)]) for count in (10, 100_000)),
    *(
        Case("one user", count, owning, [("allowed", "alice", "topic-7"), ("by type", "alice", None)])
        for count in (10, 100_000)
    ),
)


@dataclass(frozen=True)
class Row:
    """One figure."""

    shape: str
    acls: int
    what: str
    unit: str
    median: float
    min: float
    max: float


def took_us(work: Callable[[], object]) -> list[float]:
    """CPU µs of one call, round by round."""
    times = 1
    while (once := _timed(work, times)) < SECONDS / 10:
        times *= 4
    times = max(1, round(times * SECONDS / max(once, 1e-9)))
    return [1e6 * _timed(work, times) / times for _ in range(ROUNDS)]


def _timed(work: Callable[[], object], times: int) -> float:
    since_s = process_time()
    for _ in range(times):
        work()
    return process_time() - since_s


def row(case: Case, what: str, unit: str, values: Sequence[float]) -> Row:
    return Row(case.shape, case.count, what, unit, median(values), min(values), max(values))


def measured(case: Case) -> Iterator[Row]:
    """All figures of a case."""
    records = list(case.records(case.count))
    gc.collect()
    since_s = process_time()
    image = image_of(*records)
    took_ms = 1e3 * (process_time() - since_s)
    if records:
        yield row(case, "build", "ms", [took_ms])
    if case.shape == "spread":
        yield row(case, "memory", "B/ACL", [held_bytes(records) / len(records)])
    one_more = [record(10_000_000, "orders", "newcomer")]
    yield row(case, "one record", "us", took_us(lambda: image_of(*one_more, base=image)))
    for what, user, topic in case.questions:
        yield row(case, what, "us", took_us(question(image, user, topic)))


def held_bytes(records: Sequence[Any]) -> int:
    """What an image of them holds; traced, so built once more and slowly."""
    tracemalloc.start()
    image = image_of(*records)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held if image.acls.count else 0


def question(image: MetadataImage, user: str, topic: str | None) -> Callable[[], object]:
    """A decision of the authorizer, to be made again and again."""
    context = RequestContext(Principal("User", user), "10.0.0.1", "SASL_SSL", "client", image=image)
    if topic is None:
        # One of its own for each: it remembers what it found.
        return lambda: StandardAuthorizer().authorize_by_resource_type(
            context, Operation.WRITE, ResourceType.TOPIC
        )
    authorizer = StandardAuthorizer()
    authorizer.configure({})
    actions = [Action(Operation.WRITE, ResourceType.TOPIC, topic)]
    return lambda: authorizer.authorize(context, actions)


def main(only: Sequence[str]) -> None:
    """`only`: the shapes to measure, all when there is none."""
    # As the proxy's process has it.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    rows = []
    for case in CASES:
        if only and case.shape not in only:
            continue
        for each in measured(case):
            rows.append(each)
            sys.stdout.write(
                f"{each.shape:<10} {each.acls:>7} {each.what:<16} {each.median:>10.1f} {each.unit:<6}"
                f" ({each.min:.1f} to {each.max:.1f})\n"
            )
            sys.stdout.flush()
    BUILD.mkdir(exist_ok=True)
    (BUILD / "decisions.json").write_text(json.dumps([asdict(each) for each in rows], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
