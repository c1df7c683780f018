"""One audit record as a line: CloudEvents around, every key there, and never too large for its topic."""

import json
from typing import Any

import pytest

from proxy.audit.chain import sealed
from proxy.audit.record import DATA_FIELDS, MAX_TEXT_CHARACTERS, AuditEvent, Author, Encoder
from proxy.session.requests.forwarding import MAX_BYTES
from proxy.wire.error_codes import ErrorCode

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
NOON_MS = 1_795_348_800_123


def line_of(event: AuditEvent, sequence: int = 0) -> bytes:
    return sealed(Encoder(AUTHOR).body(event, sequence, NOON_MS), "c" * 64)


def data_of(event: AuditEvent) -> Any:
    return json.loads(line_of(event))["data"]


@pytest.mark.spec("D2")
def test_a_record_is_one_line_of_cloudevents() -> None:
    line = line_of(AuditEvent(event="authentication", principal="User:alice"), 7)

    assert b"\n" not in line
    record = json.loads(line)
    assert (record["specversion"], record["type"]) == ("1.0", "io.penstock.authentication")
    assert (record["id"], record["source"]) == ("proxy-1/cafe/7", "penstock://proxy/proxy-1")
    assert (record["subject"], record["dataschema"]) == ("User:alice", "penstock:audit:2")
    assert record["time"] == "2026-11-22T12:00:00.123Z"
    assert AUTHOR.key == b"proxy-1/cafe"


@pytest.mark.spec("D2")
def test_every_key_is_there_in_its_order_and_null_where_it_does_not_apply() -> None:
    data = data_of(AuditEvent(event="stopped"))

    assert tuple(data) == DATA_FIELDS
    told = {name for name, value in data.items() if value is not None}
    assert told == {"schema_version", "role", "proxy_id", "boot_id", "sequence", "time_ms", "event"}


@pytest.mark.spec("D2")
def test_a_value_of_each_type_is_written_as_json_has_it() -> None:
    event = AuditEvent(
        event="throttled",
        granted=False,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        count=0,
        quota_limit=0.5,
        settings={"super.users": 'User:"a"', "ü": "\n"},
    )

    data = data_of(event)

    assert {
        name: value for name, value in data.items() if name not in DATA_FIELDS[:6] and value is not None
    } == {
        "event": "throttled",
        "granted": False,
        "error_code": 29,
        "count": 0,
        "quota_limit": 0.5,
        "settings": {"super.users": 'User:"a"', "ü": "\n"},
    }


@pytest.mark.spec("D2")
def test_an_author_of_any_name_is_told_as_it_is() -> None:
    author = Author(role="controller", proxy_id='c"\\ü', boot_id="b")

    record = json.loads(sealed(Encoder(author).body(AuditEvent(event="started"), 3, NOON_MS), ""))

    assert (record["id"], record["source"]) == ('c"\\ü/b/3', 'penstock://controller/c"\\ü')
    assert (record["data"]["role"], record["data"]["proxy_id"]) == ("controller", 'c"\\ü')


@pytest.mark.spec("D3")
def test_a_name_of_megabytes_is_cut_so_that_the_topic_takes_the_record() -> None:
    long = "\U0001f511" * 300_000
    event = AuditEvent(event="authorization", resource_name=long, client_id=long, principal=long)

    line = line_of(event)

    assert len(line) < 1_000_000
    name = json.loads(line)["data"]["resource_name"]
    assert (len(name), name[-1]) == (MAX_TEXT_CHARACTERS, "…")


@pytest.mark.spec("D2")
@pytest.mark.parametrize("text", ["", "ü", "\n\r\0", '"\\', "\ud800", "x" * MAX_TEXT_CHARACTERS])
def test_any_text_survives_the_way_through_json(text: str) -> None:
    assert data_of(AuditEvent(event="authorization", resource_name=text))["resource_name"] == text


@pytest.mark.spec("D3")
def test_no_client_can_make_a_record_that_a_topic_of_kafkas_defaults_refuses() -> None:
    """Whatever it puts into what it may choose: control characters are the longest in JSON."""
    worst = "\u0001" * 40_000
    event = AuditEvent(
        event="forwarded",
        principal=worst,
        forwarding_principal=worst,
        client_id=worst,
        resource_name=worst,
        quota_id=worst,
        entity_path=worst,
        message=worst,
        changes=[["x" * (MAX_BYTES - 6)]],
    )

    body = Encoder(AUTHOR).body(event, 1, 1)

    assert MAX_BYTES < len(body) < 1_000_000
