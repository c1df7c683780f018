"""The files that one request passes: traced live, for the page docs/dev/flow.md and its test.

There is a listener on loopback, and a broker played by the test. For an administrative request there is a
controller over a real broker's topic, in the same event loop.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from proxy.net.kafka.channel import EndpointSettings
from proxy.security.authorizer import AllowAll
from proxy.security.standard import StandardAuthorizer
from proxy.session.gate import Gate
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import fetch, produce
from tests.support.controllers import a_controller, a_forwarder
from tests.support.edges import Client, a_broker, a_gate, an_edge

CHECKOUT = Path(__file__).parents[2]
PRODUCTS = ("proxy", "forwarding")
THE_TESTS_PEERS = {CHECKOUT / "tests" / "support" / name for name in ("edges.py", "fake_broker.py")}
THE_ELECTION = "forwarding/net/election.py"
"""A controller sends heartbeats to its group, whatever is requested."""
WARM_UP = 2
"""Requests before the traced one: codecs are generated at first use, and decisions remembered."""

TRACES = 3
"""What is due at some time, whatever is requested, is not in all of them."""

Trace = list[str]
"""Paths below the checkout, in the order in which the request first comes to each file."""


class Tracing:
    """Traces the event loop's thread, and those that begin in `threads_too`."""

    files: dict[str, None] | None = None
    """None: nothing is traced now."""

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        if (
            self.files is not None
            and event == "call"
            and (path := _of_the_product(frame)) is not None
            and not _is_called_by_others(frame)
        ):
            self.files[path] = None

    @contextmanager
    def threads_too(self) -> Iterator[None]:
        threading.setprofile(self.note)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextmanager
    def traced(self) -> Iterator[Trace]:
        """The files of the product in which functions are called meanwhile."""
        trace: Trace = []
        files: dict[str, None] = {}
        self.files = files
        sys.setprofile(self.note)
        try:
            yield trace
        finally:
            sys.setprofile(None)
            self.files = None
            trace += files


TRACING = Tracing()


def _of_the_product(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(CHECKOUT):
        return None
    path = path.relative_to(CHECKOUT)
    return path.as_posix() if path.parts[0] in PRODUCTS else None


def _is_called_by_others(frame: FrameType) -> bool:
    """Whether the client or the broker of the test calls it, or a heartbeat that is due meanwhile."""
    caller: FrameType | None = frame
    while caller is not None and (path := _of_the_product(caller)) is not None:
        if path == THE_ELECTION:
            return True
        caller = caller.f_back
    return caller is not None and Path(caller.f_code.co_filename) in THE_TESTS_PEERS


async def _traced(
    client: Client, api_key: int, version: int, request: Callable[[], Any], follows_s: float = 0.0
) -> list[Trace]:
    """Of TRACES requests that are alike. `follows_s`: how long what follows the response may take."""
    for _ in range(WARM_UP):
        client.asks(api_key, version, request())
        await client.hears(api_key, version)
    traces = []
    for _ in range(TRACES):
        client.asks(api_key, version, request())
        with TRACING.traced() as trace:
            await client.hears(api_key, version)
            await asyncio.sleep(follows_s)
        traces.append(trace)
    return traces


async def produce_request() -> list[Trace]:
    """A Produce request to one partition that the client has written to before, and its response."""
    async with a_broker() as broker, an_edge(a_gate(), broker.address) as edge:
        return await _traced(await edge.client(), ApiKey.PRODUCE, 9, lambda: produce("orders"))


async def denied_fetch() -> list[Trace]:
    """A Fetch for a topic that the client may not read."""
    gate = a_gate()
    gate.authorizer = StandardAuthorizer()
    async with a_broker() as broker, an_edge(gate, broker.address) as edge:
        return await _traced(await edge.client(), ApiKey.FETCH, 12, lambda: fetch("secrets"))


async def alter_client_quotas(kafka: EndpointSettings, topic: str) -> list[Trace]:
    """A change of a quota: at the proxy, at the controller, into the metadata log, and back."""
    request = t.AlterClientQuotasRequest
    entity = request.EntityData(entity_type="user", entity_name="alice")
    rates = count(1_000.0)  # A change that is in effect already writes nothing.

    def change() -> t.AlterClientQuotasRequest:
        operation = request.OpData(key="producer_byte_rate", value=next(rates), remove=False)
        return request(entries=[request.EntryData(entity=[entity], ops=[operation])], validate_only=False)

    gate = a_gate()
    gate.authorizer = AllowAll()
    with TRACING.threads_too():
        return await _altered_client_quotas(kafka, topic, gate, change)


async def _altered_client_quotas(
    kafka: EndpointSettings, topic: str, gate: Gate, change: Callable[[], Any]
) -> list[Trace]:
    async with (
        a_controller(kafka, topic) as controller,
        a_forwarder(controller.endpoint) as forwarder,
        a_broker() as broker,
        an_edge(gate, broker.address, forward=forwarder.forward) as edge,
    ):
        client = await edge.client()
        # The controller reads its log back, before or after the response.
        return await _traced(client, ApiKey.ALTER_CLIENT_QUOTAS, 1, change, follows_s=1.0)
