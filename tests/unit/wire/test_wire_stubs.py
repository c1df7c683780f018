"""The type stubs of messages: in step with the schemas and with the classes, and read by mypy."""

import ast
from pathlib import Path

import pytest

from proxy.wire import catalog
from proxy.wire.message import Message, classes_of
from tests.support.import_schemas import STUB_FILE, stub_text
from tests.support.type_errors import ROOT, type_errors

pytestmark = pytest.mark.tooling

STUBS = ROOT / "proxy" / "wire" / STUB_FILE


def test_the_stubs_are_those_of_the_schema_tables() -> None:
    assert STUBS.read_text() == stub_text(catalog.by_name(name) for name in catalog.names())


def parameters(stub: ast.ClassDef) -> set[str]:
    (constructor,) = (part for part in stub.body if isinstance(part, ast.FunctionDef))
    return {argument.arg for argument in constructor.args.kwonlyargs}


def attributes(stub: ast.ClassDef) -> set[str]:
    annotated = [part for part in stub.body if isinstance(part, ast.AnnAssign)]
    return {
        part.target.id
        for part in annotated
        if isinstance(part.target, ast.Name) and "ClassVar" not in ast.unparse(part.annotation)
    }


def test_every_class_of_the_stubs_has_the_fields_and_structs_of_the_class_at_run_time() -> None:
    stubs = {part.name: part for part in ast.parse(STUBS.read_text()).body if isinstance(part, ast.ClassDef)}
    assert stubs.keys() == set(catalog.names())
    for name, stub in stubs.items():
        nested = {part.name: part for part in stub.body if isinstance(part, ast.ClassDef)}
        classes: dict[str, type[Message]] = classes_of(name)
        assert classes.keys() == {name, *nested}
        for struct, part in (nested | {name: stub}).items():
            fields = set(classes[struct].__slots__)
            assert (attributes(part), parameters(part)) == (fields, fields | {"unknown_tags"}), struct


OPENING = """
from proxy.wire import types

request = types.CreateTopicsRequest(topics=[], timeout_ms=1_000)
topic = types.CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=3)
request.topics = [topic]
"""
LINES = {
    "request.validate_only = topic.configs == []": "",
    "request.topcis = []": '"CreateTopicsRequest" has no attribute "topcis"; maybe "topics"?',
    "types.CreateTopicsReqest()": 'Module has no attribute "CreateTopicsReqest"',
    "types.CreateTopicsRequest(topcis=[])": 'Unexpected keyword argument "topcis" for "CreateTopicsRequest"',
    "topic.num_partitions = '3'": 'expression has type "str", variable has type "int"',
    "topic.name.encode(topic.replication_factor)": 'has incompatible type "int"; expected "str"',
    "request.CreatableTopc()": '"CreateTopicsRequest" has no attribute "CreatableTopc"',
}


@pytest.mark.slow
def test_a_misspelt_or_mistyped_field_is_an_error_of_mypy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    for error, expected in zip(type_errors(tmp_path, OPENING, list(LINES)), LINES.values(), strict=True):
        assert (expected in error) if expected else error == ""
