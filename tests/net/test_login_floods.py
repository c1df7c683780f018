"""Logins in great number, at a real listener with hashed passwords: nobody else waits for them.

An attacker's connections come from 127.0.0.2, others from 127.0.0.1. The tests count how many passwords were
hashed until a login was done, for time depends on the machine.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from proxy.net.logins import verification
from proxy.net.logins.credentials import PlainUsers, StoredUser
from proxy.net.logins.verification import MEMBER_LIMIT
from proxy.security.passwords import hash_password
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Deferred, Exchange
from proxy.security.sasl.plain import PlainExchange, Verified
from proxy.session.authentication import SaslListener
from proxy.session.gate import ListenerPolicy
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import plain_token
from tests.support.edges import Client, Edge, a_gate, an_edge, on_uvloop
from tests.support.lone_processes import a_lone

pytestmark = pytest.mark.spec("O8")

ATTACKER = "127.0.0.2"


class CountedUsers(PlainUsers):
    """alice and bob; hashing goes on once it is let go."""

    def __init__(self) -> None:
        super().__init__(
            {name: StoredUser(hash_password(f"{name}-secret", bytes(16))) for name in ("alice", "bob")}
        )
        self.hashed: list[str] = []
        self.goes_on = threading.Event()

    def verify(self, username: str, password: str) -> Verified | None:
        self.hashed.append(username)
        assert self.goes_on.wait(60)
        return super().verify(username, password)


class Token(Exchange):
    """Of another mechanism, whose check costs next to nothing."""

    def respond(self, token: bytes, now_ms: int) -> Deferred:
        return Deferred(lambda: Accepted(Principal("User", "tina"), b""))


def listener_of(users: PlainUsers) -> SaslListener:
    exchanges: dict[str, Callable[[], Exchange]] = {"PLAIN": lambda: PlainExchange(users), "TOKEN": Token}
    return SaslListener("SASL", tuple(exchanges), lambda _: 0, lambda name: exchanges[name]())


async def begins(
    edge: Edge, user: str, password: str, host: str = "127.0.0.1", mechanism: str = "PLAIN"
) -> Client:
    client = await edge.client(host=host)
    await client.begins_login(plain_token(user, password), mechanism)
    return client


async def outcome_of(client: Client) -> int:
    return int((await client.hears(ApiKey.SASL_AUTHENTICATE, 2)).error_code)


async def flooded(edge: Edge, users: CountedUsers, count: int) -> list[Client]:
    """So many wrong logins of the attacker, which all have arrived and wait; no hash is done yet."""
    clients = [await begins(edge, f"name-{number}", "wrong", ATTACKER) for number in range(count)]
    await edge.until(lambda: waiting(edge) == count - 1 and len(users.hashed) == 1)
    return clients


def waiting(edge: Edge) -> float | None:
    return edge.registry.get_sample_value("penstock_authentication_checks_waiting")


def dropped(edge: Edge, reason: str) -> float | None:
    name = "penstock_authentication_checks_dropped_total"
    return edge.registry.get_sample_value(name, {"reason": reason})


@on_uvloop
async def test_logins_of_clients_that_left_are_not_checked_and_counted() -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", listener_of(users)) as edge:
        for client in await flooded(edge, users, 50):
            client.writer.close()
            await client.writer.wait_closed()
        alice = await begins(edge, "alice", "alice-secret")
        users.goes_on.set()

        assert await outcome_of(alice) == ErrorCode.NONE
        # One was under way already when its client left: that has an outcome, and a record of its own.
        await edge.until(lambda: dropped(edge, verification.CLIENT_LEFT) == 49)
        assert users.hashed == ["name-0", "alice"]
        await edge.until(lambda: len(edge.events) == 3)
        failed, known, incomplete = edge.events
        assert (failed.event, known.event) == ("authentication_failed", "authentication")
        assert (incomplete.event, incomplete.host, incomplete.count, incomplete.message) == (
            "authentication_incomplete",
            ATTACKER,
            49,
            verification.CLIENT_LEFT,
        )


@pytest.mark.parametrize(
    "flood",
    [[(f"name-{number}", ATTACKER) for number in range(50)], [("mallory", "127.0.0.1")] * 30],
    ids=["from another address", "of another user at the same address"],
)
@on_uvloop
async def test_a_flood_delays_others_by_one_check(flood: list[tuple[str, str]]) -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", listener_of(users)) as edge:
        for user, host in flood:
            await begins(edge, user, "wrong", host)
        alice = await begins(edge, "alice", "alice-secret")
        await edge.until(lambda: waiting(edge) == len(flood))
        users.goes_on.set()

        assert await outcome_of(alice) == ErrorCode.NONE
        assert users.hashed.index("alice") <= 2


@on_uvloop
async def test_remembered_logins_and_other_mechanisms_do_not_wait_for_hashes() -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", listener_of(users)) as edge:
        users.goes_on.set()
        assert await outcome_of(await begins(edge, "alice", "alice-secret")) == ErrorCode.NONE
        users.goes_on.clear()
        users.hashed.clear()
        await flooded(edge, users, 20)

        assert await outcome_of(await begins(edge, "alice", "alice-secret")) == ErrorCode.NONE
        assert await outcome_of(await begins(edge, "", "", ATTACKER, "TOKEN")) == ErrorCode.NONE
        assert users.hashed == ["name-0"]
        users.goes_on.set()


@on_uvloop
async def test_who_finds_no_room_is_closed_without_an_error_and_others_find_room() -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", listener_of(users)) as edge:
        await flooded(edge, users, MEMBER_LIMIT + 1)  # One is being checked, the others wait.
        late = await begins(edge, "late", "wrong", ATTACKER)

        assert await late.is_cut_off() == b""
        assert edge.reasons == [verification.QUEUE_FULL]
        assert dropped(edge, verification.QUEUE_FULL) == 1
        users.goes_on.set()
        assert await outcome_of(await begins(edge, "bob", "bob-secret")) == ErrorCode.NONE
        await edge.until(lambda: any(each.event == "authentication_incomplete" for each in edge.events))


@on_uvloop
async def test_who_left_makes_room_for_others_of_the_same_address() -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", listener_of(users)) as edge:
        clients = await flooded(edge, users, MEMBER_LIMIT + 1)
        for client in clients[1:]:
            client.leaves()
        bob = await begins(edge, "bob", "bob-secret", ATTACKER)
        users.goes_on.set()

        assert await outcome_of(bob) == ErrorCode.NONE
        assert users.hashed == ["name-0", "bob"]


def in_one_second(sasl: SaslListener) -> ListenerPolicy:
    return ListenerPolicy("SASL", sasl, login_timeout_ms=1_000)


@on_uvloop
async def test_a_stranger_who_does_not_log_in_in_time_is_closed_whatever_it_sends() -> None:
    policy = in_one_second(listener_of(CountedUsers()))
    async with an_edge(a_gate(), "127.0.0.1:1", policy=policy) as edge:
        silent, busy = await edge.client(), await edge.client()
        busy.writer.write((1_000).to_bytes(4, "big"))
        with suppress(RuntimeError):  # uvloop's, from a transport that has been closed.
            while not busy.reader.at_eof():
                busy.writer.write(b"\0")
                await asyncio.sleep(0.02)

        assert await silent.is_cut_off() == b""
        assert await edge.all_gone() == ["login_timeout"] * 2
        await edge.until(lambda: len(edge.events) == 1)
        (event,) = edge.events
        assert (event.event, event.host, event.message, event.count) == (
            "authentication_incomplete",
            "127.0.0.1",
            "login_timeout",
            2,
        )


@on_uvloop
async def test_time_that_we_take_does_not_count_and_who_is_logged_in_stays() -> None:
    users = CountedUsers()
    async with an_edge(a_gate(), "127.0.0.1:1", policy=in_one_second(listener_of(users))) as edge:
        alice = await begins(edge, "alice", "alice-secret")
        stranger = await edge.client()
        assert await stranger.is_cut_off() == b""
        assert edge.reasons == ["login_timeout"]
        users.goes_on.set()
        assert await outcome_of(alice) == ErrorCode.NONE

        second = await edge.client()
        assert await second.is_cut_off() == b""
        assert len(edge.listener.connections) == 1
        alice.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
        assert (await alice.hears(ApiKey.API_VERSIONS, 0)).error_code == ErrorCode.NONE


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_a_flood_that_has_left_does_not_delay_the_first_login_at_a_real_process(
    command: str, tmp_path: Path
) -> None:
    async with a_lone(command, tmp_path) as lone:
        for number in range(300):
            client = await lone.login(f"user-{number}", "wrong", ATTACKER)
            await client.writer.drain()
            client.writer.close()
        await lone.logs_in()
        name = 'penstock_authentication_checks_dropped_total{reason="client_left_before_login_check"}'
        await lone.metric(name, lambda count: count > 200)
