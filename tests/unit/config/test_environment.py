"""Configuration files whose values name variables of the environment, and the file that one names."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.config.document import read_document
from tests.lab.cluster.node import CHECKOUT

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


def check(*words: str, **environment: str) -> str:
    """What the command says of an invalid configuration."""
    command = (sys.executable, "-m", "proxy", "check", *words)
    variables = {**os.environ, "PYTHONPATH": str(CHECKOUT), **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr


def test_all_variables_that_are_missing_are_errors_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(CONFIG)

    said = check("-c", str(file))

    missing = "the environment has no variable ID; set it, or write ${ID:-DEFAULT}"
    assert f"{file}:1: proxy.id: {missing}\n" in said
    assert f"{file}:4: listeners[0] > bind: after ${{ comes no NAME}}; write $${{ for the characters" in said


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    file, other = tmp_path / "proxy.yaml", tmp_path / "other.yaml"
    for each in (file, other):
        each.write_text("proxy.id: [")

    assert str(file) in check(PENSTOCK_CONFIG=str(file))
    said = check("-c", str(other), PENSTOCK_CONFIG=str(file))
    assert str(other) in said
    assert str(file) not in said
