"""The documentation as a site: `make site` writes build/site from mkdocs.yml.

Its pages are those of an installation (setup.py cuts links to files that are not installed). A link or an
anchor that leads nowhere is an error, so this checks the installed pages too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.lab.cluster.node import CHECKOUT
from tests.support.earlier_release import install

GENERATOR = "mkdocs-material==9.8.2"
"""Run by uv in an environment of its own, since nothing else needs it."""
SITE = CHECKOUT / "build" / "site"
_INSTALLED = CHECKOUT / "build" / "installed"


def build(environment: dict[str, str] | None = None) -> Path:
    """Return the directory of the site. CalledProcessError if a page has a dead link."""
    shutil.rmtree(_INSTALLED, ignore_errors=True)
    install(CHECKOUT, _INSTALLED)
    uv = str(Path(sys.executable).with_name("uv"))
    mkdocs = (uv, "tool", "run", "--quiet", "--from", GENERATOR, "mkdocs", "build", "--quiet", "--strict")
    _run(*mkdocs, **{"NO_MKDOCS_2_WARNING": "1", **(environment or {})})
    return SITE


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=CHECKOUT, check=True, env={**os.environ, **environment})


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
