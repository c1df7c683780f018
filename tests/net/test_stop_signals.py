"""The first signal begins the drain, a second one ends the process, one that follows at once is the same."""

import asyncio
import signal

import pytest
from prometheus_client import CollectorRegistry

from proxy.net.runtime import stop_signals
from proxy.net.runtime.stop_signals import StopSignals
from tests.support.edges import SHOULD_NOT_TAKE_S, on_uvloop

pytestmark = pytest.mark.spec("O4")


@on_uvloop
async def test_the_first_signal_begins_the_drain_and_metrics_show_it() -> None:
    registry = CollectorRegistry()
    stop = StopSignals(registry)
    stop.install()
    assert registry.get_sample_value("penstock_draining") == 0

    signal.raise_signal(signal.SIGTERM)

    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        await stop.draining.wait()
    assert registry.get_sample_value("penstock_draining") == 1
    assert not stop.at_once.is_set()


@on_uvloop
async def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "SAME_S", 0.0)
    stop = StopSignals()
    stop.install()

    signal.raise_signal(signal.SIGTERM)
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        await stop.draining.wait()
    signal.raise_signal(signal.SIGINT)

    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        await stop.at_once.wait()


@on_uvloop
async def test_signals_that_come_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "SAME_S", 600.0)
    stop = StopSignals()

    stop.received()
    stop.received()

    assert (stop.draining.is_set(), stop.at_once.is_set()) == (True, False)
