"""Client ids make no more series than there are places; those with most traffic have them, and keep them."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proxy.audit.record import AuditEvent
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.net.pages.http_server import exposition
from proxy.net.telemetry.event_metrics import StateCollector, Telemetry
from proxy.net.telemetry.quota_metrics import MAX_REPLACED, MAX_SHOWN, OTHER
from proxy.quota.bucket_table import IDLE_MS
from proxy.quota.keys import PRODUCER_BYTE_RATE
from proxy.quota.throttle import ClientQuotas
from tests.session.conversation import NOW_MS, gate_with
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("O12", "Q10")

IMAGE = quotas_image({QuotaEntity(user=DEFAULT, client_id=DEFAULT): {PRODUCER_BYTE_RATE: 1_000.0}})


class Scraped:
    """Telemetry and quotas, with a clock."""

    def __init__(self, directory: Path) -> None:
        self.registry = CollectorRegistry()
        self.telemetry = Telemetry(self.registry)
        self.gate = gate_with(None)
        self.now_ms = NOW_MS
        state = StateCollector(self.gate, [], self.telemetry, lambda: self.now_ms, lambda: True)
        self.registry.register(state)

    @property
    def quotas(self) -> ClientQuotas:
        return self.gate.quotas

    def sends(self, user: str, client_ids: Iterable[str], size: float) -> None:
        for client_id in client_ids:
            self.quotas.bucket(PRODUCER_BYTE_RATE, IMAGE, user, client_id).record(size, self.now_ms)

    def is_throttled(self, user: str, client_id: str) -> None:
        self.telemetry.read(
            AuditEvent(
                event="throttled",
                quota_key=PRODUCER_BYTE_RATE,
                quota_id=f"{user}:{client_id}",
                count=1,
                interval_end_ms=self.now_ms,
            )
        )

    def reviews(self) -> None:
        list(self.telemetry.shown_clients.review(self.quotas, self.now_ms))
        list(self.telemetry.end_idle_quotas(self.now_ms))

    def series(self, name: str) -> dict[tuple[str, str], float]:
        """By user and client id."""
        rows = [
            ((sample.labels["user"], sample.labels["client_id"]), sample.value)
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == name
        ]
        assert len(dict(rows)) == len(rows), "Prometheus takes no series twice"
        return dict(rows)

    def rates(self) -> dict[tuple[str, str], float]:
        return self.series("penstock_quota_byte_rate")


async def test_a_client_with_another_id_in_each_request_makes_no_more_series_than_there_are_places(
    tmp_path: Path,
) -> None:
    scraped = Scraped(tmp_path)
    ids = [f"evil-{number}" for number in range(3_000)]
    scraped.sends("mallory", [OTHER, *ids], 100)
    for client_id in [OTHER, *ids]:
        scraped.is_throttled("mallory", client_id)

    rates, throttled = scraped.rates(), scraped.series("penstock_quota_throttled_total")

    assert len(rates) == len(throttled) == MAX_SHOWN + 1
    assert throttled["mallory", OTHER] == 3_001 - MAX_SHOWN
    one = rates["mallory", "evil-0"]
    assert rates["mallory", OTHER] == pytest.approx(one * (3_001 - MAX_SHOWN))
    assert ("mallory", OTHER) not in scraped.series("penstock_quota_byte_rate_limit")
    text = (await exposition(scraped.registry)).decode()
    assert text.count("evil-") <= 4 * MAX_SHOWN


def test_each_users_sum_stays_what_it_was(tmp_path: Path) -> None:
    scraped = Scraped(tmp_path)
    scraped.sends("mallory", [f"evil-{number}" for number in range(500)], 100)
    scraped.sends("alice", ["etl", "app"], 100)

    rates = scraped.rates()

    assert set(rates) - {key for key in rates if key[0] == "mallory"} == {("alice", OTHER)}
    of_alice = scraped.quotas.bucket(PRODUCER_BYTE_RATE, IMAGE, "alice", "etl").byte_rate(NOW_MS)
    assert rates["alice", OTHER] == pytest.approx(2 * of_alice)


def test_those_with_much_more_traffic_take_the_places_of_those_with_least_a_few_at_a_time(
    tmp_path: Path,
) -> None:
    scraped = Scraped(tmp_path)
    scraped.sends("mallory", [f"evil-{number}" for number in range(MAX_SHOWN)], 100)
    scraped.rates()
    scraped.sends("alice", [f"app-{number}" for number in range(3 * MAX_REPLACED)], 10_000)
    scraped.sends("bob", ["nearly"], 190)
    shown = []
    for _ in range(4):
        scraped.reviews()
        shown.append(sum(user == "alice" and name != OTHER for user, name in scraped.rates()))

    assert shown == [MAX_REPLACED, 2 * MAX_REPLACED, 3 * MAX_REPLACED, 3 * MAX_REPLACED]
    assert ("bob", "nearly") not in scraped.rates()
    assert len(scraped.rates()) == MAX_SHOWN + 2


def test_who_is_shown_stays_shown_while_all_have_about_as_much_traffic(tmp_path: Path) -> None:
    scraped = Scraped(tmp_path)
    scraped.sends("alice", [f"first-{number}" for number in range(MAX_SHOWN)], 100)
    before = scraped.rates().keys()
    scraped.sends("alice", [f"later-{number}" for number in range(MAX_SHOWN)], 150)

    scraped.reviews()

    assert scraped.rates().keys() == before | {("alice", OTHER)}


def test_places_of_those_that_are_idle_for_an_hour_are_free(tmp_path: Path) -> None:
    scraped = Scraped(tmp_path)
    ids = [f"old-{number}" for number in range(MAX_SHOWN)]
    scraped.sends("alice", ids, 100)
    for client_id in ids:
        scraped.is_throttled("alice", client_id)
    scraped.now_ms += IDLE_MS
    scraped.sends("bob", ["new"], 1)

    scraped.reviews()

    assert scraped.rates().keys() == {("bob", "new")}
    assert scraped.series("penstock_quota_throttled_total") == {}
