"""The same load under the same quota at a broker and through the proxy before it: throttle times and rates.

Raw sockets, requests of fixed sizes, one at a time; who is told to wait asks again at once, and is not heard.
Both sides run at once, so that what else goes on on the machine falls on both, with a window of three seconds
(quota.window.num=4) so that there are several of them in a short test. The broker charges the direct client
as ANONYMOUS; it knows the proxy's clients as the proxy's own user, whom no quota of the broker is for.
"""

import secrets
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from proxy.net.runtime.clock import now_ms
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.settings import write_users
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.side_by_side.dialogue import Dialogue
from tests.session.conversation import fetch, produce
from tests.support.controllers import acl_creation
from tests.support.topic_requests import create_topics, metadata_of, record_batch

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SAMPLES = 4
WINDOW_MS = 1_000 * (SAMPLES - 1)
DURATION_MS = 13_000
LIMIT = 100_000
RECORD_BYTES = 12_000
TIMEOUT_S = 30.0
PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
TOPIC = "load"
STORED_RECORDS = 1_200
JITTER_MS = 250
"""How far apart two throttle times may be because a request of one side came so much later."""
COMPARED = 18
ATTEMPTS = 2
TIMED, FAR_TOO_LITTLE = "timed", 0.01
"""A tenth of a millisecond a second: each request takes more."""
ONE_SAMPLE_MS = 1_000


@dataclass
class Side:
    """Where the load goes, and as whom."""

    name: str
    address: str
    user: str
    password: str | None = None

    def dialogue(self, client_id: str) -> Dialogue:
        dialogue = Dialogue(self.address, TIMEOUT_S, client_id)
        if self.password is not None:
            dialogue.log_in(self.user, self.password)
        return dialogue


@dataclass
class Seen:
    """What a client was told, request by request."""

    throttle_ms: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """Bytes that count against the quota."""
    ended_ms: list[int] = field(default_factory=list)
    """When the client is heard again, since the first request."""

    def note(self, throttle_ms: int, size: int, began_ms: int) -> None:
        self.throttle_ms.append(throttle_ms)
        self.sizes.append(size)
        self.ended_ms.append(now_ms() + throttle_ms - began_ms)

    def rate(self, from_request: int, to_request: int) -> float:
        """Bytes a second from the end of one request's pause to that of another's."""
        time_ms = self.ended_ms[to_request] - self.ended_ms[from_request]
        return sum(self.sizes[from_request + 1 : to_request + 1]) * 1_000 / time_ms

    def rate_of_producer(self) -> float:
        """After the first window, over whole rounds: each ends with the pause after which a burst is free."""
        rounds = [i for i, (told, then) in enumerate(pairwise(self.throttle_ms)) if told and not then]
        return self.rate(rounds[0], rounds[-1])

    def rate_of_consumer(self) -> float:
        """After the first window, to the last pause."""
        pauses = [i for i, told in enumerate(self.throttle_ms) if told and self.ended_ms[i] > WINDOW_MS]
        return self.rate(pauses[0], pauses[-1])


@pytest.fixture(scope="module")
def sides(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    directory = tmp_path_factory.mktemp("quotas")
    passwords = {name: secrets.token_urlsafe(12) for name in ("admin", "alice")}
    stack = Stack(
        StackSettings(
            directory=directory / "stack",
            libs=kafka_libs,
            broker_properties={"quota.window.num": str(SAMPLES)},
            proxy_changes={
                "users.file": str(write_users(directory, passwords)),
                "quota": {"window.num": SAMPLES},
            },
        )
    )
    with stack.running():
        direct = Side("broker", stack.broker.plaintext, "ANONYMOUS")
        address = stack.entrance().bootstrap
        admin = Side("admin", address, "admin", passwords["admin"])
        _stage(direct, admin)
        yield direct, Side("proxy", address, "alice", passwords["alice"])


def _stage(direct: Side, admin: Side) -> None:
    """A topic with records, rights for alice, and each side's quotas where it looks for them."""
    at_broker, at_proxy = direct.dialogue("stage"), admin.dialogue("stage")
    at_proxy.must(ApiKey.CREATE_TOPICS, 5, create_topics(TOPIC))
    rights = [acl_creation(TOPIC, operation=operation) for operation in (3, 4)]
    made = at_proxy.must(ApiKey.CREATE_ACLS, 3, t.CreateAclsRequest(creations=rights))
    assert [result.error_code for result in made.results] == [0, 0]
    _wait_for_leader(at_broker)
    stored = record_batch(RECORD_BYTES)
    for _ in range(STORED_RECORDS // 20):
        assert _produce(at_broker, stored, 20) == 0
    for side, dialogue in ((direct, at_broker), (admin, at_proxy)):
        _set_quotas(dialogue, "ANONYMOUS" if side is direct else "alice")
        dialogue.close()


def _wait_for_leader(dialogue: Dialogue) -> None:
    deadline_ms = now_ms() + 1_000 * TIMEOUT_S
    while dialogue.must(ApiKey.METADATA, 8, metadata_of(TOPIC)).topics[0].error_code:
        assert now_ms() < deadline_ms


def _set_quotas(dialogue: Dialogue, user: str) -> None:
    """On bytes for the user with each client id: every attempt has a quota of its own. On time for one."""
    request = t.AlterClientQuotasRequest

    def entry(client_id: str | None, limits: dict[str, float]) -> Any:
        parts = (("user", user), ("client-id", client_id))
        entity = [request.EntityData(entity_type=kind, entity_name=name) for kind, name in parts]
        return request.EntryData(
            entity=entity, ops=[request.OpData(key=key, value=value) for key, value in limits.items()]
        )

    asked = request(
        entries=[
            entry(None, dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"), float(LIMIT))),
            entry(TIMED, {"request_percentage": FAR_TOO_LITTLE}),
        ]
    )
    answer = dialogue.must(ApiKey.ALTER_CLIENT_QUOTAS, 1, asked)
    assert [each.error_code for each in answer.entries] == [0, 0]


def _produce(dialogue: Dialogue, batch: bytes, times: int = 1) -> int:
    """The throttle time that the answer to the last of so many tells."""
    for _ in range(times):
        answer = dialogue.must(PRODUCE, 9, produce(TOPIC, records=batch))
        assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def _producer(client_id: str, side: Side, began_ms: int) -> Seen:
    """Requests of the same size, each as soon as the one before allows."""
    dialogue, batch, seen = side.dialogue(client_id), record_batch(5 * RECORD_BYTES), Seen()
    while now_ms() - began_ms < DURATION_MS:
        seen.note(_produce(dialogue, batch), len(batch) + 60, began_ms)
    dialogue.close()
    return seen


def _consumer(client_id: str, side: Side, began_ms: int) -> Seen:
    """Two records a fetch, without a fetch session."""
    dialogue, offset, seen = side.dialogue(client_id), 0, Seen()
    while now_ms() - began_ms < DURATION_MS:
        answer = dialogue.must(FETCH, 12, _fetch_from(offset, 2 * (RECORD_BYTES + 80)))
        records = b"".join(
            bytes(part.records or b"") for each in answer.responses for part in each.partitions
        )
        offset += _whole_batches(records)
        seen.note(answer.throttle_time_ms, len(records) + 60 if records else 0, began_ms)
        assert not (records and answer.throttle_time_ms), "records or a pause, never both"
    dialogue.close()
    return seen


def _fetched(dialogue: Dialogue) -> tuple[int, bool]:
    """What one fetch is told, and whether it got records."""
    answer = dialogue.must(FETCH, 12, _fetch_from(0, RECORD_BYTES))
    return int(answer.throttle_time_ms), bool(answer.responses)


def _fetch_from(offset: int, partition_max_bytes: int) -> Any:
    """Without a fetch session."""
    request = fetch(TOPIC)
    partition = request.topics[0].partitions[0]
    partition.fetch_offset, partition.partition_max_bytes = offset, partition_max_bytes
    return request


@dataclass
class Timed:
    """What one whose share of the time is far too little was told, and how long each answer let wait."""

    throttle_ms: dict[str, int] = field(default_factory=dict)
    waited_ms: list[int] = field(default_factory=list)
    got_records: bool = False


def _of_every_kind(side: Side, began_ms: int) -> Timed:
    """One request after the other, each as soon as the answer before is there."""
    dialogue, timed, batch = side.dialogue(TIMED), Timed(), record_batch(100)
    topics = metadata_of(TOPIC)
    groups = t.FindCoordinatorRequest(key="alice", key_type=0)
    asked: dict[str, Callable[[], int]] = {
        "first": lambda: int(dialogue.must(ApiKey.METADATA, 8, topics).throttle_time_ms),
        "metadata": lambda: int(dialogue.must(ApiKey.METADATA, 8, topics).throttle_time_ms),
        "produce": lambda: _produce(dialogue, batch),
        "coordinator": lambda: int(dialogue.must(ApiKey.FIND_COORDINATOR, 3, groups).throttle_time_ms),
        "quotas": lambda: int(
            dialogue.must(
                ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, t.DescribeClientQuotasRequest(components=[])
            ).throttle_time_ms
        ),
    }
    since_ms = began_ms
    for name, ask in asked.items():
        timed.throttle_ms[name] = ask()
        timed.waited_ms.append(now_ms() - since_ms)
        since_ms = now_ms()
    timed.throttle_ms["fetch"], timed.got_records = _fetched(dialogue)
    dialogue.close()
    return timed


def _whole_batches(records: bytes) -> int:
    count = position = 0
    while position + 12 <= len(records):
        position += 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        count += position <= len(records)
    return count


def _at_once(sides: tuple[Side, Side], load: Callable[[Side, int], Seen]) -> list[Seen]:
    began_ms = now_ms()
    with ThreadPoolExecutor() as pool:
        return [each.result() for each in [pool.submit(load, side, began_ms) for side in sides]]


def _differences(produced: list[Seen]) -> list[tuple[int, int]]:
    """Of the first requests, the throttle times that a late request does not explain."""
    pairs = zip(*(seen.throttle_ms[:COMPARED] for seen in produced), strict=True)
    return [(direct, proxied) for direct, proxied in pairs if abs(direct - proxied) > JITTER_MS]


@pytest.mark.long
@pytest.mark.spec("Q1", "Q6", "Q7")
def test_throttle_times_and_rates_are_those_of_a_broker(sides: tuple[Side, Side]) -> None:
    # If something else held one side up: once more, with client ids whose quotas are unused.
    for attempt in range(ATTEMPTS):
        loads = (partial(_producer, f"producer-{attempt}"), partial(_consumer, f"consumer-{attempt}"))
        with ThreadPoolExecutor() as pool:
            produced, consumed = pool.map(lambda load: _at_once(sides, load), loads)
        differences = _differences(produced)
        rates = [seen.rate_of_producer() / LIMIT for seen in produced]
        rates += [seen.rate_of_consumer() / LIMIT for seen in consumed]
        for seen, share in zip(produced + consumed, rates, strict=True):
            sys.stderr.write(f"{share:.3f} of the bound, told {seen.throttle_ms}\n")
        if not differences:
            break

    assert differences == []
    assert [0.95 < share < 1.05 for share in rates[:2]] == [True, True]
    # A broker gives a fetch nothing that would go beyond the bound, so that its rate stays below it, by as
    # much as the windows are few.
    direct, proxied = rates[2:]
    assert [share < 1.05 for share in rates[2:]] == [True, True]
    assert abs(proxied - direct) < 0.2


@pytest.mark.spec("Q7", "Q12")
def test_who_has_far_too_little_time_waits_a_window_for_each_answer_as_at_a_broker(
    sides: tuple[Side, Side],
) -> None:
    began_ms = now_ms()
    with ThreadPoolExecutor() as pool:
        direct, proxied = (
            each.result() for each in [pool.submit(_of_every_kind, side, began_ms) for side in sides]
        )

    told = dict.fromkeys(("metadata", "produce", "coordinator", "quotas", "fetch"), ONE_SAMPLE_MS)
    for timed in (direct, proxied):
        # What the first request took is known when it has been answered, where it is not known before; on a
        # fast machine it may be little more than the limit.
        assert 0 <= timed.throttle_ms.pop("first") <= ONE_SAMPLE_MS
        assert timed.throttle_ms == told
        assert min(timed.waited_ms[2:]) > ONE_SAMPLE_MS - 50, (
            f"told, and heard all the same: {timed.waited_ms}"
        )
    # Here the records have come already: to get them again would cost more of the time (decision 0013).
    assert (direct.got_records, proxied.got_records) == (False, True)
