"""The audit record as the proxy writes it is the audit record as Spark reads it."""

import dataclasses
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import types as T

from proxy.audit import record
from proxy.audit.events import EVENTS
from spark_audit import schema as S
from tests.contract.audit_rules import REQUIRED

SPARK_TYPES: dict[object, T.DataType] = {
    str: T.StringType(),
    bool: T.BooleanType(),
    float: T.DoubleType(),
    Mapping[str, str]: T.MapType(T.StringType(), T.StringType()),
    Sequence[Mapping[str, object]]: T.ArrayType(S.OBJECT),
    Sequence[Sequence[str | None]]: T.ArrayType(T.ArrayType(T.StringType())),
    Sequence[str]: T.ArrayType(T.StringType()),
}
WORDS = {
    "string": "text",
    "bigint": "long",
    "map<string,string>": "map",
    "array<array<string>>": "lists",
    "array<string>": "texts",
    T.ArrayType(S.OBJECT).simpleString(): "objects",
    **{name: name for name in ("int", "double", "boolean")},
}
"""Spark's name of a type -> the word of the page."""
PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
INTEGERS = (T.IntegerType(), T.LongType())
# Numbers of Kafka's wire format that are 32 bits wide there; every other integer is a long.
NARROW = {S.RECORD_SCHEMA_VERSION, S.API_VERSION, S.CORRELATION_ID, S.ERROR_CODE, S.ENVELOPE_ERROR_CODE}


def not_null(annotation: object) -> object:
    """`str | None` -> `str`."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    (kind,) = (part for part in typing.get_args(annotation) if part is not types.NoneType)
    return kind


@pytest.mark.spec("D2", "D4")
def test_spark_reads_every_field_that_a_process_writes_in_the_same_order() -> None:
    assert tuple(S.DATA.names) == record.DATA_FIELDS


@pytest.mark.spec("D2", "D4")
def test_each_field_has_the_type_that_the_record_declares() -> None:
    declared = {field.name: not_null(field.type) for field in dataclasses.fields(record.AuditEvent)}

    wrong = {
        name: kind
        for name, kind in declared.items()
        if kind is not int and S.DATA[name].dataType != SPARK_TYPES[kind]
    }
    assert wrong == {}


@pytest.mark.spec("D2", "D4")
def test_integers_are_longs_but_for_those_that_are_narrow_on_the_wire() -> None:
    integers = {field.name for field in S.DATA.fields if field.dataType in INTEGERS}

    assert {name for name in integers if S.DATA[name].dataType == T.IntegerType()} == NARROW


@pytest.mark.spec("D2", "D4")
def test_the_page_has_each_field_in_the_order_of_the_line_with_its_type() -> None:
    _, table = PAGE.read_text("utf-8").split("| field | type | meaning |\n|---|---|---|\n", 1)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \S", table.partition("\n\n")[0], re.MULTILINE)

    assert rows == [(field.name, WORDS[field.kind.simpleString()]) for field in S.FIELDS]


@pytest.mark.spec("D16")
def test_the_comment_of_a_column_begins_its_meaning_in_the_page() -> None:
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", PAGE.read_text("utf-8")).replace("`", "")

    wrong = [
        field.name
        for field in S.FIELDS
        if not re.search(rf"\n\| {field.name} \| \w+ \| {re.escape(field.comment)}", text)
    ]

    assert wrong == []
    assert all(field.comment for field in S.FIELDS)


@pytest.mark.spec("D2")
def test_both_sides_speak_of_the_same_version_and_event_type() -> None:
    assert (S.SCHEMA_VERSION, S.EVENT_TYPE_PREFIX) == (record.SCHEMA_VERSION, record.EVENT_TYPE_PREFIX)


@pytest.mark.spec("D1", "D2")
def test_what_each_event_has_to_tell_is_in_the_table() -> None:
    assert set(REQUIRED) == set(EVENTS)
    assert {name for names in REQUIRED.values() for name in names} <= set(record.EVENT_FIELDS)
