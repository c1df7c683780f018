"""How single values look on the page."""

import pytest

from spark_audit.report import page

pytestmark = pytest.mark.spec("D6")


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, ""), (0, "0 B"), (1_023, "1,023 B"), (1_536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")],
)
def test_bytes_are_shown_with_a_unit(count: int | None, shown: str) -> None:
    assert page.size(count) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(None, ""), (15, "15 ms"), (1_500, "1.5 s"), (90_000, "1.5 min"), (7_200_000, "2.0 h")],
)
def test_spans_are_shown_with_a_unit(milliseconds: int | None, shown: str) -> None:
    assert page.span(milliseconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (1_048_576.0, "1,048,576"), (0.25, "0.25"), (7, "7")]
)
def test_numbers_have_no_needless_places(value: float | None, shown: str) -> None:
    assert page.number(value) == shown


def test_moments_are_shown_in_utc() -> None:
    assert page.moment(1_795_435_200_000) == "2026-11-23 12:00:00"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            '{"id":"x","permission_type":"DENY","principal":"User:a","host":"*","operation":"READ",'
            '"resource_type":"TOPIC","pattern_type":"PREFIXED","resource_name":"pay"}',
            "DENY User:a from * READ TOPIC PREFIXED pay",
        ),
        (
            '{"entity":{"user":"a","client-id":null},"key":"producer_byte_rate","value":1.5,"remove":false}',
            "user a, client-id <default>: producer_byte_rate 1.5",
        ),
        (
            '{"entity":{"ip":null},"key":"connection_creation_rate","value":0,"remove":true}',
            "ip <default>: connection_creation_rate removed",
        ),
        ('{"name":"a","mechanism":"SCRAM-SHA-256"}', "user a: SCRAM-SHA-256"),
        ("{}", ""),
    ],
)
def test_a_change_is_told_in_one_line(body: str, shown: str) -> None:
    assert page.change(body) == shown
