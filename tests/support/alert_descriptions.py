"""The descriptions of the alerts, made of the first sentences of their sections in docs/alerts.md.

    .venv/bin/python -m tests.support.alert_descriptions

writes them into proxy/examples/prometheus/rules.yaml. A test compares.
"""

import re
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "proxy" / "examples" / "prometheus" / "rules.yaml"
MAX_CHARACTERS = 300

_SECTION = re.compile(r"^## (\w+)\n\n(.+?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_DESCRIPTION = re.compile(r"^ +description: >-\n(?: {12}.*\n)+", re.MULTILINE)
_RUNBOOK = re.compile(r"^( +)runbook: docs/alerts\.md#(\w+)\n", re.MULTILINE)


def descriptions(page: str) -> dict[str, str]:
    """The name of each alert in lower case -> as many sentences as fit, at least one, without links."""
    return {name.lower(): _beginning(paragraph) for name, paragraph in _SECTION.findall(page)}


def _beginning(paragraph: str) -> str:
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split())).replace("`", "")
    sentences = re.split(r"(?<=[.?!]) (?=[A-Z/])", text)
    kept = sentences[0]
    for sentence in sentences[1:]:
        # One without a full stop leads to a list.
        if len(kept) + len(sentence) >= MAX_CHARACTERS or not sentence.endswith("."):
            break
        kept += f" {sentence}"
    return kept.rstrip(":")


def with_descriptions(rules: str, page: str) -> str:
    """The rules, with a description above each runbook."""
    known = descriptions(page)

    def described(found: re.Match[str]) -> str:
        text = fill(known[found[2]], 120, initial_indent=" " * 12, subsequent_indent=" " * 12)
        return f"{found[1]}description: >-\n{text}\n{found[0]}"

    return _RUNBOOK.sub(described, _DESCRIPTION.sub("", rules))


def made() -> str:
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    return with_descriptions(RULES.read_text(encoding="utf-8"), page)


if __name__ == "__main__":
    RULES.write_text(made(), encoding="utf-8")
