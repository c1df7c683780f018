"""Logins that meet a drain, over real sockets: what is served, and who is waited for."""

import asyncio
import threading
from typing import Any

import pytest

from proxy.net.clients import connection
from proxy.net.clients import drain as drain_module
from proxy.net.clients.drain import Drained, drain
from proxy.net.runtime.clock import now_ms
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Exchange
from proxy.session.authentication import Phase, SaslListener
from proxy.session.gate import ListenerPolicy
from proxy.session.state import State
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.net.test_drain import draining
from tests.net.test_logins_cut_short import SlowCheck
from tests.session.conversation import plain_token, sasl
from tests.support.edges import (
    SHOULD_NOT_TAKE_S,
    Client,
    an_edge_and_its_broker,
    on_uvloop,
)

pytestmark = pytest.mark.spec("O4", "R9")

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
GENEROUS_MS = 60_000


class TwoSteps(Exchange):
    """A mechanism whose client sends two tokens."""

    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    def respond(self, token: bytes, now_ms: int) -> Accepted | Challenge:
        self.tokens.append(token)
        return Challenge(b"go on") if len(self.tokens) == 1 else Accepted(Principal("User", "alice"), b"")


def _listener(exchange: Exchange) -> SaslListener:
    return SaslListener("SASL", ("PLAIN",), lambda _mechanism: 0, lambda _mechanism: exchange)


async def _shakes_hands(client: Client) -> None:
    client.asks(HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
    assert (await client.hears(HANDSHAKE, 1)).error_code == ErrorCode.NONE


def _sends(client: Client, token: bytes) -> None:
    client.asks(AUTHENTICATE, 2, t.SaslAuthenticateRequest(auth_bytes=token))


@pytest.mark.parametrize("hears_at", range(4))
@on_uvloop
async def test_a_client_that_logs_in_during_a_drain_gets_its_response_and_then_the_end(hears_at: int) -> None:
    """The drain begins before its first message, its first token, its second token, or the last response."""
    async with an_edge_and_its_broker(sasl=_listener(TwoSteps())) as (edge, _broker):
        client = await edge.client()
        await edge.until(lambda: len(edge.listener.connections) == 1)
        async with asyncio.TaskGroup() as tasks:
            drained: asyncio.Task[Drained] | None = None

            async def step(number: int) -> None:
                nonlocal drained
                if number == hears_at:
                    drained = tasks.create_task(drain([edge.listener], GENEROUS_MS, asyncio.Event()))
                    await edge.until(lambda: edge.connection.session.draining)
                    assert number == 3 or edge.connection.awaits == "clients_to_send"

            await step(0)
            await _shakes_hands(client)
            await step(1)
            _sends(client, b"first")
            assert bytes((await client.hears(AUTHENTICATE, 2)).auth_bytes) == b"go on"
            await step(2)
            _sends(client, b"second")
            if hears_at == 3:
                await edge.until(lambda: edge.connection.session.authentication.phase is Phase.COMPLETE)
            await step(3)
            assert (await client.hears(AUTHENTICATE, 2)).error_code == ErrorCode.NONE
            assert await client.is_cut_off() == b""

        assert drained is not None
        assert (drained.result().connections, drained.result().cut) == (1, 0)
        assert edge.reasons == ["drained"]
        assert [event.event for event in edge.events] == ["authentication"]


@pytest.mark.parametrize("began", [False, True])
@on_uvloop
async def test_a_login_that_is_not_completed_is_not_waited_for_and_not_recorded(
    began: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LOGIN_MS", 50 if began else GENEROUS_MS)
    monkeypatch.setattr(connection, "SILENT_MS", GENEROUS_MS if began else 50)
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 0)
    async with an_edge_and_its_broker(sasl=sasl()) as (edge, _broker):
        client = await edge.client()
        await edge.until(lambda: len(edge.listener.connections) == 1)
        if began:
            await _shakes_hands(client)

        drained = await drain([edge.listener], 10_000, asyncio.Event())

        assert (drained.connections, drained.cut, edge.reasons) == (1, 0, ["drained"])
        assert edge.events == []
        assert await client.is_cut_off() == b""


@pytest.mark.spec("D1")
@on_uvloop
async def test_a_login_that_is_too_late_for_its_listener_too_is_not_recorded_during_a_drain() -> None:
    policy = ListenerPolicy("SASL", sasl(), login_timeout_ms=1_000)
    async with an_edge_and_its_broker(policy=policy) as (edge, _broker):
        client = await edge.client()
        await _shakes_hands(client)

        drained = await drain([edge.listener], GENEROUS_MS, asyncio.Event())

        assert (drained.cut, edge.reasons, edge.events) == (0, ["drained"], [])
        assert drained.duration_ms < connection.LOGIN_MS


@on_uvloop
async def test_a_check_is_waited_for_however_long_the_proxy_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_MS", 0)
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 0)
    check = SlowCheck(Accepted(Principal("User", "alice"), b""))
    async with an_edge_and_its_broker(sasl=_listener(check)) as (edge, _broker):
        client = await edge.client()
        await _shakes_hands(client)
        _sends(client, b"a token")
        await edge.until(lambda: bool(edge.connection.session.state & State.VERIFYING))

        async with draining(edge) as drained:
            rounds = 0

            def later() -> bool:
                nonlocal rounds
                rounds += edge.connection.end_if_unanswered(late=False) or 1
                return rounds > 100

            await edge.until(later)
            assert not drained.done()
            check.goes_on.set()
            assert (await client.hears(AUTHENTICATE, 2)).error_code == ErrorCode.NONE
            assert await client.is_cut_off() == b""

        assert (drained.result().cut, edge.reasons) == (0, ["drained"])


class SlowFirstStep(TwoSteps):
    """A mechanism that checks the first token for a long time."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def respond(self, token: bytes, now_ms: int) -> Any:
        outcome = super().respond(token, now_ms)

        def work() -> Any:
            assert self.goes_on.wait(SHOULD_NOT_TAKE_S)
            return outcome

        return Deferred(work) if isinstance(outcome, Challenge) else outcome


@on_uvloop
async def test_the_time_of_a_check_is_not_taken_from_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    check = SlowFirstStep()
    async with an_edge_and_its_broker(sasl=_listener(check)) as (edge, _broker):
        client = await edge.client()
        await _shakes_hands(client)
        _sends(client, b"first")
        await edge.until(lambda: bool(edge.connection.session.state & State.VERIFYING))

        async with draining(edge):
            monkeypatch.setattr(edge.listener, "now_ms", lambda: now_ms() + connection.LOGIN_MS)
            check.goes_on.set()
            assert bytes((await client.hears(AUTHENTICATE, 2)).auth_bytes) == b"go on"
            edge.connection.end_if_unanswered(late=False)
            _sends(client, b"second")
            assert (await client.hears(AUTHENTICATE, 2)).error_code == ErrorCode.NONE


@on_uvloop
async def test_a_rejected_client_hears_why_though_its_response_is_delayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_module, "LONG_POLL_MS", 0)
    policy = ListenerPolicy("SASL", sasl(), failed_authentication_delay_ms=200)
    async with an_edge_and_its_broker(policy=policy) as (edge, _broker):
        client = await edge.client()
        await _shakes_hands(client)
        _sends(client, plain_token("alice", "wrong"))
        await edge.until(lambda: edge.connection.session.closing)

        async with draining(edge):
            answer = await client.hears(AUTHENTICATE, 2)

        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert edge.reasons == ["authentication_failed"]
        assert len(edge.events) == 1
