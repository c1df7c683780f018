"""The harness for a cluster of one's own, on a broker of the tests."""

import re
from pathlib import Path

import pytest

from tests.lab.bench.__main__ import main
from tests.lab.bench.own_cluster import Place, client_settings, measure
from tests.lab.bench.results import CPU_PER_GIB, MB_PER_S, P50, P99, P999
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.errors import SetupError

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.tooling]


def test_two_places_are_measured_in_turns_and_leave_no_topic(kafka: Broker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("# A login\nsecurity.protocol = PLAINTEXT\n", encoding="utf-8")
    client = client_settings(config)
    assert client == {"security.protocol": "PLAINTEXT"}
    other = kafka.plaintext.replace("127.0.0.1", "localhost")
    places = [Place(kafka.plaintext, client), Place(other, client)]

    measured = measure(places, rounds=2, records=2_000, requests=20)

    figures = {"produce": [MB_PER_S], "consume": [MB_PER_S], "latency": [P50, P99, P999]}
    assert {(each.workload, each.target, each.figure, len(each.values)) for each in measured} == {
        (workload, place.bootstrap, figure, 2)
        for workload, names in figures.items()
        for figure in names
        for place in places
    }
    assert [
        each.relative_speed for each in measured if each.target == kafka.plaintext and each.relative_speed
    ] == [1.0] * 2
    assert min(value for each in measured for value in each.values) > 0


def test_a_page_without_the_cpu_of_a_process_is_an_error(kafka: Broker, tmp_path: Path) -> None:
    page = tmp_path / "metrics"
    page.write_text("process_cpu_seconds_total 3.5\n", encoding="utf-8")
    (*_, cost) = [
        each
        for each in measure([Place(kafka.plaintext, {}, page.as_uri())], 1, 1_000, 10)
        if each.figure == CPU_PER_GIB
    ]
    assert cost.values == [0.0]

    page.write_text("up 1\n", encoding="utf-8")
    with pytest.raises(SetupError, match="has no process_cpu_seconds_total"):
        measure([Place(kafka.plaintext, {}, page.as_uri())], 1, 1_000, 10)


def test_each_place_needs_its_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--bootstrap", "a:1", "--bootstrap", "b:1", "--metrics", "http://a"])
    assert re.search("one URL for each --bootstrap", capsys.readouterr().err)
