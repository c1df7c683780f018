"""The result file of `make bench` and the requests it is measured with; no broker needed."""

import json
from pathlib import Path

import pytest

from proxy.wire import codecs, skim
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import decode_request_header
from tests.lab.bench import picture, results, templates
from tests.lab.bench.__main__ import sizes_for
from tests.lab.bench.results import Measured

pytestmark = pytest.mark.tooling


def test_the_result_file_tells_the_spread_of_the_rounds(tmp_path: Path) -> None:
    measured = Measured(
        workload="consume", target="proxy", figure="cpu_s_per_gib", values=[0.7, 0.5, 0.61239]
    )

    results.write(tmp_path / "build" / "bench.json", [measured])

    assert json.loads((tmp_path / "build" / "bench.json").read_text(encoding="utf-8")) == [
        {
            "workload": "consume",
            "target": "proxy",
            "figure": "cpu_s_per_gib",
            "unit": "s/GiB",
            "min": 0.5,
            "median": 0.612,
            "max": 0.7,
            "rounds": 3,
        }
    ]


def test_the_picture_has_a_bar_for_each_target_that_has_the_cost() -> None:
    def row(target: str, *values: float) -> dict[str, object]:
        return Measured(workload="idle", target=target, figure="kib_per_connection", values=values).row()

    rows = [row("direct"), row("relay", 3.0, 4.0, 2.0), row("proxy", 6.0), row("splice", 1.0)]
    text = picture.draw(rows)

    assert text.count("idle, a connection") == 1
    assert text.count("KiB") == 2
    relay, proxy = (
        text.partition(f'fill="{picture.COLOURS[name]}"/>\n<line')[0] for name in ("relay", "proxy")
    )
    widths = [float(part.rpartition('width="')[2].partition('"')[0]) for part in (relay, proxy)]
    assert widths[1] == pytest.approx(2 * widths[0])


def test_a_cost_that_a_target_does_not_have_is_null_and_not_zero() -> None:
    row = Measured(workload="idle", target="direct", figure="kib_per_connection", values=[]).row()

    assert (row["min"], row["median"], row["max"], row["rounds"]) == (None, None, None, 0)


def test_the_table_shows_budget_and_rate_beside_the_figures() -> None:
    proxy = Measured(
        workload="idle", target="proxy", figure="kib_per_connection", values=[3.5], relative_speed=0.25
    )
    relay = Measured(workload="idle", target="relay", figure="kib_per_connection", values=[2.5])

    _, of_proxy, of_relay = results.table([proxy, relay]).splitlines()

    assert of_proxy.split() == ["idle", "proxy", "kib_per_connection", "3.50", "3.50", "3.50", "8.00", "0.25"]
    assert of_relay.split() == ["idle", "relay", "kib_per_connection", "2.50", "2.50", "2.50", "-", "-"]


def test_the_small_requests_are_whole_and_of_the_shape_that_streams(tmp_path: Path) -> None:
    (path,) = templates.write_produce(tmp_path, "orders", 1)
    request = path.read_bytes()

    header = decode_request_header(request, 4)
    message = codecs.request(ApiKey.PRODUCE, header.api_version).decode_exactly(
        memoryview(request)[header.body_offset :]
    )

    assert int.from_bytes(request[:4]) == len(request) - 4
    assert (header.api_key, header.client_id, message.acks) == (ApiKey.PRODUCE, "bench", 1)
    assert skim.produce(request, header.body_offset, header.api_version) == (
        1,
        [b"orders"],
        1,
        len(request),
    )


def test_the_picture_of_the_page_is_drawn_only_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.write(tmp_path / "bench.json", [])
    for name, file in (("RESULTS", "bench.json"), ("PICTURE", "build.svg"), ("PUBLISHED", "docs.svg")):
        monkeypatch.setattr(picture, name, tmp_path / file)

    picture.main([])
    drawn = [(tmp_path / name).exists() for name in ("build.svg", "docs.svg")]
    picture.main(["--publish"])

    assert drawn == [True, False]
    assert (tmp_path / "docs.svg").read_text() == (tmp_path / "build.svg").read_text()


@pytest.mark.parametrize(
    ("rounds", "files", "beside", "connections"),
    [
        (3, 20_000, [], 1_000),
        (7, 20_000, [], 880),
        (20, 1 << 20, [], 450),
        (7, 20_000, ["splice"], 440),
        (7, 20_000, ["splice", "kafka-proxy", "kroxylicious", "kroxylicious-acls"], 377),
    ],
)
def test_idle_connections_of_all_rounds_fit(
    rounds: int, files: int, beside: list[str], connections: int
) -> None:
    assert sizes_for(False, rounds, files, beside).idle_connections == connections
