"""What quotas add to a request, however many there are: `python -m tests.lab.bench.quotas`.

One client's requests of a hundred bytes and their answers through a session, without sockets: with no quota
in the image; with 10,000 entities of which 5,000 are in use, where the client is not limited; and where it
is, but stays far from its bound. CPU time, the cases in turns, so that others on the machine count less; what
counts is how the rows compare. Beside it: what making a client known takes, what operators ask for, and what
a record costs in a bucket that several workers have together.
"""

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from time import process_time

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig
from proxy.metadata.image import QuotasImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.net.pages.http_server import exposition
from proxy.net.pages.quota_page import quota_page
from proxy.net.runtime.chunked import run_in_slices
from proxy.net.telemetry.event_metrics import Telemetry
from proxy.net.telemetry.quota_metrics import ShownClients, quota_series
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from proxy.quota.precedence import Governing
from proxy.quota.rate import Rates, unshared
from proxy.quota.throttle import Bucket, ClientQuotas
from proxy.session.client_state import ClientState
from proxy.wire.api_keys import ApiKey
from proxy.workers.member import Member
from proxy.workers.segment import Segment, layout
from tests.session.apis.asking import image_with
from tests.session.conversation import (
    NOW_MS,
    Conversation,
    fetch,
    fetched,
    gate_with,
    produce,
    produced,
)
from tests.support.metadata_log import quotas_image

BUILD = Path(__file__).resolve().parents[3] / "build"
ROUNDS = 15
TIMES = 4_000
ENTITIES, ACTIVE = 10_000, 5_000
FAR_AWAY = 1e12
"""Bytes a second: limited, and never throttled."""

NO_QUOTAS: dict[QuotaEntity, dict[str, float]] = {}
OTHERS: dict[QuotaEntity, dict[str, float]] = {
    QuotaEntity(user=f"user-{number}"): {PRODUCER_BYTE_RATE: FAR_AWAY, CONSUMER_BYTE_RATE: FAR_AWAY}
    for number in range(ENTITIES)
}
OURS: dict[QuotaEntity, dict[str, float]] = {
    QuotaEntity(user="alice"): {PRODUCER_BYTE_RATE: FAR_AWAY, CONSUMER_BYTE_RATE: FAR_AWAY}
}


@dataclass(frozen=True)
class Row:
    """One figure: the median of the rounds, and the least and the most of them."""

    case: str
    what: str
    unit: str
    median: float
    min: float
    max: float


def client_under(quotas: QuotasImage) -> Conversation:
    """alice, with `ACTIVE` others whose buckets are in use."""
    gate = gate_with(replace(image_with("READ TOPIC orders", "WRITE TOPIC orders"), quotas=quotas))
    for number in range(ACTIVE):
        for key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE):
            gate.quotas.bucket(key, quotas, f"user-{number}", "app").record(1_000, NOW_MS)
    return Conversation(gate=gate)


def round_trips(talk: Conversation, request: bytes, answer: bytes) -> Callable[[], float]:
    """CPU µs of one request and its answer, each time it is called."""
    session = talk.session
    clock = [talk.now_ms]

    def once() -> None:
        asked, answered = memoryview(bytearray(request)), memoryview(bytearray(answer))
        clock[0] += 1
        if not session.forward_request(asked, clock[0]):
            session.receive(asked, clock[0])
        if not session.forward_response(answered, clock[0]):
            session.broker_responded(answered, clock[0])

    return lambda: took_us(once, TIMES)


def took_us(work: Callable[[], object], times: int) -> float:
    since_s = process_time()
    for _ in range(times):
        work()
    return 1e6 * (process_time() - since_s) / times


def in_turns(cases: Mapping[str, Callable[[], float]], what: str, unit: str = "us") -> list[Row]:
    """Every case once a round; the first round only warms up."""
    rounds = [{name: case() for name, case in cases.items()} for _ in range(ROUNDS + 1)][1:]
    found = {name: [each[name] for each in rounds] for name in cases}
    return [Row(name, what, unit, median(v), min(v), max(v)) for name, v in found.items()]


def requests(images: Mapping[str, QuotasImage]) -> list[Row]:
    """A produce and a fetch request of a client under each of the images."""
    rows = []
    for what, api_key, version, message, reply in (
        ("produce", ApiKey.PRODUCE, 12, produce("orders", records=bytes(100)), produced("orders")),
        ("fetch", ApiKey.FETCH, 12, fetch("orders"), fetched("orders", records=bytes(100))),
    ):
        cases = {}
        for name, image in images.items():
            talk = client_under(image)
            request = talk.request(api_key, version, message)
            cases[name] = round_trips(talk, request, talk.response(api_key, version, reply))
        rows += in_turns(cases, what)
    return rows


def becoming_known(images: Mapping[str, QuotasImage]) -> list[Row]:
    """What a new client id, or a new image, costs a connection once."""

    def case(image: QuotasImage) -> Callable[[], float]:
        talk = client_under(image)
        context, basis, quotas = talk.session.machine.client.context, talk.gate.basis, talk.gate.quotas
        return lambda: took_us(lambda: ClientState(b"", context, basis, quotas), TIMES)

    return in_turns({name: case(image) for name, image in images.items()}, "client known")


def records(workers: int) -> dict[str, Callable[[], float]]:
    """A record far from the bound, and one beyond it, in a bucket of so many workers (0: not shared)."""
    rates = [unshared] if not workers else group(workers)
    found = Governing(1e6, None, "alice", "")
    ours, *others = [Bucket(PRODUCER_BYTE_RATE, found, 1000, 11, True, rate) for rate in rates]
    clock = [NOW_MS]

    def once(value: float) -> None:
        clock[0] += 1
        if not ours.record_within(value, clock[0]):
            ours.record(value, clock[0])

    def case(value: float) -> float:
        clock[0] += 60_000
        for second in range(11):
            for bucket in (ours, *others):
                bucket.record(value, clock[0] + 1_000 * second)
        clock[0] += 10_000
        return took_us(lambda: once(value), 500)

    return {"far": lambda: case(1.0), "beyond": lambda: case(2e6)}


def group(workers: int) -> list[Rates]:
    """The rates of workers that share memory."""
    config = ProxyConfig.model_validate(
        {
            "proxy.id": "p",
            "workers": workers,
            "listeners": [{"name": "PLAIN", "bind": "h:1", "security.protocol": "PLAINTEXT"}],
            "upstream": {"bootstrap": "h:2"},
            "controller": {"endpoints": ["h:3"]},
            "audit": {"spool.dir": "spool"},
        }
    )
    segment = Segment.create(layout(config))
    return [Member(segment, number).rate for number in range(workers)]


def shared_buckets() -> list[Row]:
    """What it costs that a bucket is one of a group."""
    cases = {workers: records(workers) for workers in (0, 2, 4)}
    rows = []
    for what in ("far", "beyond"):
        of_all = {"alone" if not n else f"of {n}": case[what] for n, case in cases.items()}
        rows += in_turns(of_all, f"record {what}")
    return rows


def asked_by_operators(image: QuotasImage) -> list[Row]:
    """The page and the metrics of all who are active: the longest that either holds the loop."""
    gate = client_under(image).gate
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)
    registry.register(OfQuotas(gate.quotas))
    for bucket in gate.quotas.active(NOW_MS):
        event = AuditEvent(event="throttled", quota_key=bucket.key, quota_id=bucket.quota_id, count=1)
        telemetry.read(event)
    cases = {
        "/quotas": lambda: asyncio.run(longest_turn_ms(run_in_slices(quota_page(gate.quotas, [], NOW_MS)))),
        "/metrics": lambda: asyncio.run(longest_turn_ms(exposition(registry))),
    }
    return [row for what, case in cases.items() for row in in_turns({"others": case}, what, "ms")]


@dataclass(frozen=True)
class OfQuotas(Collector):
    quotas: ClientQuotas

    def collect(self) -> Iterable[Metric]:
        return quota_series(self.quotas, ShownClients(), NOW_MS)


async def longest_turn_ms(page: Coroutine[None, None, bytes]) -> float:
    """CPU ms of what is done in one go, at most. It is stepped by hand, where there is an event loop."""
    longest_s, going_on = 0.0, True
    while going_on:
        since_s = process_time()
        try:
            page.send(None)
        except StopIteration:
            going_on = False
        longest_s = max(longest_s, process_time() - since_s)
    return 1e3 * longest_s


def main() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    images = {
        "none": quotas_image(NO_QUOTAS),
        "others": quotas_image(OTHERS),
        "limited": quotas_image(OTHERS | OURS),
    }
    rows = [
        *requests(images),
        *becoming_known(images),
        *asked_by_operators(images["others"]),
        *shared_buckets(),
    ]
    for row in rows:
        sys.stdout.write(
            f"{row.case:<8} {row.what:<13} {row.median:>8.2f} {row.unit} ({row.min:.2f} to {row.max:.2f})\n"
        )
    BUILD.mkdir(exist_ok=True)
    (BUILD / "quotas.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
