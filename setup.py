"""Installs the documentation, without links to files that are not installed; pyproject.toml has the rest.

In a checkout the pages link to sources, tests and files of deploy/. In share/doc/penstock these would lead
nowhere, so only the text of such a link is left.
"""

import os
import re
from pathlib import Path

from setuptools import setup

from distutils.command.install_data import install_data  # isort: skip # Setuptools' own, once that is imported.

LINK = re.compile(r"!?\[(?P<text>[^]]*)\]\((?!\w+:|#)(?P<path>[^)#]*)(#[^)]*)?\)")


class InstallPages(install_data):
    """Copies the data files, then cuts the links of pages that lead to none of them."""

    def run(self) -> None:
        super().run()
        files = {Path(path).resolve() for path in self.get_outputs()}
        there = files.union(*(file.parents for file in files))
        for page in files:
            if page.suffix == ".md":
                text = LINK.sub(
                    lambda link, page=page: _cut(link, page, there), page.read_text(encoding="utf-8")
                )
                page.write_text(text, encoding="utf-8")


def _cut(link: re.Match[str], page: Path, there: set[Path]) -> str:
    target = Path(os.path.normpath(page.parent / link["path"]))
    return link[0] if target in there else link["text"]


setup(cmdclass={"install_data": InstallPages})
