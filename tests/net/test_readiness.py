"""What /readyz says when something is wrong elsewhere, and how often the log says it."""

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from forwarding.net.forwarder import Forwarder
from forwarding.net.metrics import ForwarderMetrics
from proxy.net.kafka.channel import EndpointSettings, SaslLogin
from proxy.net.pages.readiness import Note, Readiness, ReadinessSeries
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import LOGIN, REFUSED, UNKNOWN_HOST, Cause
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster import probe
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import on_uvloop
from tests.support.fake_broker import FakeBroker, Request
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, LoneProcess, a_lone, metadata

pytestmark = pytest.mark.spec("O2", "O12")

LOGIN_SETTINGS = SaslLogin(mechanism="PLAIN", username="proxy-1", password=lambda: "wrong")


async def why(endpoint: EndpointSettings) -> Cause:
    """What a forwarder says of a controller there."""
    registry = CollectorRegistry()
    forwarder = Forwarder([endpoint], "proxy-1/boot", ForwarderMetrics(registry), now_ms)
    async with asyncio.timeout(SHOULD_NOT_TAKE_S), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(forwarder.run())
        while forwarder.reachability.cause is None:  # noqa: ASYNC110 - a state has no event
            await asyncio.sleep(0.01)
        running.cancel()
    assert forwarder.trouble is not None
    return forwarder.trouble


def offers(_: Request) -> object:
    return t.SaslHandshakeResponse(mechanisms=["PLAIN"])


def rejects(_: Request) -> object:
    return t.SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
    )


@on_uvloop
async def test_a_proxy_says_why_no_controller_is_reached() -> None:
    (nobody,) = free_addresses(1)
    host, _, port = nobody.rpartition(":")
    assert (await why(EndpointSettings(host=host, port=int(port)))).reason == REFUSED
    assert (await why(EndpointSettings(host="no.such.host.invalid", port=9094))).reason == UNKNOWN_HOST
    async with FakeBroker({ApiKey.SASL_HANDSHAKE: offers, ApiKey.SASL_AUTHENTICATE: rejects}) as controller:
        address = controller.address
        host, _, port = address.rpartition(":")
        cause = await why(EndpointSettings(host=host, port=int(port), sasl=LOGIN_SETTINGS))

    assert cause.reason == LOGIN
    assert cause.detail == (
        f"{address}: PLAIN login as proxy-1: SASL_AUTHENTICATION_FAILED: Authentication failed"
    )


async def readyz(lone: LoneProcess, expected: list[str]) -> None:
    """Until each of its lines begins as expected."""
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while True:
            status, text = await asyncio.to_thread(probe.get, lone.http, "/readyz")
            lines = text.splitlines()
            if len(lines) == len(expected) and all(map(str.startswith, lines, expected)):
                break
            await asyncio.sleep(0.05)
    assert status == 503


async def series_of(lone: LoneProcess) -> dict[str, float]:
    """The metrics about its readiness."""
    prefixes = ("penstock_ready", "penstock_not_ready", "penstock_degraded", "penstock_broker_connected")
    found = await asyncio.to_thread(probe.series, lone.http)
    return {name: value for name, value in found.items() if name.startswith(prefixes)}


@pytest.mark.slow
@on_uvloop
async def test_a_proxy_without_log_and_controller_says_so_and_logs_each_once(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        await readyz(
            lone,
            [
                "not ready: the metadata log is not loaded: topic __penstock_metadata: UNKNOWN_TOPIC_OR_",
                f"degraded: administrative requests time out: {REFUSED} (127.0.0.1:1: cannot connect: ",
                "audit: not shipping: UNSUPPORTED_VERSION",
            ],
        )
        assert probe.get(lone.http, "/livez") == (200, "alive\n")
        assert await series_of(lone) == {
            "penstock_ready": 0,
            'penstock_not_ready{cause="the metadata log is not loaded"}': 1,
            'penstock_degraded{cause="degraded: administrative requests time out"}': 1,
            'penstock_degraded{cause="audit"}': 1,
            "penstock_broker_connected": 1,
        }
        lines = [json.loads(line) for line in lone.output.read_text(encoding="utf-8").splitlines()]

    counted = Counter(line["event"] for line in lines)
    assert (counted["controller not reached"], counted["metadata feed interrupted"]) == (1, 1)
    (lost,) = [line for line in lines if line["event"] == "controller not reached"]
    assert (lost["level"], lost["reason"]) == ("warning", REFUSED)


@pytest.mark.slow
@on_uvloop
async def test_a_controller_says_why_it_is_not_ready(tmp_path: Path) -> None:
    (nobody,) = free_addresses(1)
    async with a_lone("controller", tmp_path, broker={"bootstrap": nobody}) as lone:
        await readyz(
            lone,
            [
                f"not ready: the metadata log is not loaded: {REFUSED} ({nobody}: cannot connect: ",
                f"degraded: requests that a broker carries out time out: {REFUSED} ({nobody}: ",
                "audit: not shipping: ",
            ],
        )
        assert await series_of(lone) == {
            "penstock_ready": 0,
            'penstock_not_ready{cause="the metadata log is not loaded"}': 1,
            'penstock_degraded{cause="degraded: requests that a broker carries out time out"}': 1,
            'penstock_degraded{cause="audit"}': 1,
            "penstock_broker_connected": 0,
        }


@pytest.mark.slow
@on_uvloop
async def test_a_broker_that_is_lost_moves_a_metric_without_any_client(tmp_path: Path) -> None:
    async with AsyncExitStack() as brokers:
        broker = await brokers.enter_async_context(FakeBroker({ApiKey.METADATA: metadata}))
        async with a_lone("proxy", tmp_path, upstream={"bootstrap": broker.address}) as lone:
            assert (await series_of(lone))["penstock_broker_connected"] == 1
            await brokers.aclose()
            async with asyncio.timeout(SHOULD_NOT_TAKE_S):
                while (found := await series_of(lone))["penstock_broker_connected"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    assert found['penstock_not_ready{cause="the broker is not reached"}'] == 1


def test_every_line_of_readyz_has_a_metric_and_its_labels_are_few() -> None:
    login, refused = Cause(LOGIN, "b:9092: PLAIN login as proxy-1"), Cause(REFUSED, "c:9094")
    registry = CollectorRegistry()
    said = [Readiness()]
    registry.register(ReadinessSeries(lambda: said[0]))
    assert samples(registry) == {("penstock_ready",): 1}

    said[0] = Readiness((Note.of("a", login), Note.of("a", refused).prefixed("worker 1")), (Note.of("b"),))

    assert samples(registry) == {
        ("penstock_ready",): 0,
        ("penstock_not_ready", "a"): 1,
        ("penstock_degraded", "b"): 1,
    }


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    return {
        (each.name, *each.labels.values()): each.value
        for found in registry.collect()
        for each in found.samples
    }


def test_what_only_one_of_several_workers_says_has_its_number_and_details_are_for_operators() -> None:
    note = Note.of("degraded: x", Cause(LOGIN, "b:9092: PLAIN login as proxy-1"))
    readiness = Readiness.decoded(Readiness((), (note.prefixed("worker 1"),)).encoded())

    assert readiness.text(detailed=False) == f"ready\nworker 1: degraded: x: {LOGIN}\n"
    assert readiness.text(detailed=True) == (
        f"ready\nworker 1: degraded: x: {LOGIN} (b:9092: PLAIN login as proxy-1)\n"
    )
