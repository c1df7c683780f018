"""Serves HTTP for all workers as if they were one process: /metrics, /readyz, and the JSON pages.

The supervisor maintains the list of workers. Each page is made from their responses at that moment; for a
worker that does not respond in time, its last response is used. On /quotas, a quota-id has one row, whichever
workers its clients are at.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypedDict

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.pages.connection_page import ConnectionQuery, merged_connections
from proxy.net.pages.disconnecting import DisconnectRequest, merged_disconnects
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpServer
from proxy.net.pages.quota_page import MAX_ROWS
from proxy.net.pages.readiness import Note, Readiness, ReadinessSeries
from proxy.net.runtime.clock import monotonic_ms, now_ms
from proxy.net.runtime.merged_metrics import GaugeMetricFamily, with_series
from proxy.workers.child import Child
from proxy.workers.control import AUDIT, CONNECTIONS, DISCONNECT, METRICS, QUOTAS, READY
from proxy.workers.exposition import Exposition, snapshot


class Quota(TypedDict):
    """The fields of a row that are merged."""

    quota_key: str
    user: str
    client_id: str
    rate: float
    throttled_until_ms: int | None
    throttled_for_ms: int
    connections: int


class Address(TypedDict):
    """The rate of connections of an address."""

    address: str
    rate: float
    connections: int


class Page(TypedDict):
    """A worker's /quotas."""

    mode: str
    time_ms: int
    active: int
    addresses: list[Address]
    quotas: list[Quota]


def merged_quotas(pages: Iterable[bytes]) -> bytes:
    """A page like quota_page's. Rates are already those of the group; connections are summed."""
    read: list[Page] = [json.loads(page) for page in pages]
    rows: dict[tuple[str, str, str], Quota] = {}
    for page in read:
        for row in page["quotas"]:
            name = (row["quota_key"], row["user"], row["client_id"])
            rows[name] = _together(rows[name], row) if name in rows else row
    ordered = sorted(rows.values(), key=lambda row: (-row["throttled_for_ms"], -row["rate"]))
    merged = {
        "mode": read[0]["mode"] if read else None,
        "time_ms": max((page["time_ms"] for page in read), default=0),
        "active": max(len(ordered), *(page["active"] for page in read)) if read else 0,
        "workers": len(read),
        "addresses": _addresses(read),
        "quotas": ordered[:MAX_ROWS],
    }
    return json.dumps(merged).encode() + b"\n"


def _addresses(read: Iterable[Page]) -> list[Address]:
    """The connection rates of addresses, the highest first."""
    rows: dict[str, Address] = {}
    for row in (row for page in read for row in page["addresses"]):
        one = rows.get(row["address"])
        if one is not None:
            row = row | {
                "rate": max(one["rate"], row["rate"]),
                "connections": one["connections"] + row["connections"],
            }
        rows[row["address"]] = row
    return sorted(rows.values(), key=lambda row: -row["rate"])[:MAX_ROWS]


def _together(one: Quota, other: Quota) -> Quota:
    longer = max(one, other, key=lambda row: row["throttled_for_ms"])
    return one | {
        "rate": max(one["rate"], other["rate"]),
        "throttled_until_ms": longer["throttled_until_ms"],
        "throttled_for_ms": longer["throttled_for_ms"],
        "connections": one["connections"] + other["connections"],
    }


ASK_MS = 2_000
SUPERVISOR = -1
"""The number of the supervisor among the workers, for its own metrics."""


class Front(Collector):
    """Merges the pages and metrics of all workers."""

    def __init__(self, count: int, connections: Callable[[int], int], own: Collector | None = None) -> None:
        """`count`: the configured number of workers; `connections`: returns the clients of a worker.

        `own`: metrics of the supervisor that workers have too.
        """
        self._own = own
        self._connections = connections
        self.children: dict[int, Child] = {}
        self.restarts = 0
        self.exposition = Exposition()
        self._count = count
        self._quotas: list[bytes] = []
        self._audits: list[tuple[int, Mapping[str, object]]] = []
        self._asking = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(self.exposition)
        self._registry.register(self)
        self._registry.register(ReadinessSeries(self.readiness))

    def server(self, access: HttpAccess | None) -> HttpServer:
        """The HTTP server for the configured address."""
        pages = {"/quotas": self._merged_quotas, "/audit": self._audit, "/workers": self._workers}
        queries = {"/connections": self._merged_connections}
        return HttpServer(
            access, self._registry, self.readiness, pages, self._ask_for, queries, self._disconnect
        )

    async def ask_all(self) -> None:
        """Request readiness and metrics from all workers."""
        await asyncio.gather(self._ask_ready(), self._ask_metrics())

    def readiness(self) -> Readiness:
        """Ready when all workers are."""
        ready = self._ready()
        headline = f"{ready} of {self._count} workers are ready"
        others = self._said(lambda readiness: readiness.others)
        if ready == self._count:
            return Readiness((), others, headline)
        blocked = self._said(lambda readiness: readiness.blocked)
        if len(self.children) < self._count:
            blocked = (*blocked, Note.of("a worker does not run" if self.children else "no worker runs"))
        what = "not all workers are ready" if ready else "no worker is ready"
        return Readiness((Note(what, headline, headline), *blocked), others)

    def collect(self) -> Iterable[Metric]:
        workers = GaugeMetricFamily(
            "penstock_workers", "Worker processes by state", labels=["state"], merge="sum"
        )
        ready, running = self._ready(), len(self.children)
        states = {"ready": ready, "not_ready": running - ready, "down": self._count - running}
        yield with_series(workers, states)
        yield CounterMetricFamily(
            "penstock_worker_restarts_total", "Workers that ended and were replaced", self.restarts
        )

    def _said(self, notes: Callable[[Readiness], Iterable[Note]]) -> tuple[Note, ...]:
        """The notes of the workers, each once; with the workers' numbers unless all of them have it."""
        by_note: dict[Note, list[int]] = {}
        for number, child in sorted(self.children.items()):
            for note in notes(child.readiness):
                by_note.setdefault(note, []).append(number)
        return tuple(
            note
            if len(numbers) == len(self.children)
            else note.prefixed(f"worker {', '.join(map(str, numbers))}")
            for note, numbers in by_note.items()
        )

    def _ready(self) -> int:
        return sum(not child.not_ready for child in self.children.values())

    async def _ask_for(self, path: str) -> None:
        if path == "/quotas":
            self._quotas = [page for _, page in await self._answers(QUOTAS)]
        elif path == "/metrics":
            await self.ask_all()
        elif path in ("/readyz", "/workers"):
            await self._ask_ready()
        elif path == "/audit":
            audits = ((child.number, json.loads(page)) for child, page in await self._answers(AUDIT))
            self._audits = sorted(audits, key=lambda row: row[0])

    async def _ask_ready(self) -> None:
        for child, page in await self._answers(READY):
            child.readiness, child.heard_ms = Readiness.decoded(page), monotonic_ms()

    async def _ask_metrics(self) -> None:
        # One request at a time: an older value that arrives later would look like a counter reset.
        async with self._asking:
            if self._own is not None:
                self.exposition.update(SUPERVISOR, await snapshot(self._own), now_ms())
            for child, page in await self._answers(METRICS):
                # If it has ended meanwhile, its counters are already in the sum.
                if self.children.get(child.number) is child:
                    self.exposition.update(child.number, page, now_ms())

    async def _answers(self, page: str, argument: str = "") -> list[tuple[Child, bytes]]:
        children = list(self.children.values())
        answers = await asyncio.gather(*(child.asker.ask(page, ASK_MS, argument) for child in children))
        return [
            (child, answer) for child, answer in zip(children, answers, strict=True) if answer is not None
        ]

    async def _audit(self) -> bytes:
        page = {"workers": [{"worker": number} | dict(page) for number, page in self._audits]}
        return json.dumps(page).encode() + b"\n"

    async def _merged_connections(self, query: str) -> bytes:
        wanted = ConnectionQuery.parsed(query)  # Before workers are asked: it may be invalid.
        answers = await self._answers(CONNECTIONS, query)
        return merged_connections(wanted, [page for _, page in answers], workers=len(self.children))

    async def _disconnect(self, body: bytes, by: str) -> bytes:
        wanted = DisconnectRequest.parsed(body, by)
        answers = await self._answers(DISCONNECT, wanted.encoded())
        return merged_disconnects([page for _, page in answers], workers=len(self.children))

    async def _merged_quotas(self) -> bytes:
        return merged_quotas(self._quotas)

    async def _workers(self) -> bytes:
        rows = [
            {
                "worker": child.number,
                "pid": child.pid,
                "ready": not child.not_ready,
                "not_ready": child.not_ready or None,
                "since_ms": child.since_ms,
                "connections": self._connections(child.number),
            }
            for _, child in sorted(self.children.items())
        ]
        page = {"workers": self._count, "restarts": self.restarts, "running": rows}
        return json.dumps(page).encode() + b"\n"
