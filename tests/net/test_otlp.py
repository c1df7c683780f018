"""Trace spans on their way to an OTLP receiver: what arrives, and what becomes of them when none is there.

The receiver is tests/support/otlp_receiver.py, made of OpenTelemetry's protobuf classes.
"""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.reachability import CERTIFICATE, REFUSED, TIMED_OUT
from proxy.net.telemetry import otlp
from proxy.net.telemetry.otlp import Headers, OtlpSettings, OtlpTraces
from tests.lab.cluster.ports import free_addresses
from tests.net.test_tls_listener import Authority
from tests.support.office_certificates import OfficeCertificates
from tests.support.otlp_receiver import Receiver, a_receiver
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("O12")

TOKEN = "Authorization: Bearer s3cret-t0ken\n"


@pytest.fixture(autouse=True)
def _spans_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "INTERVAL_MS", 20)


class Running:
    def __init__(self, traces: OtlpTraces, registry: CollectorRegistry) -> None:
        self.traces = traces
        self.registry = registry

    def ends(self, count: int = 1, **attributes: Any) -> None:
        for _ in range(count):
            self.traces.begin("Produce", "server").end(attributes)

    def exported(self) -> float:
        return self.registry.get_sample_value("penstock_trace_spans_exported_total") or 0

    def dropped(self, reason: str) -> float:
        name = "penstock_trace_spans_dropped_total"
        return self.registry.get_sample_value(name, {"reason": reason}) or 0

    def has_dropped(self, count: int) -> bool:
        """As many as that were not exported."""
        return self.dropped("not_exported") == count


@asynccontextmanager
async def running(url: str, **changes: Any) -> AsyncIterator[Running]:
    registry = CollectorRegistry()
    settings = OtlpSettings(endpoint=f"{url}/v1/traces", instance="proxy-1", version="1.2", **changes)
    traces = OtlpTraces(settings, registry, FileReloads(registry))
    run = asyncio.create_task(traces.run())  # noqa: TID251 - ended below
    await asyncio.sleep(0)
    try:
        yield Running(traces, registry)
    finally:
        run.cancel()
        await traces.close(100)


async def received(receiver: Receiver, count: int) -> list[Any]:
    return await asyncio.to_thread(receiver.until, count)


async def test_a_span_arrives_with_what_it_says_and_who_it_is_from() -> None:
    with a_receiver() as receiver:
        async with running(receiver.url, service="kafka-gate") as it:
            parent = it.traces.begin("CreateTopics", "server")
            child = it.traces.begin("Envelope CreateTopics", "client", parent.traceparent)
            child.event("retry", {"reason": "NOT_CONTROLLER"})
            child.end({"kafka.api.key": 19}, "REQUEST_TIMED_OUT")
            parent.end({"messaging.client.id": "x" * 10_000, "penstock.denied": False})
            spans = {span.name: span for span in await received(receiver, 2)}

    outer, inner = spans["CreateTopics"], spans["Envelope CreateTopics"]
    assert (outer.kind, outer.parent_id) == (2, b"")
    assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns
    assert outer.attributes == {"messaging.client.id": "x" * 256, "penstock.denied": False}
    assert (outer.is_error, inner.is_error) == (False, True)
    assert (inner.kind, inner.trace_id, inner.parent_id) == (3, outer.trace_id, outer.span_id)
    assert inner.attributes == {"kafka.api.key": 19, "error.type": "REQUEST_TIMED_OUT"}
    assert inner.events == [("retry", {"reason": "NOT_CONTROLLER"})]
    assert outer.resource.items() >= {
        ("service.name", "kafka-gate"),
        ("service.instance.id", "proxy-1"),
        ("service.version", "1.2"),
    }
    assert [path for path, _ in receiver.requests] == ["/v1/traces"]


@pytest.mark.parametrize(
    "parent", ["", "garbage", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\udcff", "x" * 64]
)
async def test_a_parent_that_cannot_be_read_is_none(parent: str) -> None:
    with a_receiver() as receiver:
        async with running(receiver.url) as it:
            it.traces.begin("Envelope", "server", parent).end({})
            (span,) = await received(receiver, 1)

    assert span.parent_id == b""


async def test_who_began_a_trace_decides_whether_it_is_recorded() -> None:
    with a_receiver() as receiver:
        async with running(receiver.url) as it:
            span = it.traces.begin("Envelope", "server", "00-" + "a" * 32 + "-" + "b" * 16 + "-00")
            span.end({})
            it.ends(name="after")
            (sent,) = await received(receiver, 1)

    assert sent.attributes == {"name": "after"}


async def test_without_a_thread_there_are_no_traces_and_nothing_else_is_the_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_args: Any, **_named: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(otlp, "BatchSpanProcessor", broken)
    with capture_logs() as lines:
        async with running("http://127.0.0.1:1") as it:
            it.ends()
            await it.traces.close(100)

    assert [line["event"] for line in lines] == ["Failed to start the export of traces"]


async def test_a_receiver_that_hangs_costs_spans_and_memory_for_no_more_than_the_queue() -> None:
    with a_receiver() as receiver:
        receiver.delays = threading.Event()
        async with running(receiver.url, queue_max_spans=16) as it:
            it.ends(1)  # Of several, the first request may have a part.
            await turns_until(lambda: len(receiver.requests) == 1)
            it.ends(40)
            assert it.dropped("queue_full") == 24
            receiver.delays.set()
            await received(receiver, 17)
            await turns_until(lambda: it.exported() == 17)

    assert it.dropped("not_exported") == 0


async def test_a_receiver_that_is_away_is_one_line_and_another_when_it_is_back() -> None:
    ((host, port),) = [at.split(":") for at in free_addresses(1)]
    with capture_logs() as lines:
        async with running(f"http://{host}:{port}", timeout_ms=100) as it:
            for number in range(1, 4):
                it.ends(5)
                await turns_until(partial(it.has_dropped, 5 * number))
            with a_receiver(port=int(port)) as receiver:
                it.ends(5)
                await received(receiver, 5)
                await turns_until(lambda: any(line["event"] == "trace receiver reached" for line in lines))

    told = [(line["log_level"], line["event"], line.get("reason")) for line in lines]
    assert [line for line in told if line[0] != "debug" and "receiver" in line[1]] == [
        ("warning", "trace receiver not reached", REFUSED),
        ("info", "trace receiver reached", None),
    ]


@pytest.mark.parametrize("status", [400, 401, 301, 307, 500])
async def test_spans_that_the_receiver_rejects_are_counted(status: int, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text(TOKEN)
    with a_receiver() as receiver, capture_logs() as lines:
        receiver.status = status
        async with running(receiver.url, timeout_ms=500, headers_file=headers) as it:
            it.ends(3)
            await turns_until(lambda: it.dropped("not_exported") == 3)
            await turns_until(lambda: any("not reached" in line["event"] for line in lines))

    assert [line.get("reason") for line in lines if "not reached" in line["event"]] == [
        f"HTTP status {status}"
    ]
    assert {path for path, _ in receiver.requests} == {"/v1/traces"}, "a redirect is not followed"
    assert "s3cret" not in str(lines)


async def test_the_headers_of_the_file_are_sent_and_its_changes_too(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text(TOKEN + "\nX-Scope-OrgID:  team 1 \n")
    with a_receiver() as receiver:
        async with running(receiver.url, headers_file=headers) as it:
            it.ends()
            await received(receiver, 1)
            changed = tmp_path / "changed"
            changed.write_text("Authorization: Bearer another")
            changed.rename(headers)
            await turns_until(lambda: "another" in str(it.traces._headers._headers))
            it.ends()
            await received(receiver, 2)

    (_, first), (_, second) = receiver.requests
    assert (first["authorization"], first["x-scope-orgid"]) == ("Bearer s3cret-t0ken", "team 1")
    assert (second["authorization"], second.get("x-scope-orgid")) == ("Bearer another", None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"s3cret",
        b"Authorization Bearer s3cret",
        b"Authorization:",
        b"Host: s3cret",
        b"content-type: s3cret",
        b"A: s3cret\x00",
        b"A: s3cr\xc3\xa9t",
        b"A b: s3cret",
        b"".join(b"X-%d: s3cret\n" % number for number in range(33)),
    ],
)
async def test_a_file_of_headers_that_cannot_be_used_is_an_error_that_does_not_show_it(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "headers"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r"headers\.file: .*/headers") as error:
        Headers(path)

    assert "s3cr" not in str(error.value)


async def test_the_receiver_has_to_show_a_certificate_of_the_configured_authority(tmp_path: Path) -> None:
    ours, others = OfficeCertificates(tmp_path / "ours"), OfficeCertificates(tmp_path / "others")
    issued = ours.issue("receiver")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    with a_receiver(tls) as receiver, capture_logs() as lines:
        async with running(receiver.url, ca=others.ca, timeout_ms=500) as it:
            it.ends(2)
            await turns_until(lambda: it.dropped("not_exported") == 2)
            await turns_until(lambda: any("not reached" in line["event"] for line in lines))
        assert receiver.requests == []
        async with running(receiver.url, ca=ours.ca) as it:
            it.ends(2)
            await received(receiver, 2)

    assert [line["reason"] for line in lines if "not reached" in line["event"]] == [CERTIFICATE]


async def test_a_trusted_issuing_ca_is_enough_to_trust_the_receiver(tmp_path: Path) -> None:
    issuing = Authority(tmp_path, "issuing", Authority(tmp_path, "root"))
    pair = issuing.key_pair()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with a_receiver(tls) as receiver:
        async with running(receiver.url, ca=issuing.file) as it:
            it.ends(2)
            await received(receiver, 2)
            await turns_until(lambda: it.exported() == 2)


async def test_what_is_left_is_sent_at_the_end() -> None:
    with a_receiver() as receiver:
        async with running(receiver.url) as it:
            it.ends(10)
            await it.traces.close(10_000)
            assert len(receiver.spans) == 10
            it.ends()  # It is too late, and no error.

    assert it.dropped("at_end") == 0


async def test_the_end_does_not_wait_for_a_receiver_that_hangs() -> None:
    with a_receiver() as receiver, capture_logs() as lines:
        receiver.delays = threading.Event()
        async with running(receiver.url, queue_max_spans=16) as it:
            it.ends(1)
            await turns_until(lambda: len(receiver.requests) == 1)
            it.ends(10)
            await it.traces.close(50)
            receiver.delays.set()

    assert it.dropped("at_end") == 10
    assert [line["spans"] for line in lines if "dropped at the end" in line["event"]] == [10]


async def test_a_slow_receiver_is_given_up_after_the_timeout() -> None:
    with a_receiver() as receiver, capture_logs() as lines:
        receiver.delays = threading.Event()
        async with running(receiver.url, timeout_ms=100) as it:
            it.ends()
            await turns_until(lambda: it.dropped("not_exported") == 1)
            await turns_until(lambda: any("not reached" in line["event"] for line in lines))
            receiver.delays.set()

    assert [line["reason"] for line in lines if "not reached" in line["event"]] == [TIMED_OUT]
