"""One audit record as a line: CloudEvents around, every key there, and never too large for its topic."""

import json

import pytest

from proxy.audit.record import DATA_FIELDS, MAX_TEXT_CHARACTERS, AuditEvent, Author, encode

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
NOON_MS = 1_795_348_800_123


@pytest.mark.spec("D2")
def test_a_record_is_one_line_of_cloudevents() -> None:
    line = encode(AuditEvent(event="authentication", principal="User:alice"), AUTHOR, 7, NOON_MS)

    assert b"\n" not in line
    record = json.loads(line)
    assert (record["specversion"], record["type"]) == ("1.0", "io.penstock.authentication")
    assert (record["id"], record["source"]) == ("proxy-1/cafe/7", "penstock://proxy/proxy-1")
    assert (record["subject"], record["dataschema"]) == ("User:alice", "penstock:audit:1")
    assert record["time"] == "2026-11-22T12:00:00.123Z"
    assert AUTHOR.key == b"proxy-1/cafe"


@pytest.mark.spec("D2")
def test_every_key_is_there_in_its_order_and_null_where_it_does_not_apply() -> None:
    data = json.loads(encode(AuditEvent(event="stopped"), AUTHOR, 0, NOON_MS))["data"]

    assert tuple(data) == DATA_FIELDS
    told = {name for name, value in data.items() if value is not None}
    assert told == {"schema_version", "role", "proxy_id", "boot_id", "sequence", "time_ms", "event"}


@pytest.mark.spec("D3")
def test_a_name_of_megabytes_is_cut_so_that_the_topic_takes_the_record() -> None:
    long = "\U0001f511" * 300_000
    event = AuditEvent(event="authorization", resource_name=long, client_id=long, principal=long)

    line = encode(event, AUTHOR, 0, NOON_MS)

    assert len(line) < 1_000_000
    name = json.loads(line)["data"]["resource_name"]
    assert (len(name), name[-1]) == (MAX_TEXT_CHARACTERS, "…")


@pytest.mark.spec("D2")
@pytest.mark.parametrize("text", ["", "ü", "\n\r\0", '"\\', "\ud800", "x" * MAX_TEXT_CHARACTERS])
def test_any_text_survives_the_way_through_json(text: str) -> None:
    line = encode(AuditEvent(event="authorization", resource_name=text), AUTHOR, 0, NOON_MS)

    assert json.loads(line)["data"]["resource_name"] == text
