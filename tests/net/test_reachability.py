"""A peer that is away: what is logged of it, when it is tried again, which of several addresses is used."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, LoginRejected
from proxy.net.runtime import reachability as reach_module
from proxy.net.runtime.reachability import (
    CERTIFICATE,
    LOGIN,
    MAX_MS,
    REFUSED,
    UNKNOWN_HOST,
    Backoff,
    Cause,
    Reachability,
    link,
)
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import on_uvloop
from tests.support.fake_broker import FakeBroker

pytestmark = pytest.mark.spec("O2", "O12")

A_DAY_MS = 86_400_000


def lines(captured: list[Any]) -> list[tuple[str, str, str | None]]:
    return [
        (line["log_level"], line["event"], line.get("reason"))
        for line in captured
        if line["log_level"] != "debug"
    ]


def endpoint(*addresses: str, timeout_ms: int = 30_000) -> EndpointSettings:
    (host, port), *others = [(at.rpartition(":")[0], int(at.rpartition(":")[2])) for at in addresses]
    return EndpointSettings(host=host, port=port, others=tuple(others), request_timeout_ms=timeout_ms)


@pytest.mark.parametrize("repeated_after_s", [0, 10])
async def test_an_outage_is_one_line_for_each_reason_and_one_for_its_end(
    monkeypatch: pytest.MonkeyPatch, repeated_after_s: int
) -> None:
    monkeypatch.setattr(reach_module, "REPEATED_AFTER_S", repeated_after_s)
    peer = Reachability("broker reached", "broker not reached")
    with capture_logs() as captured:
        peer.reached()
        for _ in range(50):
            peer.failed(ChannelError("b:9092: cannot connect", REFUSED))
        for _ in range(50):
            peer.failed(LoginRejected("b:9092: PLAIN login as proxy"))
        peer.failed(ChannelError("b:9092: cannot connect", REFUSED))
        assert peer.cause == Cause(REFUSED, "b:9092: cannot connect")
        peer.reached()
        peer.reached()

    assert lines(captured) == [
        ("info", "broker reached", None),
        ("warning", "broker not reached", REFUSED),
        ("warning", "broker not reached", LOGIN),
        ("info", "broker reached", None),
    ]
    assert peer.cause is None


async def test_a_peer_that_comes_and_goes_does_not_fill_the_log() -> None:
    peer = Reachability("broker reached", "broker not reached")
    with capture_logs() as captured:
        for _ in range(100):
            peer.failed(ChannelError("closed"))
            peer.reached()

    assert len(lines(captured)) == 2


async def test_of_several_addresses_one_that_is_away_is_no_outage_and_combined_them_are_one() -> None:
    peer = Reachability("controller reached", "controller not reached", addresses=2)
    with capture_logs() as captured:
        for _ in range(3):
            peer.failed(ChannelError("a", REFUSED), "a")
            peer.reached()
            assert peer.cause is None
        for _ in range(5):
            peer.failed(ChannelError("a", REFUSED), "a")
            peer.failed(LoginRejected("b"), "b")

    assert lines(captured) == [
        ("info", "controller reached", None),
        ("warning", "controller not reached", f"{REFUSED}, {LOGIN}"),
    ]


def test_pauses_grow_to_ten_seconds_and_are_spread() -> None:
    pauses = [Backoff(100).pause_ms(attempt, 0.5) for attempt in range(1, 20)]

    assert pauses[:4] == [100, 200, 400, 800]
    assert pauses[-1] == max(pauses) == MAX_MS == 10_000
    assert (Backoff().pause_ms(60, 0.0), Backoff().pause_ms(60, 0.999)) == (8_000, 11_996)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Reachability:
    """Would not try again before tomorrow."""
    monkeypatch.setattr(reach_module, "HURRIED_MS", 1)
    peer = Reachability("up", "down")
    peer._backoff = Backoff(A_DAY_MS, A_DAY_MS)
    return peer


async def test_a_request_that_waits_cuts_the_pause_short(patient: Reachability) -> None:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        patient.failed(ChannelError("closed"))
        pausing = tasks.create_task(patient.pause())
        await asyncio.sleep(0.05)
        assert not pausing.done()
        with patient.wanted():
            await pausing
            await patient.pause()  # As long as somebody waits.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await patient.pause()


async def test_another_connection_that_reaches_the_same_peer_cuts_the_pause_short(
    patient: Reachability,
) -> None:
    other = Reachability("up", "down")
    link(patient, other)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        patient.failed(ChannelError("closed"))
        other.failed(ChannelError("closed"))
        pausing = tasks.create_task(patient.pause())
        await asyncio.sleep(0.05)
        assert not pausing.done()
        other.reached()
        await pausing


@on_uvloop
async def test_the_next_address_of_a_list_is_used_when_one_is_away() -> None:
    (nobody,) = free_addresses(1)
    async with FakeBroker({}) as broker:
        channel = await Channel.open(endpoint(nobody, "no.such.host.invalid:1", broker.address))
        assert channel.endpoint.address == broker.address
        await channel.close()


@on_uvloop
async def test_a_silent_address_leaves_time_for_the_next_one() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with FakeBroker({}) as broker:
            channel = await Channel.open(endpoint(address, broker.address, timeout_ms=4_000))
            assert channel.endpoint.address == broker.address
            await channel.close()
    finally:
        server.close()


@on_uvloop
async def test_when_all_addresses_fail_the_error_names_each_with_its_reason() -> None:
    (nobody,) = free_addresses(1)
    with pytest.raises(ChannelError) as failed:
        await Channel.open(endpoint(nobody, "no.such.host.invalid:9092"))

    assert failed.value.reason == f"{REFUSED}, {UNKNOWN_HOST}"
    assert [nobody in str(failed.value), "no.such.host.invalid:9092" in str(failed.value)] == [True, True]


@pytest.mark.parametrize("reason", [CERTIFICATE, LOGIN])
def test_a_reason_gives_no_address_and_no_user_away(reason: str) -> None:
    cause = Cause(reason, "10.0.0.1:9092: PLAIN login as proxy-1")

    assert cause.text(detailed=False) == reason
    assert cause.text(detailed=True) == f"{reason} (10.0.0.1:9092: PLAIN login as proxy-1)"
