"""Traces of a proxy and a controller that are processes of their own, before a real broker.

The receiver is tests/support/otlp_receiver.py, made of OpenTelemetry's protobuf classes.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.metadata.quota_entity import short_name
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.ports import free_addresses
from tests.support.controller_processes import controller_file, proxy_file, running
from tests.support.controllers import acls_request
from tests.support.edges import Client
from tests.support.otlp_receiver import ReceivedSpan, a_receiver

pytestmark = [pytest.mark.kafka, pytest.mark.spec("O12", "E1")]

ACLS_V = codecs.request_versions(ApiKey.CREATE_ACLS)[-1]
SHOULD_NOT_TAKE_S = 60.0
SERVER, CLIENT = 2, 3


def traced(path: Path, url: str, **changes: Any) -> Path:
    document = yaml.safe_load(path.read_text())
    document["telemetry"] = {"otlp": {"endpoint": url, **changes.pop("otlp", {})}}
    path.write_text(yaml.safe_dump(document | changes))
    return path


async def connected(bind: str, *needed: int) -> Client:
    """Once the proxy offers these APIs."""
    host, _, port = bind.rpartition(":")
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while True:
            with suppress(OSError, EOFError):
                client = Client(*await asyncio.open_connection(host, int(port)))
                try:
                    if await offers(client) >= set(needed):
                        return client
                except EOFError:
                    pass
                await leave(client)
            await asyncio.sleep(0.1)


async def offers(client: Client) -> set[int]:
    request = t.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    client.asks(ApiKey.API_VERSIONS, 3, request)
    return {each.api_key for each in (await client.hears(ApiKey.API_VERSIONS, 3)).api_keys}


async def leave(client: Client) -> None:
    client.leaves()
    with suppress(OSError):
        await client.writer.wait_closed()


def parent_of(span: ReceivedSpan, spans: list[ReceivedSpan]) -> ReceivedSpan:
    (parent,) = [each for each in spans if each.span_id == span.parent_id]
    assert parent.trace_id == span.trace_id
    return parent


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_a_forwarded_request_is_one_trace_over_both_processes(
    kafka: Broker, tmp_path: Path, workers: int
) -> None:
    topic = f"traced-{workers}"
    bind, proxy_bind = free_addresses(2)
    with a_receiver() as receiver:
        controller = traced(controller_file(tmp_path, "controller-1", bind, kafka, topic), receiver.url)
        proxy = traced(proxy_file(tmp_path, proxy_bind, [bind], kafka, topic), receiver.url, workers=workers)
        async with running(controller), running(proxy, "proxy", "proxy", "-c") as process:
            client = await connected(proxy_bind, ApiKey.CREATE_ACLS)
            client.asks(ApiKey.CREATE_ACLS, ACLS_V, acls_request("orders"), client_id="c" * 1_000)
            response = await client.hears(ApiKey.CREATE_ACLS, ACLS_V)
            assert [result.error_code for result in response.results] == [0]
            process.terminate()
            assert await process.wait() == 0
            # What was not sent before is sent at the end.
            assert len(receiver.named("Envelope CreateAcls")) >= 1
            await leave(client)
        spans = receiver.spans

    # As long as the controller is not active yet, the Envelope is sent again.
    *rejected, at_controller = sorted(
        (span for span in spans if span.resource["service.instance.id"] == "controller-1"),
        key=lambda span: span.start_ns,
    )
    envelope = parent_of(at_controller, spans)
    assert all(parent_of(span, spans) is envelope and span.is_error for span in rejected)
    assert envelope.attributes["penstock.forward.attempts"] == 1 + len(rejected)
    assert [(span.name, span.kind) for span in (envelope, at_controller)] == [
        ("Envelope CreateAcls", CLIENT),
        ("Envelope CreateAcls", SERVER),
    ]
    assert envelope.parent_id == b""
    # The lines of the records, as those of the forwarder, lead to the trace.
    for file, event, span in (
        (proxy, "forwarded", envelope),
        (controller, "forwarded_received", at_controller),
    ):
        lines = map(json.loads, file.with_suffix(".log").read_text(encoding="utf-8").splitlines())
        ids = [(line.get("trace_id"), line.get("span_id")) for line in lines if line["event"] == event]
        assert ids[-1] == (span.trace_id.hex(), span.span_id.hex())
    assert len({span.attributes["penstock.forward.id"] for span in (envelope, at_controller)}) == 1
    assert len({span.attributes["kafka.correlation_id"] for span in (envelope, at_controller)}) == 1
    assert {span.attributes["kafka.error_code"] for span in (envelope, at_controller)} == {0}
    assert {span.attributes["messaging.client.id"] for span in (envelope, at_controller)} == {
        short_name("c" * 1_000)
    }
    assert envelope.start_ns <= at_controller.start_ns
    assert at_controller.end_ns <= envelope.end_ns
    instance = envelope.resource["service.instance.id"]
    assert instance.startswith("proxy-1")
    assert workers > 1 or instance == "proxy-1"
