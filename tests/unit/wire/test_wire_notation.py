"""The notation of the schema tables: written, read, and imported from Kafka's JSON."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from proxy.wire import catalog
from proxy.wire.notation import parse_message, split_messages
from tests.support.import_schemas import STUB_FILE, format_message, main, message, stub_text

pytestmark = pytest.mark.tooling

# Not one of Kafka's: every property that the import knows is in it.
DEFINITION: Any = {
    "apiKey": 500,
    "type": "request",
    "listeners": ["broker"],
    "name": "BrewRequest",
    "validVersions": "1-4",
    "flexibleVersions": "3+",
    "latestVersionUnstable": True,
    "fields": [
        {"name": "PotId", "type": "uuid", "versions": "0+", "about": "Which pot."},
        {"name": "Strength", "type": "int16", "versions": "2+", "default": "0x10", "ignorable": True},
        {"name": "IsHot", "type": "bool", "versions": "0+", "default": True},
        {"name": "Note", "type": "string", "versions": "0+", "nullableVersions": "2-3", "default": "null"},
        {"name": "Label", "type": "string", "versions": "0+", "flexibleVersions": "none"},
        {
            "name": "Cups",
            "type": "[]Cup",
            "versions": "0+",
            "fields": [
                {"name": "Number", "type": "int32", "versions": "0+", "mapKey": True},
                {"name": "Addition", "type": "Addition", "versions": "4+", "nullableVersions": "4+"},
            ],
        },
        {"name": "Extra", "type": "[]Addition", "versions": "3+", "taggedVersions": "3+", "tag": 0},
        {
            "name": "Grams",
            "type": "float64",
            "versions": "2+",
            "taggedVersions": "3+",
            "tag": 1,
            "default": 1.5,
        },
    ],
    "commonStructs": [
        {
            "name": "Addition",
            "versions": "3+",
            "fields": [{"name": "Milk", "type": "bytes", "versions": "3+", "zeroCopy": True}],
        }
    ],
}

TABLE = """\
request BrewRequest  key 500  versions 1-4  flexible 3+  unstable
  PotId uuid
  Strength int16 versions 2+ default 16 ignorable
  IsHot bool default true
  Note string nullable 2-3 default null
  Label string inflexible
  Cups []Cup
    Number int32
    Addition Addition versions 4+ nullable 4+
  Extra []Addition versions 3+ tag 0
  Grams float64 versions 2+ tag 1 3+ default 1.5
  struct Addition
    Milk bytes versions 3+
"""


def jar_of(folder: Path, *definitions: dict[str, Any]) -> Path:
    jar = folder / "kafka-clients.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for definition in definitions:
            text = "// A comment, as Kafka's have.\n" + json.dumps(definition, indent=2)
            archive.writestr(f"common/message/{definition['name']}.json", text)
        archive.writestr("common/message/Other.class", b"")
    return jar


def test_a_definition_of_kafkas_becomes_a_table() -> None:
    assert format_message(message(DEFINITION)) == TABLE


def test_a_table_is_read_back_as_what_was_written() -> None:
    assert parse_message(TABLE.splitlines()) == message(DEFINITION)


@pytest.mark.parametrize("name", catalog.names())
def test_the_tables_of_kafka_are_in_the_form_that_the_tool_writes(name: str) -> None:
    schema = catalog.by_name(name)

    assert parse_message(format_message(schema).splitlines()) == schema


def test_jars_are_read_into_one_table_per_kind_without_dead_messages(tmp_path: Path) -> None:
    dead = {"type": "response", "name": "GoneResponse", "apiKey": 501, "validVersions": "none"}

    assert main([str(jar_of(tmp_path, DEFINITION, dead)), "--into", str(tmp_path)]) == 0

    tables = {path.name: path.read_text() for path in tmp_path.glob("schemas/*.schema")}
    assert tables.keys() == {"requests.schema", "responses.schema", "data.schema", "metadata.schema"}
    assert ["\n".join(lines) + "\n" for lines in split_messages(tables["requests.schema"])] == [TABLE]
    assert list(split_messages(tables["responses.schema"])) == []
    assert (tmp_path / STUB_FILE).read_text() == stub_text([message(DEFINITION)])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"brewers": 2}, "BrewRequest has properties this tool does not know: brewers"),
        (
            {"fields": [{"name": "A", "type": "int8", "versions": "0+", "sugar": 1}]},
            "A has properties .*: sugar",
        ),
        (
            {"fields": [{"name": "A", "type": "string", "versions": "0+", "default": "x"}]},
            "no default but null",
        ),
        (
            {
                "fields": [
                    {
                        "name": "A",
                        "type": "Addition",
                        "versions": "3+",
                        "nullableVersions": "3+",
                        "taggedVersions": "3+",
                        "tag": 0,
                    }
                ]
            },
            "A is a tagged struct that may be null",
        ),
        ({"fields": [{"name": "A", "type": "int128", "versions": "0+"}]}, "A has the unknown type int128"),
    ],
)
def test_what_the_tool_does_not_know_stops_it(change: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        message(DEFINITION | change)
