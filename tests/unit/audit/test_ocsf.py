"""Every event has its class here and in OCSF, and the documentation shows the table that the code has."""

import re
from pathlib import Path

import pytest

from proxy.audit import classes, ocsf
from proxy.audit.classes import class_of
from proxy.audit.ocsf import Ocsf, ocsf_of
from proxy.audit.record import AuditEvent
from proxy.wire.api_keys import ApiKey
from spark_audit import schema as S

PAGE = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.spec("D2")


def test_every_event_has_its_class_its_ocsf_class_and_its_place_on_the_page() -> None:
    listed = re.search(r"\n## Events\n(.*?)\n## ", PAGE, re.DOTALL)
    assert listed is not None
    on_the_page = {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", listed[1], re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }

    assert set(S.EVENTS) == set(ocsf.EVENTS) == set(classes.EVENTS) == on_the_page


def test_the_page_shows_the_table() -> None:
    rows = {
        event: Ocsf(int(uid), int(activity), name, _number(status), int(severity))
        for event, uid, activity, name, status, severity in re.findall(
            r"^\| `(\w+)` \| (\d{4}) [^|]*\| (\d+) ?([^|]*?) \| ([^|]*?) \| (\d) [^|]*\|$", PAGE, re.MULTILINE
        )
    }

    assert rows == {event: ocsf._BY_EVENT[event] for event in ocsf.EVENTS}


def test_the_page_says_where_each_field_stands() -> None:
    for event in ocsf.EVENTS:
        for name, paths in ocsf.attributes_of(event).items():
            rows = [row for row in PAGE.splitlines() if row.startswith("|") and f"`{name}`" in row]
            for path in paths:
                written = path.replace("authorizations.", "authorizations[].").replace(
                    "resources.", "resources[]."
                )
                told = written, f"`.{written.partition('].')[2]}`"
                assert any(f"`{told[0]}`" in row or told[1] in row for row in rows), (name, path)


def _number(text: str) -> int | None:
    return int(text.split()[0]) if text[0].isdigit() else None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            AuditEvent(event="forwarded_received", method="CreateAcls", error_code=0),
            Ocsf(6003, 1, "Create", 1, 1),
        ),
        (
            AuditEvent(event="forwarded_received", method="AlterUserScramCredentials", error_code=31),
            Ocsf(6003, 3, "Update", 2, 1),
        ),
        (AuditEvent(event="forwarded", method="CreateAcls", error_code=0), Ocsf(6003, 1, "Create", 1, 1)),
        (
            AuditEvent(event="authorization", method="Fetch", granted=False),
            Ocsf(6003, 2, "Read", 2, 3),
        ),
        (
            AuditEvent(event="authorization", method="OffsetCommit", granted=True),
            Ocsf(6003, 3, "Update", 0, 1),
        ),
        (
            AuditEvent(event="authorization", method="DescribeAcls", granted=True, error_code=0),
            Ocsf(6003, 2, "Read", 1, 1),
        ),
        (AuditEvent(event="authorization_summary", method="Produce"), Ocsf(6003, 1, "Create", 0, 1)),
        (AuditEvent(event="quota_changed"), Ocsf(3004, 3, "Update", 1, 1)),
        (
            AuditEvent(event="configuration_changed", settings={"outcome": "loaded"}),
            Ocsf(6002, 99, "Configuration changed", 1, 2),
        ),
        (
            AuditEvent(event="configuration_changed", settings={"outcome": "failed"}),
            Ocsf(6002, 99, "Configuration changed", 2, 2),
        ),
        (AuditEvent(event="authentication_failed"), Ocsf(3002, 1, "Logon", 2, 3)),
    ],
)
def test_method_and_outcome_tell_activity_and_status(event: AuditEvent, expected: Ocsf) -> None:
    assert ocsf_of(event) == expected


@pytest.mark.parametrize("api_key", list(ApiKey))
def test_every_api_is_some_activity(api_key: ApiKey) -> None:
    told = ocsf_of(AuditEvent(event="authorization", method=ApiKey.name_of(api_key), granted=True))

    assert told.activity_id in (1, 2, 3, 4, 99)
    assert told.activity_name


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
