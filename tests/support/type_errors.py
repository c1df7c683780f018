"""What mypy says of a few lines of code, each in a module of its own behind the same opening lines."""

import re
from collections.abc import Sequence
from pathlib import Path

from mypy import api

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ("--strict", "--follow-imports=silent", "--config-file=")


def type_errors(directory: Path, opening: str, lines: Sequence[str]) -> list[str]:
    """The error of each line, empty where there is none. The working directory must be the checkout.

    One run for all of them, as most of its time goes to the standard library.
    """
    paths = [directory / f"line_{number}.py" for number in range(len(lines))]
    for path, line in zip(paths, lines, strict=True):
        path.write_text(f"{opening}\n{line}\n")
    cache = directory / "cache"
    report, complaints, _ = api.run([*OPTIONS, f"--cache-dir={cache}", *map(str, paths)])
    assert complaints == ""
    errors = [""] * len(lines)
    for number, error in re.findall(r"line_(\d+)\.py:\d+: error: (.*)", report):
        errors[int(number)] = error
    return errors
