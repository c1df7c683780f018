"""Audit events: each has a constructor with its fields, a class, and its place in the documentation."""

import re
from pathlib import Path

import pytest

from proxy.audit import events
from proxy.audit.events import class_of
from proxy.audit.record import EVENT_FIELDS, AuditEvent, Encoder
from spark_audit import schema as S
from tests.support.type_errors import ROOT, type_errors
from tests.unit.audit.test_audit_record import AUTHOR

PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.spec("D2")


def test_every_event_has_its_class_and_its_place_on_the_page() -> None:
    listed = re.search(r"\n## Events\n(.*?)\n## ", PAGE, re.DOTALL)
    assert listed is not None
    on_the_page = {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", listed[1], re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }

    assert set(S.EVENTS) == set(events.EVENTS) == on_the_page


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (AuditEvent(event="authorization", granted=False), "denial"),
        (AuditEvent(event="authorization", granted=True), "admin"),
        (AuditEvent(event="forwarded"), "admin"),
        (AuditEvent(event="throttled"), "summary"),
        (AuditEvent(event="session_expired"), "authentication"),
        (AuditEvent(event="of a later version"), "admin"),
    ],
)
def test_what_nobody_has_classed_is_kept_like_an_admins(event: AuditEvent, expected: str) -> None:
    assert class_of(event) == expected


@pytest.mark.parametrize("name", events.FIELDS_OF)
def test_the_constructor_of_an_event_makes_the_same_line_as_the_record_itself(name: str) -> None:
    stated = {field: f"the {field}" for field in events.FIELDS_OF[name]}

    made = getattr(events, name)(**stated)

    record = AuditEvent(event=name)
    for field, value in stated.items():
        setattr(record, field, value)
    assert made == record
    assert type(made) is AuditEvent
    assert Encoder(AUTHOR).body(made, 1, 2) == Encoder(AUTHOR).body(record, 1, 2)


def test_fields_that_may_be_left_out_are_null() -> None:
    made = events.request_refused(message="malformed")

    stated = {"event": "request_refused", "message": "malformed"}
    assert {field: getattr(made, field) for field in EVENT_FIELDS} == dict.fromkeys(EVENT_FIELDS) | stated


def test_an_event_with_a_field_that_no_record_has_cannot_be_declared() -> None:
    def tampered(*, resource: str) -> None: ...

    with pytest.raises(TypeError, match="tampered: an audit record has no field resource"):
        events._event("admin")(tampered)


LINES = {
    "events.high_water(count=3)": "",
    "events.high_water(count='3')": 'has incompatible type "str"; expected "int"',
    "events.high_water()": 'Missing named argument "count"',
    "events.stopped(count=3)": 'Unexpected keyword argument "count"',
    "events.quota_changed(entity_path='', message='', rule=None)": 'Unexpected keyword argument "rule"',
    "events.authorisation()": 'Module has no attribute "authorisation"',
}


@pytest.mark.slow
def test_a_field_that_an_event_does_not_have_is_an_error_of_mypy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    errors = type_errors(tmp_path, "from proxy.audit import events", list(LINES))

    for error, expected in zip(errors, LINES.values(), strict=True):
        assert (expected in error) if expected else error == ""
