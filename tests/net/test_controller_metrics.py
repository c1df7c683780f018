"""What the controller exports of logins, sessions, its authorizer and its ACLs, under the proxy's names."""

import asyncio
import socket
import struct
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from forwarding.net.connection import ListenerContext
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.server import Server
from proxy.net.kafka.channel import Channel, ChannelError, LoginRejected
from proxy.net.logins.verification import Verifications
from proxy.security.authorizer import load_authorizer
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    FILES,
    RunningController,
    a_controller_and_a_forwarder,
    a_forwarder,
    acls_request,
    controller_config,
    controller_settings,
    create_acls,
    endpoint_of,
    forward,
    login,
    made_controller,
    plain_sasl,
    running,
)
from tests.support.edges import on_uvloop
from tests.support.metadata_log import acl, acl_record, values

USERS = {"proxy-1": "secret"}
RAISES = f"{__name__}.Raises"


class Raises:
    """An authorizer with a fault."""

    def configure(self, settings: Any) -> None:
        """There is nothing to configure."""

    def authorize(self, context: Any, actions: Any) -> Any:
        raise ZeroDivisionError("a fault of the authorizer")

    authorize_by_resource_type = authorize

    def acl_count(self, image: Any) -> int:
        return -1


def value(controller: RunningController, name: str, **labels: str) -> float | None:
    return controller.registry.get_sample_value(name, labels)


@pytest.mark.spec("R7", "O2")
async def test_logins_and_failed_logins_at_the_controller_are_counted_as_at_a_proxy() -> None:
    made = made_controller(controller_settings(endpoint_of("127.0.0.1:1"), "t"), plain_sasl(USERS, 60_000))
    async with running(made, wait=False) as controller:
        address = controller.endpoint.address
        async with await Channel.open(endpoint_of(address, sasl=login("proxy-1", "secret"))):
            pass
        with pytest.raises(LoginRejected):
            await Channel.open(endpoint_of(address, sasl=login("proxy-1", "wrong")))

    labels = {"listener": "CONTROLLER", "mechanism": "PLAIN"}
    assert value(made, "penstock_authentication_total", outcome="successful", **labels) == 1
    assert value(made, "penstock_authentication_total", outcome="failed", **labels) == 1
    assert value(made, "penstock_authentication_no_reauth_total", listener="CONTROLLER") is None


@pytest.mark.slow
@pytest.mark.spec("R7", "R4")
async def test_renewed_and_expired_sessions_at_the_controller_are_counted() -> None:
    made = made_controller(controller_settings(endpoint_of("127.0.0.1:1"), "t"), plain_sasl(USERS, 1_500))
    async with running(made, wait=False) as controller, asyncio.timeout(20):
        address = controller.endpoint.address
        endpoint = endpoint_of(address, sasl=login("proxy-1", "secret"))
        async with a_forwarder(endpoint) as forwarder:
            while not made.told("reauthentication"):
                await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=100)
        async with await Channel.open(endpoint) as forgetful:
            forgetful._reauthenticate_at_s = None
            with pytest.raises(ChannelError):
                await _asked_for_ever(forgetful)

    labels = {"listener": "CONTROLLER", "mechanism": "PLAIN"}
    assert (value(made, "penstock_reauthentication_total", outcome="successful", **labels) or 0) >= 1
    assert (value(made, "penstock_reauthentication_latency_seconds_count") or 0) >= 1
    assert value(made, "penstock_expired_connections_killed_total", listener="CONTROLLER") == 1


async def _asked_for_ever(channel: Channel) -> None:
    while True:
        await channel.request(ApiKey.ENVELOPE, 0, types.EnvelopeRequest())


@pytest.mark.spec("S11", "O2")
def test_the_acl_count_is_that_of_the_image_which_the_controller_has_read() -> None:
    made = made_controller(controller_settings(endpoint_of("127.0.0.1:1"), "t"))
    loader, seen = made.process.loader, [value(made, "penstock_controller_acls")]
    loader.load_until(0)

    for offset in range(3):
        loader.batch(offset, values(acl_record(acl(f"t{offset}"))))
        seen.append(value(made, "penstock_controller_acls"))

    assert seen == [0, 1, 2, 3]


@pytest.mark.kafka
@pytest.mark.spec("S11", "O2")
async def test_the_acl_count_of_the_controller_is_that_of_its_image(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        assert value(controller, "penstock_controller_acls") == 0
        await create_acls(forwarder, "a", "b", "c")
        assert value(controller, "penstock_controller_acls") == 3


@pytest.mark.spec("A1", "O2")
async def test_an_authorizer_that_raises_at_the_controller_is_counted() -> None:
    made = made_controller(
        controller_settings(endpoint_of("127.0.0.1:1"), "t"), authorizer=load_authorizer(RAISES, {})
    )
    async with running(made, wait=False) as controller, a_forwarder(controller.endpoint) as forwarder:
        assert value(controller, "penstock_authorizer_errors_total") == 0
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("t"), timeout_ms=100)
        assert (value(controller, "penstock_authorizer_errors_total") or 0) >= 1


@pytest.mark.spec("O2")
@on_uvloop
async def test_a_proxy_that_leaves_while_its_request_is_served_is_no_error() -> None:
    served, release = asyncio.Event(), asyncio.Event()

    async def serve(*_envelope: Any) -> Any:
        served.set()
        await release.wait()
        return types.EnvelopeResponse(response_data=bytes(1_000_000))

    registry = CollectorRegistry()
    context = ListenerContext(
        "CONTROLLER", None, dict, serve, lambda _event: None, lambda: 0, Verifications(CollectorRegistry())
    )
    server = Server(controller_config(), FILES, None, context, ControllerMetrics(registry))
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
            run = tasks.create_task(server.run())
            await server.listening.wait()
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            body = codecs.request(ApiKey.ENVELOPE, 0).encode(types.EnvelopeRequest())
            writer.write(encode_request(ApiKey.ENVELOPE, 0, 1, "proxy", body))
            await served.wait()
            # As a process that is killed leaves: with a reset, after which nothing can be written.
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            # The server's transport is closed by then; nobody tells a test when.
            await asyncio.sleep(0.2)
            (peer,) = server.connections
            release.set()
            await asyncio.wait([peer.task])
            server.drain()
            await asyncio.wait([run])

    assert [line for line in lines if line["log_level"] == "error"] == []
    closed = "penstock_controller_connections_closed_total"
    assert registry.get_sample_value(closed, {"reason": "closed by peer"}) == 1


@pytest.mark.spec("O4")
@on_uvloop
async def test_a_drain_waits_for_a_request_that_is_served_until_it_is_to_end_at_once() -> None:
    served = asyncio.Event()

    async def serve(*_envelope: Any) -> Any:
        served.set()
        await asyncio.Event().wait()

    context = ListenerContext(
        "CONTROLLER", None, dict, serve, lambda _event: None, lambda: 0, Verifications(CollectorRegistry())
    )
    metrics = ControllerMetrics(CollectorRegistry())
    server = Server(controller_config(), FILES, None, context, metrics)
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
            run = tasks.create_task(server.run())
            await server.listening.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            idle, idle_writer = await asyncio.open_connection("127.0.0.1", server.port)
            body = codecs.request(ApiKey.ENVELOPE, 0).encode(types.EnvelopeRequest())
            writer.write(encode_request(ApiKey.ENVELOPE, 0, 1, "proxy", body))
            await served.wait()

            server.drain()
            assert await idle.read() == b""
            assert not run.done()
            server.end_at_once()
            assert await reader.read() == b""
            for each in (writer, idle_writer):
                each.close()

    told = {line["event"]: line for line in lines}
    assert told["draining"]["connections"] == 2
    assert (told["drained"]["connections"], told["drained"]["cut"]) == (1, 1)
