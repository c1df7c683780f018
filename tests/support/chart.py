"""The Helm chart rendered, and the plain manifests that are made of it.

`python -m tests.support.chart` (`make manifests`) writes deploy/kubernetes and deploy/spark/service.yaml.
Each file names the SHA-256 of the chart that it was made from, so that a stale one is found without helm.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.lab.cluster.errors import SetupError
from tests.support.helm import helm

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "penstock"
_SOURCE = re.compile(r"^# Source: penstock/templates/(\S+)\n", re.MULTILINE)
# A helm that was not built by its makers' script takes itself to be for Kubernetes 1.20.
_RELEASE = ("--namespace", "kafka", "--kube-version", "1.29.0")


def chart_sha256() -> str:
    """Of all files that the plain manifests depend on, names included."""
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        # Rules and dashboard are not in the plain manifests.
        if path.is_file() and not path.is_symlink() and path.suffix != ".txt":
            content = path.read_bytes()
            digest.update(f"{path.relative_to(CHART)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def run(program: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """helm with these arguments; whoever calls looks at its exit code."""
    return subprocess.run([str(program), *arguments], check=False, capture_output=True, text=True)


def template(program: Path, *arguments: str) -> str:
    """What helm renders, as text; SetupError with its message if it does not."""
    done = run(program, "template", "penstock", str(CHART), *_RELEASE, *arguments)
    if done.returncode != 0:
        raise SetupError(done.stderr)
    return done.stdout


def objects(program: Path, *arguments: str) -> list[dict[str, Any]]:
    """What helm renders, as objects."""
    return [document for document in yaml.safe_load_all(template(program, *arguments)) if document]


def manifests(program: Path) -> Iterator[tuple[Path, str]]:
    """Each plain manifest by its file: the chart with its default values."""
    for name, text in _by_template(template(program)):
        yield DEPLOY / "kubernetes" / name, _headed(text)
    audit = template(program, "--set", "audit.enabled=true", "--show-only", "templates/audit.yaml")
    for _, text in _by_template(audit):
        yield DEPLOY / "spark" / "service.yaml", _headed(text)


def _by_template(rendered: str) -> Iterator[tuple[str, str]]:
    """helm puts `# Source:` before each document, the documents of a template after one another or not."""
    parts = re.split(r"^---\n", rendered, flags=re.MULTILINE)
    found: dict[str, list[str]] = {}
    for part in parts:
        if source := _SOURCE.search(part):
            found.setdefault(source[1], []).append(_SOURCE.sub("", part).rstrip() + "\n")
    for name, texts in sorted(found.items()):
        yield name, "---\n".join(texts)


def _headed(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if "managed-by: Helm" not in line]
    return (
        "# Rendered from deploy/helm/penstock by `make manifests`: change the chart, not this file.\n"
        f"# Chart: sha256:{chart_sha256()}\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    try:
        for file, content in manifests(helm()):
            file.write_text(content, encoding="utf-8")
            sys.stdout.write(f"{file.relative_to(DEPLOY.parent)}\n")
    except SetupError as error:
        sys.exit(str(error))
