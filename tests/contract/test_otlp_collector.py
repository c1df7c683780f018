"""What the OTLP receiver of the OpenTelemetry Collector understands of our spans and exported records.

Skipped where it is not in the cache; `make check-otel` builds it, and nothing is skipped then.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from spark_audit.siem.receiver import Event, Receiver
from tests.net.test_otlp import running
from tests.support import otlp_collector
from tests.support.otlp_collector import a_collector
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("O12")


@pytest.fixture(scope="module")
def program() -> Path:
    if os.environ.get("PENSTOCK_REQUIRE_OTLP"):
        return otlp_collector.RECEIVER.built()
    found = otlp_collector.RECEIVER.installed()
    if found is None:
        pytest.skip("the Collector's receiver is not in the cache: make check-otel")
    return found


def attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}


async def test_a_collector_understands_our_spans(program: Path) -> None:
    with a_collector(program) as collector:
        async with running(collector.url) as it:
            parent = it.traces.begin("CreateTopics", "server")
            child = it.traces.begin("Envelope CreateTopics", "client", parent.traceparent)
            child.event("retry", {"reason": "NOT_CONTROLLER"})
            child.end({"penstock.forward.id": "p/b/0"}, "REQUEST_TIMED_OUT")
            parent.end({"kafka.correlation_id": 7, "penstock.denied": True})
            spans = {span["name"]: span for span in await asyncio.to_thread(collector.spans, 2)}
            await turns_until(lambda: it.exported() == 2)

    outer, inner = spans["CreateTopics"], spans["Envelope CreateTopics"]
    assert attributes(outer["resource"]["attributes"]).items() >= {
        ("service.name", "penstock"),
        ("service.instance.id", "proxy-1"),
    }
    assert (outer["kind"], outer.get("parentSpanId", "")) == (2, "")
    moments = outer["startTimeUnixNano"], inner["startTimeUnixNano"], outer["endTimeUnixNano"]
    assert list(map(int, moments)) == sorted(map(int, moments))
    assert attributes(outer["attributes"]) == {"kafka.correlation_id": "7", "penstock.denied": True}
    assert (inner["kind"], inner["traceId"], inner["parentSpanId"]) == (
        3,
        outer["traceId"],
        outer["spanId"],
    )
    assert inner["status"] == {"code": 2}
    assert attributes(inner["attributes"]) == {
        "penstock.forward.id": "p/b/0",
        "error.type": "REQUEST_TIMED_OUT",
    }
    (event,) = inner["events"]
    assert (event["name"], attributes(event["attributes"])) == ("retry", {"reason": "NOT_CONTROLLER"})


async def test_a_collector_takes_as_many_spans_as_fit_into_a_batch(program: Path) -> None:
    with a_collector(program) as collector:
        async with running(collector.url) as it:
            it.ends(2_000, name="x" * 256)
            assert len(await asyncio.to_thread(collector.spans, 2_000)) == 2_000
            await turns_until(lambda: it.exported() == 2_000)


@pytest.mark.spec("D17")
def test_a_collector_understands_exported_records(program: Path) -> None:
    event = Event("proxy-1/boot-1/7/00", 1_795_435_200_123, '{"a": "\\u00e9 \\"b\\""}')
    with a_collector(program) as collector:
        assert Receiver(f"{collector.url}/v1/logs", "otlp", None, lambda _s: None).send([event]) == 1
        [record] = collector.log_records(1)

    assert record["timeUnixNano"] == "1795435200123000000"
    assert record["body"] == {"stringValue": event.document}
    assert attributes(record["attributes"]) == {"log.record.uid": event.uid}
    assert attributes(record["resource"]["attributes"]) == {"service.name": "penstock"}
