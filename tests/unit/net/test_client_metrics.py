"""Connections by software and versions, as bounded metrics: invented names cannot make them grow."""

import pytest

from proxy.net.telemetry.client_metrics import IDLE_MS, MAX_SOFTWARE, ClientSeries
from proxy.session.gate import ListenerPolicy
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, produce
from tests.session.test_client_software_conversation import software

pytestmark = pytest.mark.spec("O13", "O2")


class Scrapes:
    """A proxy's series, at a time that the test sets."""

    def __init__(self, *policies: ListenerPolicy) -> None:
        self.now_ms = 0
        self._series = ClientSeries(policies, lambda: self.now_ms)

    def by_software(self) -> dict[str, float]:
        metric, _ = self._series.collect()
        return {" ".join(each.labels.values()): each.value for each in metric.samples}

    def by_version(self) -> dict[tuple[str, str], float]:
        _, metric = self._series.collect()
        return {(each.labels["api"], each.labels["version"]): each.value for each in metric.samples}


def test_the_connections_of_all_listeners_are_counted_by_software_and_version() -> None:
    talks = [Conversation("WRITE TOPIC orders") for _ in range(3)]
    for talk, version in zip(talks, ("2.3.0", "2.3.0", "2.4.0"), strict=True):
        talk.asks(ApiKey.API_VERSIONS, 3, software(version=version))
        talk.asks(ApiKey.PRODUCE, 9, produce("orders"))
    talks[2].asks(ApiKey.PRODUCE, 8, produce("orders"))
    scrapes = Scrapes(*(talk.listener for talk in talks))

    assert scrapes.by_software() == {"librdkafka 2.3.0": 2, "librdkafka 2.4.0": 1}
    assert scrapes.by_version() == {("Produce", "8"): 1, ("Produce", "9"): 3}
    for talk in talks:
        talk.session.closed()
    assert (scrapes.by_software(), scrapes.by_version()) == ({}, {})


def test_100_000_invented_names_make_no_more_series_than_there_is_room_for() -> None:
    policy = ListenerPolicy("PLAIN", None)
    counted, scrapes = policy.counts.connections_by_software, Scrapes(policy)
    counted["apache-kafka-java 4.2.0"] = 10
    seen: set[str] = set()

    for number in range(100_000):  # One after the other.
        counted[f"invented-{number} 1"] = 1
        if number % 100 == 0:
            seen |= scrapes.by_software().keys()
        del counted[f"invented-{number} 1"]
    assert len(seen) == MAX_SOFTWARE + 1  # With `other`.

    counted.update({f"at-once-{number} 1": 1 for number in range(100_000)})
    shown = scrapes.by_software()
    assert shown["apache-kafka-java 4.2.0"] == 10
    assert len(shown) <= MAX_SOFTWARE + 1
    assert sum(shown.values()) == 100_010


def test_a_name_with_many_connections_replaces_one_with_few_and_idle_ones_make_room() -> None:
    policy = ListenerPolicy("PLAIN", None)
    counted, scrapes = policy.counts.connections_by_software, Scrapes(policy)
    counted.update({f"few-{number} 1": 1 for number in range(MAX_SOFTWARE)})
    assert len(scrapes.by_software()) == MAX_SOFTWARE

    counted["another 1"] = 1
    assert scrapes.by_software()["other other"] == 1
    counted["another 1"] = 2
    assert scrapes.by_software()["another 1"] == 2

    counted.clear()
    counted["late 1"] = 1
    assert scrapes.by_software() == {"other other": 1}
    scrapes.now_ms = IDLE_MS
    assert scrapes.by_software() == {"late 1": 1}
