"""Proxies, their clocks and clients, and the channel between them, in virtual time.

The channel is as Kafka's: each partition is a log in one order, and each reader gets all of it in that
order, later or sooner. A write may be lost, appended twice, or appended after a later one of the same proxy.
A separated proxy writes nothing; what it did not read meanwhile it reads when it is connected again.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count
from random import Random

from proxy.quota.cluster.holdings import ShareOrigin
from proxy.quota.cluster.member import ClusterMember
from proxy.quota.cluster.messages import Batch, MalformedError, decode, digest_of
from proxy.quota.cluster.timing import TICK_MS
from proxy.quota.keys import PRODUCER_BYTE_RATE
from proxy.quota.precedence import Governing
from proxy.quota.throttle import Bucket

NAMES = tuple[str, str, str]
CLIENT_STEP_MS = 20
WINDOW_MS = 1_000
"""quota.window.size.seconds."""
LATENCY_MS = 20
LOOK_AGAIN_MS = 250
"""How often a session looks whether a debt is paid (proxy.session.machine)."""
WALL_MS = 1_700_000_000_000


@lru_cache(maxsize=4096)
def _decoded(value: bytes) -> Batch | None:
    """Each member decodes a record by itself; the simulation does it once for all."""
    try:
        return decode(value)
    except MalformedError:
        return None


@dataclass
class Clock:
    """A monotonic clock of its own beginning and rate."""

    begin_ms: float = 0.0
    rate: float = 1.0

    def at(self, true_ms: float) -> float:
        return self.begin_ms + true_ms * self.rate


@dataclass
class Client:
    """Sends `offered` units per second while it is not muted, in one request per step."""

    bucket: Bucket
    offered: float
    in_flight: int = 1
    """How many requests it sends before the first response mutes it. With more than one, all that have piled
    up while it was muted are sent at once, and the responses take `LATENCY_MS`."""
    outstanding: int = 0
    piled_up: int = 0
    muted_until_ms: int = 0
    was_muted: bool = False
    longest_ms: int = 0
    """The longest throttle time that it was sent."""


@dataclass
class Proxy:
    """One process of the simulation."""

    number: int
    member: ClusterMember
    clock: Clock
    alive: bool = True
    separated: bool = False
    clients: dict[NAMES, Client] = field(default_factory=dict)
    buckets: dict[NAMES, Bucket] = field(default_factory=dict)
    written: int = 0
    written_bytes: int = 0
    read: int = 0
    read_bytes: int = 0
    reads: set[int] = field(default_factory=lambda: {0})
    """The partitions that it has been reading since its last tick."""
    backlog: deque[tuple[int, bytes]] = field(default_factory=deque)
    """What it did not read while it was separated."""
    last_read_ms: dict[int, float] = field(default_factory=dict)


class World:
    """Runs everything; `now_ms` is the true time."""

    def __init__(
        self,
        proxies: int,
        partitions: int = 8,
        *,
        configured: int | None = None,
        seed: int = 1,
        samples: int = 2,
        write_ms: Callable[[Random], float] = lambda random: 5 + 15 * random.random(),
        read_ms: Callable[[Random], float] = lambda random: 5 + 15 * random.random(),
        drift: float = 0.0,
        client_step_ms: int = CLIENT_STEP_MS,
        together: bool = False,
    ) -> None:
        """`samples`: quota.window.num. With two a limit gathers the credit of one window.

        `together`: all readers get a record at the same moment, for worlds with many proxies."""
        self.random = Random(seed)
        self.partitions, self.samples, self.drift = partitions, samples, drift
        self.configured = configured or proxies
        self.write_ms, self.read_ms = write_ms, read_ms
        self.client_step_ms, self.together = client_step_ms, together
        self.lost = self.doubled = 0.0
        self.now_ms = 0.0
        self.limits: dict[NAMES, float] = {}
        self.used: defaultdict[tuple[NAMES, int], float] = defaultdict(float)
        """By quota-id and 100 ms."""
        self.proxies: list[Proxy] = []
        self.watchers: list[Callable[[], None]] = []
        self._appended_ms = [0.0] * partitions
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._boots = count(1)
        for _ in range(proxies):
            self.add()
        self.after(self.client_step_ms, self._clients)

    # What happens to proxies.

    def add(self, number: int | None = None) -> Proxy:
        """Start a process; with the number of a killed one it is that one, restarted."""
        number = len(self.proxies) if number is None else number
        clock = Clock(self.random.uniform(0, 1e7), 1 + self.random.uniform(-self.drift, self.drift))
        boot = next(self._boots).to_bytes(8, "big")
        member = ClusterMember(
            f"proxy-{number}",
            boot,
            f"{number}:9092",
            self.partitions,
            self.configured,
            clock.at(self.now_ms),
            (self.samples - 1) * WINDOW_MS,
        )
        proxy = Proxy(number, member, clock)
        if number < len(self.proxies):
            self.proxies[number] = proxy
        else:
            self.proxies.append(proxy)
        self.after(self.random.uniform(0, TICK_MS), lambda: self._tick(proxy))
        return proxy

    def kill(self, number: int) -> None:
        proxy = self.proxies[number]
        proxy.alive = False
        proxy.clients.clear()

    def stop(self, number: int) -> None:
        """SIGTERM: it says goodbye."""
        proxy = self.proxies[number]
        self._write(proxy, [(out.partition, out.value) for out in proxy.member.leave(self.local_ms(proxy))])
        self.kill(number)

    def separate(self, number: int) -> None:
        self.proxies[number].separated = True

    def connect(self, number: int) -> None:
        proxy = self.proxies[number]
        proxy.separated = False
        while proxy.backlog:
            self._read(proxy, *proxy.backlog.popleft())

    def offer(self, number: int, name: NAMES, offered: float, in_flight: int = 1) -> None:
        """Let the clients of a quota-id at one proxy offer this many units per second; see `Client`."""
        proxy = self.proxies[number]
        client = proxy.clients.get(name)
        if offered <= 0:
            proxy.clients.pop(name, None)
        elif client is None:
            proxy.clients[name] = Client(self.bucket(proxy, name), offered, in_flight)
        else:
            client.offered = offered

    def bucket(self, proxy: Proxy, name: NAMES) -> Bucket:
        bucket = proxy.buckets.get(name)
        if bucket is None:
            found = Governing(self.limits[name], None, name[1], name[2])
            bucket = Bucket(name[0], found, WINDOW_MS, self.samples, rates=proxy.member.rate)
            proxy.buckets[name] = bucket
        bucket.limit = self.limits[name]
        return bucket

    # Time.

    def after(self, delay_ms: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), event))

    def run(self, for_ms: float) -> None:
        end_ms = self.now_ms + for_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, event = heapq.heappop(self._events)
            event()
        self.now_ms = end_ms

    def local_ms(self, proxy: Proxy) -> float:
        return proxy.clock.at(self.now_ms)

    # What is measured.

    def shares(self, name: NAMES) -> Iterator[tuple[ShareOrigin, float]]:
        """Yield what each live proxy may use of a quota-id at this moment, by true time."""
        digest = digest_of(name)
        for proxy in self.proxies:
            if proxy.alive:
                holdings = proxy.member.shards()[proxy.member.shard_of(digest)]
                status = proxy.member.status(name)
                stopped = status.state is ShareOrigin.CLUSTER and not holdings.leased(self.local_ms(proxy))
                # A decrease applies from the next tick on.
                want = holdings.wants.get(digest)
                share = status.share if want is None else max(status.share, want.rate.share)
                yield status.state, 0.0 if stopped or status.state is ShareOrigin.STARTING else share

    def amount(self, name: NAMES, from_ms: float, to_ms: float) -> float:
        """Return what all proxies let through of a quota-id, between two multiples of 100 ms."""
        return sum(self.used.get((name, at), 0.0) for at in range(int(from_ms) // 100, int(to_ms) // 100))

    # What happens by itself.

    def _tick(self, proxy: Proxy) -> None:
        if not proxy.alive:
            return
        self.after(TICK_MS / proxy.clock.rate, lambda: self._tick(proxy))
        now_ms = self.local_ms(proxy)
        self._write(proxy, [(out.partition, out.value) for out in proxy.member.tick(now_ms)])
        proxy.reads = proxy.member.partitions()
        for key, address in proxy.member.probes(now_ms).items():
            # A refused connection is known at once, one that times out after a second.
            probed = self.proxies[int(address.partition(":")[0])]
            refused = not probed.alive and not proxy.separated
            self.after(
                2 if refused else 1000,
                partial(proxy.member.probed, key, refused),
            )

    def _write(self, proxy: Proxy, records: list[tuple[int, bytes]]) -> None:
        for partition, value in records:
            proxy.written += 1
            proxy.written_bytes += len(value)
            if proxy.separated or self.random.random() < self.lost:
                continue
            times = 2 if self.random.random() < self.doubled else 1
            self.after(self.write_ms(self.random), partial(self._append, partition, value, times))

    def write(self, partition: int, value: bytes) -> None:
        """Write a record that is none of the proxies'."""
        self._append(partition, value, 1)

    def _append(self, partition: int, value: bytes, times: int) -> None:
        if self.together:
            readers = [p for p in self.proxies if p.alive and partition in p.reads]
            at_ms = max(self.now_ms + self.read_ms(self.random), self._appended_ms[partition])
            self._appended_ms[partition] = at_ms
            self.after(at_ms - self.now_ms, lambda: self._read_all(readers, partition, value))
            return
        for _ in range(times):
            for proxy in self.proxies:
                if proxy.alive and partition in proxy.reads:
                    at_ms = max(
                        self.now_ms + self.read_ms(self.random), proxy.last_read_ms.get(partition, 0.0)
                    )
                    proxy.last_read_ms[partition] = at_ms
                    self.after(at_ms - self.now_ms, partial(self._read, proxy, partition, value))

    def _read_all(self, proxies: list[Proxy], partition: int, value: bytes) -> None:
        for proxy in proxies:
            self._read(proxy, partition, value)

    def _read(self, proxy: Proxy, partition: int, value: bytes) -> None:
        if not proxy.alive:
            return
        if proxy.separated:
            proxy.backlog.append((partition, value))
            return
        proxy.read += 1
        proxy.read_bytes += len(value)
        batch = _decoded(value)
        if batch is not None:
            proxy.member.take(partition, batch, self.local_ms(proxy))

    def _clients(self) -> None:
        self.after(self.client_step_ms, self._clients)
        for proxy in self.proxies:
            wall_ms = WALL_MS + int(self.local_ms(proxy))
            for name, client in proxy.clients.items():
                self._step(proxy, name, client, wall_ms)
        for watch in self.watchers:
            watch()

    def _step(self, proxy: Proxy, name: NAMES, client: Client, wall_ms: int) -> None:
        client.bucket.limit = self.limits[name]
        client.piled_up = min(client.piled_up + 1, client.in_flight)
        if wall_ms < client.muted_until_ms:
            return
        if client.was_muted:
            owed_ms = client.bucket.record(0, wall_ms)
            if owed_ms:
                client.muted_until_ms = wall_ms + min(owed_ms, LOOK_AGAIN_MS)
                return
            client.was_muted = False
        value = client.offered * self.client_step_ms / 1000
        for _ in range(min(client.piled_up, client.in_flight - client.outstanding)):
            client.piled_up -= 1
            client.outstanding += 1
            if client.in_flight == 1:
                self._respond(proxy, name, client, value)
            else:
                self.after(LATENCY_MS, partial(self._respond, proxy, name, client, value))

    def _respond(self, proxy: Proxy, name: NAMES, client: Client, value: float) -> None:
        wall_ms = WALL_MS + int(self.local_ms(proxy))
        client.outstanding -= 1
        self.used[name, int(self.now_ms) // 100] += value
        if not client.bucket.record_within(value, wall_ms):
            throttle_ms = client.bucket.record(value, wall_ms)
            client.longest_ms = max(client.longest_ms, throttle_ms)
            client.muted_until_ms = max(client.muted_until_ms, wall_ms + throttle_ms)
            client.was_muted = throttle_ms > 0 or client.was_muted


def quota_id(user: str) -> NAMES:
    """Return the name of a user's quota on produced bytes."""
    return PRODUCER_BYTE_RATE, user, ""
