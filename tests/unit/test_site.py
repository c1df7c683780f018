"""mkdocs.yml: each page has its place, users' pages apart from developers'."""

import re

import pytest

from tests.lab.cluster.node import CHECKOUT

pytestmark = pytest.mark.spec("O16")


def test_the_site_lists_each_page_once() -> None:
    nav = (CHECKOUT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"(\S+\.md)$", nav, re.MULTILINE)
    pages = [path for part in ("docs", "docs/dev") for path in (CHECKOUT / part).glob("*.md")]

    assert sorted(listed) == sorted(
        [
            *(str(page.relative_to(CHECKOUT)) for page in pages),
            *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/decisions/README.md"),
        ]
    )
    users, _, developers = nav.partition("- Developers:")
    assert "docs/dev/" not in users
    assert all(page in developers for page in ("docs/spec.md", "docs/dev/flow.md"))
