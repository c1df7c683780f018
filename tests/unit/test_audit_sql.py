"""`penstock audit sql` without Spark: what it prints. tests/spark/test_sql.py runs it."""

import re
from pathlib import Path

import pytest

from spark_audit import __main__ as command_line
from spark_audit import schema as S
from spark_audit.tables.names import is_name
from spark_audit.views import statements

pytestmark = pytest.mark.spec("D16")

SQL = "\n".join(statements("/t", "/out", None))


def test_it_prints_each_view_and_reads_the_tables_of_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    code = command_line.main(["sql", "--tables", "s3a://audit/t/", "--findings", "/out"])

    printed = capsys.readouterr().out
    names = re.findall(r"CREATE OR REPLACE \w+ (\S+?)[\n(]", printed)
    views = ("records", "admin_changes", "denials", "logins", "sessions", "quota_use", "policy", "findings")
    assert (code, names) == (0, [f"penstock.{name}" for name in (*views, "policy_at")])
    assert set(re.findall(r"delta\.`(\S+)`", printed)) == {
        *("s3a://audit/t/audit", "s3a://audit/t/metadata_log", "/out/findings")
    }


def test_views_of_tables_by_name_are_beside_them_or_where_the_user_says() -> None:
    beside, elsewhere = ("\n".join(statements("lake.trail", None, schema)) for schema in (None, "views"))

    assert "VIEW lake.trail.denials" in beside
    assert "VIEW views.denials" in elsewhere
    assert "FROM lake.trail.audit" in elsewhere
    assert "findings" not in beside.replace("of findings", "")


def test_a_relative_directory_is_made_absolute() -> None:
    assert f"delta.`{Path.cwd()}/tables/audit`" in "\n".join(statements("tables", None, None))


@pytest.mark.parametrize("text", ["a.b", "spark_catalog.penstock", "a.b.c"])
def test_names_with_dots_are_names(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize("text", ["tables", "./a.b", "a.b/c", "s3a://a.b/c", "/a.b", "a.b-c", "a..b"])
def test_anything_else_is_a_path(text: str) -> None:
    assert not is_name(text)


def test_views_name_events_that_there_are() -> None:
    tested = re.findall(r"event (?:=|IN|LIKE) [(]?((?:'\w+%?'(?:, )?)+)", SQL)
    named = [event for events in tested for event in re.findall(r"'(\w+)%?'", events)]

    assert len(named) > 10
    assert [event for event in named if not any(known.startswith(event) for known in S.EVENTS)] == []
