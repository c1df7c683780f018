"""docs/dev/flow.md names every file that three requests pass; here each of them is traced live."""

import asyncio
import re
from pathlib import Path

import pytest
import uvloop

from tests.lab.cluster.broker import Broker
from tests.support import flow_traces
from tests.support.controllers import plaintext

pytestmark = pytest.mark.tooling

PAGE = Path(__file__).parents[2] / "docs" / "dev" / "flow.md"
_LINK = re.compile(r"\(\.\./\.\./((?:proxy|forwarding)/[\w/]+\.py)\)")


def check(title: str, traces: list[flow_traces.Trace]) -> None:
    """The section of this title links to the files of all traces, and to no file that is in none of them."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"### {title}\n")
    linked = set(_LINK.findall(re.split("\n##+ ", rest, maxsplit=1)[0]))
    trace = [path for path in traces[0] if all(path in other for other in traces)]
    assert linked >= set(trace), f"it has to be:\n{markdown(trace)}"
    assert linked <= {path for each in traces for path in each}, f"it has to be:\n{markdown(trace)}"


def markdown(trace: flow_traces.Trace) -> str:
    """The files in the order in which the request first comes to them, those of one folder in a line."""
    lines: dict[str, list[str]] = {}
    for path in trace:
        folder, _, name = path.rpartition("/")
        lines.setdefault(folder, []).append(f"[{name.removesuffix('.py')}](../../{path})")
    return "\n".join(f"* `{folder}`: {', '.join(files)}" for folder, files in lines.items())


def test_the_page_names_every_file_that_a_produce_request_passes() -> None:
    check("A Produce request", uvloop.run(flow_traces.produce_request()))


def test_the_page_names_every_file_that_a_denied_fetch_passes() -> None:
    check("A denied Fetch", uvloop.run(flow_traces.denied_fetch()))


async def test_the_page_names_every_file_that_a_change_of_a_quota_passes(
    kafka: Broker, topic_name: str
) -> None:
    async with asyncio.timeout(60):
        traces = await flow_traces.alter_client_quotas(plaintext(kafka), topic_name)

    check("AlterClientQuotas, at the proxy, at the controller and back", traces)
