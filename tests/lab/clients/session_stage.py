"""Puts the cells of the matrix on the stage, starts the clients' drivers, and looks on.

One driver process for each client plays all of its cells at once. Nothing is measured by the clock: clients
work until the audit trail has seen enough of them, or, after a generous while, too little.
"""

import json
import subprocess
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.net.runtime.clock import now_ms
from tests.lab.clients.session_cells import CERTIFICATE, SHORTER, TOKEN, Cell
from tests.lab.clients.session_trail import KILL, LOGIN, RENEWAL, Trail
from tests.lab.clients.stage import DRIVERS, ROOT
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin, admin, done, upsertion
from tests.support.office_certificates import OfficeCertificates

RENEWALS = 5
"""Of at least one connection of each producer and of each consumer."""
KILLS = 2
"""Of each producer and each consumer that cannot renew its sessions."""
LOOKS = 400
LOOK_S = 0.5
END_S = 180

ROLES = ("producer", "consumer")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the cells' clients go, and what they need to log in there."""

    entrance: Callable[[Cell], str]
    token_urls: Mapping[str, str]
    """By how long the tokens last."""
    short_token_ms: int
    server_ca: Path | None = None
    certificates: OfficeCertificates | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a cell: what its client said, and the trail. `after`: since all clients were at work."""

    cell: Cell
    version: str
    client: Mapping[str, Any]
    renewals: Mapping[str, int]
    """The most of any one connection, by role."""
    all_renewals: int
    connections: int
    logins_after: int
    kills: Mapping[str, int]
    opened_after: int
    """Connections at its listener, where that is its own: one without SASL."""

    def row(self) -> str:
        client = self.client
        return (
            f"{self.cell.name:45} {client['sent']:5} sent {client['acknowledged']:5} acknowledged"
            f" {len(client['lost'])} lost {self.connections:2} connections {self.all_renewals:3} renewals"
            f" (most {self.renewals['producer']}/{self.renewals['consumer']}) {self.logins_after:2} logins"
            f" {sum(self.kills.values()):3} kills"
            f" disconnects {client['disconnects']} errors {client['errors']}"
        )


@dataclass(frozen=True, slots=True)
class Moment:
    at_ms: int
    metrics: Mapping[str, float]

    def opened(self, cell: Cell) -> int:
        """Connections at the cell's listener so far."""
        return int(self.metrics.get(f'penstock_connections_accepted_total{{listener="{cell.listener}"}}', 0))


class Played:
    """One client's driver at work."""

    def __init__(self, client: str, command: Sequence[str], orders: Sequence[Mapping[str, Any]]) -> None:
        self.client = client
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self._tell(json.dumps({"cells": orders}))
        self.version = ""

    def wait_until_at_work(self) -> None:
        self.version = self._hear()["version"]
        assert self._hear() == {"at_work": True}

    def finish(self) -> dict[str, Mapping[str, Any]]:
        """What was said of each cell."""
        self._tell("stop")
        try:
            said, _ = self._process.communicate(timeout=END_S)
        finally:
            self.kill()
        return {line["cell"]: line for line in map(json.loads, said.splitlines())}

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver of {self.client} ended with {self._process.wait()}"
        return json.loads(line)


def play(stack: Stack, place: Place, cells: Sequence[Cell], libs: Path, directory: Path) -> list[Seen]:
    """All cells at once, until each has been seen enough of, or the looks are used up."""
    orders = _prepare(stack, place, cells)
    trail, pause = Trail(stack), threading.Event()
    clients = list(dict.fromkeys(cell.client for cell in cells))
    commands = {client: _command(client, libs, directory) for client in clients}
    drivers: list[Played] = []
    try:
        for client in clients:
            wanted = [orders[cell.name] for cell in cells if cell.client == client]
            drivers.append(Played(client, commands[client], wanted))
        for driver in drivers:
            driver.wait_until_at_work()
        began = Moment(now_ms(), stack.metrics())
        for _ in range(LOOKS):
            trail.read()
            if all(_enough(trail, cell) for cell in cells):
                break
            pause.wait(LOOK_S)
        ended = Moment(now_ms(), stack.metrics())
        with ThreadPoolExecutor() as pool:
            said = {name: line for told in pool.map(Played.finish, drivers) for name, line in told.items()}
        trail.read(5)
    finally:
        for driver in drivers:
            driver.kill()
        trail.close()
    versions = {driver.client: driver.version for driver in drivers}
    return [_seen(trail, cell, versions[cell.client], said[cell.name], began, ended) for cell in cells]


def _command(client: str, libs: Path, directory: Path) -> list[str]:
    if client == "java":
        built = directory / "java"
        built.mkdir()
        return [*DRIVERS["java"].command(libs, built)[:-1], "Sessions"]
    return [
        *DRIVERS[client].command(libs, directory)[:-1],
        f"tests.lab.clients.{client.replace('-', '_')}_sessions",
    ]


def principal(cell: Cell) -> str:
    return f"User:{cell.name}"


def _enough(trail: Trail, cell: Cell) -> bool:
    if not cell.ends:
        return True
    if not cell.renews:
        return min(_kills(trail, cell).values()) >= KILLS
    return min(_renewals(trail, cell).values()) >= RENEWALS


def _role(fact: Mapping[str, Any]) -> str:
    return str(fact["client_id"]).rpartition("-")[2]


def _renewals(trail: Trail, cell: Cell) -> dict[str, int]:
    renewed = Counter((_role(fact), fact["connection_id"]) for fact in trail.named(RENEWAL, principal(cell)))
    return {
        role: max((count for (each, _), count in renewed.items() if each == role), default=0)
        for role in ROLES
    }


def _kills(trail: Trail, cell: Cell) -> dict[str, int]:
    killed = Counter(map(_role, trail.named(KILL, principal(cell))))
    return {role: killed[role] for role in ROLES}


def _seen(
    trail: Trail, cell: Cell, version: str, said: Mapping[str, Any], began: Moment, ended: Moment
) -> Seen:
    logins = trail.named(LOGIN, principal(cell))
    return Seen(
        cell=cell,
        version=version,
        client=said,
        renewals=_renewals(trail, cell),
        all_renewals=len(trail.named(RENEWAL, principal(cell))),
        connections=len(logins),
        logins_after=sum(began.at_ms <= fact["time_ms"] < ended.at_ms for fact in logins),
        kills=_kills(trail, cell),
        opened_after=ended.opened(cell) - began.opened(cell),
    )


def _prepare(stack: Stack, place: Place, cells: Iterable[Cell]) -> dict[str, dict[str, Any]]:
    """Users, topics and ACLs; gives back what each driver is told of its cell."""
    cluster = ClusterAdmin(stack)
    users = {cell.name: User(cell.name, cell.mechanism, f"{cell.name}-secret") for cell in cells}
    topics = [admin.NewTopic(name, num_partitions=1, replication_factor=1) for name in users]
    done(cluster.client.create_topics(topics))
    scram = [user for user in users.values() if user.mechanism.startswith("SCRAM")]
    done(cluster.client.alter_user_scram_credentials([upsertion(user) for user in scram]))
    for name, user in users.items():
        cluster.allow_produce(user, name)
        cluster.allow_consume(user, name, name)
    by = {
        "mechanism": "PLAIN",
        "protocol": "SASL_PLAINTEXT",
        "bootstrap": stack.entrance().bootstrap,
        "user": "admin",
        "password": stack.users["admin"].password,
    }
    return {cell.name: _order(place, cell, users[cell.name], by) for cell in cells}


def _order(place: Place, cell: Cell, user: User, by: Mapping[str, str]) -> dict[str, Any]:
    order: dict[str, Any] = {
        "cell": cell.name,
        "bootstrap": place.entrance(cell),
        "protocol": "SSL" if cell.mechanism == CERTIFICATE else "SASL_PLAINTEXT",
        "mechanism": cell.mechanism,
        "user": user.name,
        "password": user.password,
        "token_url": place.token_urls.get(cell.life),
        "basic": b64encode(f"{user.name}:secret".encode()).decode(),
    }
    if cell.mechanism == TOKEN:
        order |= {"by": by, "renew_for_ms": place.short_token_ms if cell.life == SHORTER else None}
    if cell.mechanism == CERTIFICATE:
        assert place.certificates is not None
        issued = place.certificates.issue(user.name, user.name)
        order |= {
            "ca": str(place.server_ca),
            "certificate": str(issued.certificate),
            "key": str(issued.key),
            "key_store": str(issued.key_store),
        }
    return order
