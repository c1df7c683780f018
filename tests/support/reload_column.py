"""The column "change" of docs/configuration.md, made from proxy.config.effects.

    .venv/bin/python -m tests.support.reload_column

writes it anew: after a key was added or its effect has changed, or after a merge. A test of the documentation
compares the page with what this would write.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from forwarding.config import ControllerConfig
from proxy.config import ProxyConfig
from proxy.config.effects import CONTROLLER, PROXY, Effect, Effects
from proxy.config.parts import Part

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
HEADER = "| key | default | change | meaning |"
SECTIONS = {
    "proxy.yaml": "",
    "A listener": "listeners.",
    "Tokens": "listeners.",
    "Logins that fail": "",
    "A peer": "upstream.",
    "The authorizer": "authorizer.",
    "Delegation tokens": "",
    "Quotas": "quota.",
    "Audit": "",
    "Limits": "limits.",
    "The HTTP port": "",
    "Traces": "",
}
"""Heading of each section about keys of a proxy -> what their paths begin with."""
CONTROLLERS = re.compile(r"(?<=<!-- live at a controller -->).*?(?=<!-- end -->)", re.DOTALL)


def paths(part: type[Part], fields: str = "", keys: str = "") -> Iterator[tuple[str, str]]:
    """Path of each key by fields, as the table has it, and as the file has it."""
    for name, field in part.model_fields.items():
        inner = list(_parts(field.annotation)) if name != "server_names" else []
        at, key = f"{fields}{name}", f"{keys}{field.alias or name}"
        if inner:
            yield from paths(inner[0], f"{at}.", f"{key}.")
        else:
            yield at, key


def with_column(text: str) -> str:
    """The page, with the column as it has to be."""
    section, lines = "", []
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        lines.append(_row(line, section) if line.startswith("|") and _is_of_keys(section) else line)
    live = [f"`{key}`" for at, key in paths(ControllerConfig) if CONTROLLER[at] is not Effect.RESTART]
    page = "\n".join(lines) + "\n"
    return CONTROLLERS.sub(lambda _: "\n" + _wrapped(live) + "\n", page)


def _is_of_keys(section: str) -> bool:
    return section in SECTIONS or section == "controller.yaml"


def _row(line: str, section: str) -> str:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if cells[0] == "key":
        return HEADER
    if set(cells[0]) == {"-"}:
        return "|---|---|---|---|"
    row = " | ".join((cells[0], cells[1], _effect(cells[0], section), cells[-1]))
    return re.sub(r"\| +(?=\|)", "| ", f"| {row} |")


def _effect(cell: str, section: str) -> str:
    """Of the keys in a first cell; empty for one that stands for others."""
    found = {_of_key(key, section) for key in re.findall(r"`([^`]+)`", cell)}
    return str(found.pop()) if len(found) == 1 and None not in found else ""


def _of_key(key: str, section: str) -> Effect | None:
    if key == "listeners" and section == "proxy.yaml":
        return PROXY["listeners.name"]
    if section == "controller.yaml":
        return _found(key, "", ControllerConfig, CONTROLLER)
    of_proxy = _found(key, SECTIONS[section], ProxyConfig, PROXY)
    # The controller's alone, among keys that both have.
    return of_proxy or _found(key, SECTIONS[section], ControllerConfig, CONTROLLER)


def _found(key: str, prefix: str, part: type[Part], effects: Effects) -> Effect | None:
    by_key: dict[str, Effect] = {}
    for at, path in paths(part):
        # By the older spelling too, which repeats the name of the part.
        by_key[at.replace("_", ".")] = by_key[path] = effects[at]
    exact = by_key.get(prefix + key) or by_key.get(key)
    # The page may name a key without its part.
    ends = [effect for path, effect in by_key.items() if not prefix and path.split(".", 1)[-1] == key]
    return exact or (ends[0] if ends else None)


def _parts(annotation: object) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _wrapped(words: list[str]) -> str:
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) > 130:
            lines.append(line.rstrip())
            line = ""
        line += f"{word}, "
    return "\n".join([*lines, line.removesuffix(", ") + "."])


if __name__ == "__main__":
    PAGE.write_text(with_column(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
