"""Configuration files whose values name variables of the environment, and the file that one names."""

import os
from pathlib import Path
from typing import Any

import pytest

from proxy.__main__ import main
from proxy.config.document import read_document

pytestmark = pytest.mark.spec("O2")

ENVIRONMENT = {"PORT": "9092", "NAME": "kafka-1", "EMPTY": "", "TRICK": "a: [1, 2", "MORE": "${NAME}"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${PORT}", 9092),
        ("'${PORT}'", "9092"),
        ("${NAME}:${PORT}", "kafka-1:9092"),
        ("${MISSING:-7}", 7),
        ("${EMPTY:-none}", "none"),
        ("${EMPTY}", None),
        ("${PORT:-1}", 9092),
        ("${MISSING:-}", None),
        ("'$${NAME}'", "${NAME}"),
        ("RULE:^CN=(.*?),.*$/$1/L", "RULE:^CN=(.*?),.*$/$1/L"),
        ("${TRICK}", "a: [1, 2"),  # A value is never read as YAML.
        ("${MORE}", "${NAME}"),  # Nor replaced again.
        ("['${PORT}', {b: '${NAME}'}]", ["9092", {"b": "kafka-1"}]),
        ("\n  - ${PORT}\n  - b: ${NAME}", [9092, {"b": "kafka-1"}]),
        ("&x ${PORT}", 9092),
    ],
)
def test_a_variable_stands_for_its_value(text: str, value: Any) -> None:
    document = read_document(f"a: {text}\n".encode(), ENVIRONMENT)

    assert document.values == {"a": value}
    assert document.not_set == ()


def test_keys_and_files_without_an_environment_stay_as_they_are() -> None:
    assert read_document(b"'${NAME}': 1", ENVIRONMENT).values == {"${NAME}": 1}
    assert read_document(b"a: ${NAME}").values == {"a": "${NAME}"}


CONFIG = """proxy.id: ${ID}
listeners:
  - name: SASL
    bind: 127.0.0.1:${PORT_OF_PENSTOCK
"""


def test_all_variables_that_are_missing_are_errors_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(CONFIG)

    assert main(["check", "-c", str(file)]) != 0
    said = capsys.readouterr().err
    assert (
        f"{file}:1: proxy.id: the environment has no variable ID; set it, or write ${{ID:-DEFAULT}}\n" in said
    )
    assert f"{file}:4: listeners[0] > bind: after ${{ comes no NAME}}; write $${{ for the characters" in said


def test_the_environment_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, other = tmp_path / "proxy.yaml", tmp_path / "other.yaml"
    for each in (file, other):
        each.write_text("proxy.id: [")
    monkeypatch.setitem(os.environ, "PENSTOCK_CONFIG", str(file))

    assert main(["check"]) != 0
    assert str(file) in capsys.readouterr().err
    assert main(["check", "-c", str(other)]) != 0
    said = capsys.readouterr().err
    assert str(other) in said
    assert str(file) not in said
