"""How single values look on the words."""

from typing import Any

import pytest
from pyspark.sql import Row

from spark_audit import __main__
from spark_audit import schema as S
from spark_audit.reconcile.reconciliation import ORDER
from spark_audit.report import coverage, formatting, page, plots
from tests.spark.audit_trail import DAY, NOON_MS, acl_id

pytestmark = pytest.mark.spec("D6")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, ""), (0, "0 B"), (1_023, "1,023 B"), (1_536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_bytes_are_shown_with_a_unit(count: int | None, shown: str) -> None:
    assert formatting.size(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, ""),
        (15, "15 ms"),
        (1_500, "1.5 s"),
        (90_000, "1.5 min"),
        (7_200_000, "2.0 h"),
        (7_776_000_000, "90.0 d"),
    ],
)
def test_spans_are_shown_with_a_unit(milliseconds: int | None, shown: str) -> None:
    assert formatting.span(milliseconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (1_048_576.0, "1,048,576"),
        (0.25, "0.25"),
        (7, "7"),
        (1.7976931348623157e308, "1.79769e+308"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_have_no_needless_places(value: float | None, shown: str) -> None:
    assert formatting.number(value) == shown


def test_moments_are_shown_in_utc() -> None:
    assert formatting.moment(1_795_435_200_000) == "2026-11-23 12:00:00"


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [
        (12, 10, "+20 %"),
        (5, 10, "−50 %"),
        (0, 10, "−100 %"),
        (1_001, 1_000, "±0 %"),
        (95, 10, "+850 %"),
        (123_456, 10, "×12,346"),
    ],
)
def test_a_number_is_compared_with_that_of_a_day_before(now: int, before: int, shown: str) -> None:
    assert formatting.compared(now, before) == shown
    assert formatting.compared(now, before, "22 Nov") == f"{shown} vs 22 Nov"


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [(0, 0, "same as 22 Nov"), (7, 7, "same as 22 Nov"), (7, 0, "none on 22 Nov")],
)
def test_a_comparison_without_a_share_is_told_in_words(now: int, before: int, shown: str) -> None:
    assert formatting.compared(now, before, "22 Nov") == shown
    assert formatting.compared(now, before) == shown.partition(" ")[0]


@pytest.mark.parametrize(
    ("amount", "quota_key", "shown"),
    [
        (None, "producer_byte_rate", ""),
        (1_536, "consumer_byte_rate", "1.5 KiB"),
        (2_500_000, "request_percentage", "2.5 s"),
        (1_200, "controller_mutation_rate", "1,200"),
    ],
)
def test_the_use_of_a_quota_has_its_unit(amount: int | None, quota_key: str, shown: str) -> None:
    assert formatting.used(amount, quota_key) == shown


def test_a_part_of_a_limit_is_rounded_up() -> None:
    assert [formatting.part(value) for value in (None, 0, 0.0001, 0.5, 12.345)] == [
        "",
        "0 %",
        "1 %",
        "50 %",
        "1,235 %",
    ]


def test_a_text_of_any_length_takes_little_room() -> None:
    long = "x" * 100_000

    assert formatting.visible(long) == f"{'x' * 400}… (100,000 characters)"
    assert max(len(formatting.told(long)), len(formatting.pretty({"name": long}))) < 4_100
    # A proposal is shown as a whole.
    assert formatting.lines(long) == long


def test_a_record_is_told_in_words_with_the_moments_at_which_it_is_plotted() -> None:
    waited = a_row(
        event="throttled", kind="throttled", count=4, throttle_time_ms=8_000, interval_start_ms=6_000
    )
    assert formatting.record(waited)[:4] == [10_000, 6_000, 12_000, "throttled"]

    quota = {"quota_key": "producer_byte_rate", "quota_id": "a:", "quota_limit": 1_048_576.0}
    assert formatting.record(Row(**(waited.asDict() | quota)))[-2] == (
        "4 times, producer_byte_rate of a:: 1,048,576, throttled for 8 s"
    )
    login = a_row(event="authentication", kind="login", listener="SSL", mechanism="SSL", groups=["a", "b c"])
    assert formatting.record(login)[-2] == "SSL, SSL, groups: a b c"
    # An interval that begins after its record is forged.
    denied = {"granted": False, "rule": "default.deny", "error_code": 29, "interval_start_ms": 11_000}
    place = {"resource_type": "GROUP", "principal": "User:\u202ea", "operation": "READ"}
    row = a_row(event="authorization", kind="denied", **denied, **place)
    names = ["authorization", "User:\\u202ea", "", "", "", "READ", "GROUP (any)"]
    assert formatting.record(row) == [
        *(10_000, 10_000, 10_000, "denied", *names),
        *("denied by default.deny, error 29", "proxy-1/boot-1/7"),
    ]


def a_row(**fields: Any) -> Row:
    """A row of the records that can be searched."""
    place = {"proxy_id": "proxy-1", "boot_id": "boot-1", "sequence": 7, "time_ms": 10_000}
    return Row(**(dict.fromkeys(S.DATA.names) | place | fields))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (25, "25"), (7.5, "7.5"), (1_500, "1.5k"), (20_000_000, "20M"), (339_274_017_831, "339.3G")],
)
def test_numbers_are_short_where_there_is_little_room(value: float, shown: str) -> None:
    assert formatting.short(value) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"), [(1_000, "second"), (1_800_000, "30 minutes"), (86_400_000, "day")]
)
def test_a_stretch_of_time_is_the_unit_of_an_axis(milliseconds: int, shown: str) -> None:
    assert formatting.stretch(milliseconds) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"), [(5, 5, "100 %"), (999_999, 1_000_000, "99.9 %"), (0, 5, "0 %"), (0, 0, "–")]
)
def test_a_part_is_only_all_of_it_when_it_is(part: int, whole: int, shown: str) -> None:
    assert formatting.share(part, whole) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("User:alice", "User:alice"),
        ("User:Zoë Müller, データ基盤", "User:Zoë Müller, データ基盤"),
        ("User:ali\u200bce", "User:ali\\u200bce"),
        ("User:\u202eecila", "User:\\u202eecila"),
        ("User:a\nUser:b\x00", "User:a\\nUser:b\\u0000"),
        # Cyrillic letters in a Latin word, and a word of such letters only.
        ("b\u0456lling", "b\\u0456lling"),
        ("\u0441\u043e\u0440\u0443", "\\u0441\\u043e\\u0440\\u0443"),
        ("оплата-Ελλάδα-データ", "оплата-Ελλάδα-データ"),
        # Another form of a letter, a letter in two parts, spaces, letters without a shape, a tag.
        ("\uff21dmin", "\\uff21dmin"),
        ("Zoe\u0308", "Zoe\\u0308"),
        ("a\u00a0b\u2003c", "a\\u00a0b\\u2003c"),
        ("a\u3164b\u115f", "a\\u3164b\\u115f"),
        ("a\U000e0041", "a\\U000e0041"),
        (None, ""),
    ],
)
def test_no_name_looks_like_another(name: str | None, shown: str) -> None:
    assert formatting.visible(name) == shown


def test_a_name_in_a_message_of_a_command_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Who writes the topic or a witness chooses names in findings: they could erase the lines before."""
    assert __main__._failed("process \x1b[2K\rpenstock audit: 0\nx") == 2
    __main__._say("topic \x1b]0;\u202e\nx")

    printed = capsys.readouterr()
    assert printed.err == "penstock audit: process \\u001b[2K\\u000dpenstock audit: 0\\nx\n"
    assert printed.out == "topic \\u001b]0;\\u202e\nx\n"


def test_evidence_is_escaped_and_keeps_its_lines() -> None:
    assert formatting.pretty({"a": "<b>\u202e"}) == "{\n &#34;a&#34;: &#34;&lt;b&gt;\\u202e&#34;\n}"


def a_document(*days: str, checked_days: tuple[str, ...] = (), records: int = 9) -> Any:
    found = [{"check": "gaps.hole", "severity": "high", "date": day} for day in days]
    counts = {"critical": 0, "high": len(found), "medium": 0}
    return {
        "summary": {"findings": counts, "days": list(checked_days), "records": records},
        "findings": found,
    }


def test_a_page_of_one_day_has_the_findings_of_that_day() -> None:
    of_one = coverage.of_days(a_document("2026-11-22", "2026-11-23", "2026-11-23"), ["2026-11-23"])

    assert [found["date"] for found in of_one["findings"]] == ["2026-11-23", "2026-11-23"]
    assert of_one["summary"]["findings"] == {"critical": 0, "high": 2, "medium": 0}


def test_a_day_that_was_not_reconciled_has_no_page() -> None:
    document = a_document(checked_days=("2026-11-23",))

    with pytest.raises(coverage.NotReconciled, match="are for 2026-11-23, not for 2026-11-22"):
        coverage.of_days(document, ["2026-11-22", "2026-11-23"])


@pytest.mark.parametrize(
    ("document", "on_the_page", "verdict"),
    [
        (a_document(), 9, "clean"),
        (a_document("2026-11-23"), 9, "high"),
        (a_document(records=0), 0, "empty"),
        (a_document(), 0, "empty"),
        (a_document("2026-11-23"), 0, "high"),
    ],
)
def test_nothing_that_was_not_looked_at_is_called_clean(
    document: Any, on_the_page: int, verdict: str
) -> None:
    assert coverage.verdict(document, S.SEVERITIES, on_the_page) == verdict


def test_every_family_of_checks_is_told_and_an_unknown_one_too() -> None:
    found: Any = [
        {"check": "chain.altered", "severity": "critical"},
        {"check": "news.bad", "severity": "medium"},
    ]

    summary: Any = a_document()["summary"] | {"signatures": "not verified: for a reason"}
    rows = coverage.checked(found, S.SEVERITIES, summary)
    told = {row.family: (row.findings, row.worst) for row in rows}

    assert list(told) == [*ORDER, "news"]
    assert (told["chain"], told["news"], told["gaps"]) == ((1, "critical"), (1, "medium"), (0, None))
    # A log that was not verified is not one without findings.
    assert [row.family for row in rows if not row.is_done] == ["log"]
    summary["signatures"] = "verified with 1 public keys up to transaction 7"
    assert all(row.is_done for row in coverage.checked(found, S.SEVERITIES, summary))


def test_a_table_that_was_written_since_is_named() -> None:
    document = a_document() | {"summary": {"versions": {"audit": 3, "metadata_log": 4}}}

    assert coverage.newer(document, {"audit": 5, "metadata_log": 4, "quarantine": 1}) == ["audit"]


def a_page(**tables: Any) -> str:
    """A page of one day without findings, with these tables."""
    names = ("records", "allowed", "denied", "throttled", "expired", "failed_logins", "logins", "changes")
    totals = dict.fromkeys((*names, "unknown_events", "dropped", "principals", "waited_ms"), 0)
    times = {"first_ms": NOON_MS, "last_ms": NOON_MS + 1}
    empty = ("compared", "quotas", "records", "principals", "denials", "logins", "changes", "processes")
    no_plot = plots.stacked({}, 60_000, NOON_MS, NOON_MS + 1)
    content: dict[str, Any] = {name: [] for name in (*empty, "unreadable", "kinds", "grants")}
    content |= {"totals": totals | times, "until_ms": None, "newcomers": None, "proofs": {}}
    content["plots"] = dict.fromkeys(("allowed", "denied", "throttled", "logins"), no_plot)
    document = a_document(checked_days=(DAY,))
    document["summary"] |= {"decisions": {"evaluated": 1}, "metadata_records": 1, "schema_version": 1}
    return page.fill(document, content | {"unit_of_throttling": "Seconds"} | tables, [DAY], {})


@pytest.mark.spec("A11")
def test_grants_with_an_end_say_what_became_of_them() -> None:
    acl = {"acl_principal": "User:a", "acl_operation": "READ", "acl_host": "*", "acl_id": acl_id(2)}
    right = {"resource_type": "TOPIC", "pattern_type": "LITERAL", "pattern_name": "orders"}
    request = {"by": "User:admin", "proxy_id": "controller-1", "boot_id": "boot-1", "sequence": 3}
    ends = {"until_ms": NOON_MS + 60_000, "before_ms": None, "state": "ended", "used": 10, "last_ms": NOON_MS}
    ended = acl | right | request | ends
    extended = ended | {"state": "in effect", "before_ms": NOON_MS, "used": 0, "last_ms": None, "by": None}

    shown = a_page(grants=[ended, extended, extended | {"until_ms": None}, extended | {"until_ms": 1}])

    # The number leads to the records that name the ACL, the administrator to the request.
    assert f'<a href="#records?kind=allowed&amp;q={acl_id(2)}">10</a>' in shown
    assert '<a href="#records?record=controller-1%2Fboot-1%2F3">User:admin</a>' in shown
    assert "<td>ended</td>" in shown
    for what in ("extended", "without an end now", "shortened"):
        assert f"<td>in effect, {what}: was 2026-11-23 12:00:00, unused</td>" in shown
    assert "Grants with an end" not in a_page()
