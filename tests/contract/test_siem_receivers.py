"""What Splunk, Sentinel, Elastic and OTLP get of an export, and what happens if they do not take it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_audit.siem.receiver import ATTEMPTS, MAX_BYTES, MAX_EVENTS, Event, Receiver
from spark_audit.tables.files import AuditError
from tests.support.siem_receiver import Elastic, Otlp, Sentinel, SiemReceiver, Splunk, listening

pytestmark = pytest.mark.spec("D17")

TIME_MS = 1_795_435_200_123


def some_events(number: int, size: int = 0) -> list[Event]:
    text = "x" * size
    return [
        Event(f"proxy-1/boot-1/{each}/0", TIME_MS + each, json.dumps({"n": each, "text": text}))
        for each in range(number)
    ]


def sent(
    receiver: SiemReceiver, framing: str, events: Sequence[Event], headers: Path
) -> tuple[int, list[float]]:
    """How many were acknowledged, and for how long it was waited."""
    waits = list[float]()
    scheme = {"splunk": "Splunk", "sentinel": "Bearer", "elastic": "ApiKey", "otlp": "Bearer"}[framing]
    headers.write_text(f"Authorization: {scheme} {receiver.token}\n", encoding="utf-8")
    return Receiver(receiver.url, framing, str(headers), waits.append).send(events), waits


def test_splunk_gets_batches_again_when_it_is_busy(tmp_path: Path) -> None:
    events = some_events(2 * MAX_EVENTS + 3)
    with listening(Splunk("t0ken", answers=[503, 503]), Splunk.PATH) as splunk:
        number, waits = sent(splunk, "splunk", events, tmp_path / "headers")

    assert number == len(events)
    assert splunk.requests == [MAX_EVENTS, MAX_EVENTS, 3]
    assert [each["event"]["n"] for each in splunk.documents.values()] == list(range(len(events)))
    assert splunk.documents["1"]["time"] == 1_795_435_200.124
    assert splunk.documents["1"]["sourcetype"] == "penstock:audit"
    assert 0.75 <= waits[0] <= 1 < 1.5 <= waits[1] <= 2
    assert len(waits) == 2


def test_sentinel_gets_rows_of_a_megabyte_at_most_and_says_when_it_has_time(tmp_path: Path) -> None:
    events = some_events(30, size=60_000)
    with listening(Sentinel("t", answers=[429], retry_after="7"), Sentinel.PATH) as sentinel:
        number, waits = sent(sentinel, "sentinel", events, tmp_path / "headers")

    assert (number, waits) == (30, [7.0])
    assert sum(sentinel.requests) == 30
    assert max(sentinel.requests) <= MAX_BYTES // 60_000
    rows = list(sentinel.documents.values())
    assert [row["Event"]["n"] for row in rows] == list(range(30))
    assert rows[1]["TimeGenerated"] == "2026-11-23T12:00:00.124Z"


def test_a_token_that_was_renewed_in_its_file_is_used(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer old\n", encoding="utf-8")
    waits = list[float]()
    with listening(Sentinel("new"), Sentinel.PATH) as sentinel:
        receiver = Receiver(sentinel.url, "sentinel", str(headers), waits.append)
        with pytest.raises(AuditError, match=r"rejects events with status 401.*InvalidToken"):
            receiver.send(some_events(1))
        headers.write_text("Authorization: Bearer new\n", encoding="utf-8")
        assert receiver.send(some_events(1)) == 1
    assert (sentinel.requests, waits) == ([1], [0.0])


def test_elastic_has_each_event_once_however_often_it_is_sent(tmp_path: Path) -> None:
    events = some_events(3)
    with listening(Elastic("key", item_answers=[201, 429]), Elastic.PATH) as elastic:
        number, waits = sent(elastic, "elastic", events, tmp_path / "headers")
        again, _ = sent(elastic, "elastic", events, tmp_path / "headers")

    assert (number, again, len(waits)) == (3, 3, 1)
    assert elastic.requests == [3, 3, 3]
    assert sorted(elastic.documents) == [event.uid for event in events]


def test_an_event_that_elastic_cannot_index_ends_the_export(tmp_path: Path) -> None:
    with (
        listening(Elastic("key", item_answers=[201, 400]), Elastic.PATH) as elastic,
        pytest.raises(AuditError, match=r'Elastic rejects 1 events, the first with 400: \{"type": "400"\}'),
    ):
        sent(elastic, "elastic", some_events(2), tmp_path / "headers")


def test_a_receiver_of_otlp_has_log_records_with_the_id_and_the_time(tmp_path: Path) -> None:
    events = some_events(MAX_EVENTS + 1)
    with listening(Otlp("t", answers=[503]), Otlp.PATH) as otlp:
        number, waits = sent(otlp, "otlp", events, tmp_path / "headers")

    assert (number, otlp.requests, len(waits)) == (len(events), [MAX_EVENTS, 1], 1)
    found = [(uid, each.time_unix_nano, each.body.string_value) for uid, each in otlp.documents.items()]
    assert found == [(each.uid, each.time_ms * 1_000_000, each.document) for each in events]


def test_log_records_that_a_receiver_of_otlp_rejects_end_the_export(tmp_path: Path) -> None:
    receiver = Otlp("t")
    receiver.rejected = 2
    with (
        listening(receiver, Otlp.PATH) as otlp,
        pytest.raises(AuditError, match="the receiver rejects 2 log records: too old"),
    ):
        sent(otlp, "otlp", some_events(3), tmp_path / "headers")


def test_a_lost_connection_is_opened_again(tmp_path: Path) -> None:
    with listening(Splunk("t", answers=[None]), Splunk.PATH) as splunk:
        assert sent(splunk, "splunk", some_events(1), tmp_path / "headers")[0] == 1


def test_the_export_ends_if_the_receiver_stays_away(tmp_path: Path) -> None:
    with (
        listening(Splunk("t", answers=[503] * ATTEMPTS), Splunk.PATH) as splunk,
        pytest.raises(AuditError, match=r"after 8 attempts \(status 503\); the next export continues"),
    ):
        sent(splunk, "splunk", some_events(1), tmp_path / "headers")
    assert splunk.documents == {}


@pytest.mark.parametrize(
    ("url", "text", "why"),
    [
        ("ftp://a/b", "A: b", "is not a URL of http or https"),
        ("http://a/b", "Authorization", "a line is not of the form Name: value"),
        ("http://a/b", None, "No such file"),
    ],
)
def test_a_wrong_url_or_file_of_headers_is_said_at_once(
    url: str, text: str | None, why: str, tmp_path: Path
) -> None:
    headers = tmp_path / "headers"
    if text is not None:
        headers.write_text(text, encoding="utf-8")
    with pytest.raises(AuditError, match=why):
        Receiver(url, "splunk", str(headers), list[float]().append)
