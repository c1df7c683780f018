"""The Helm chart rendered, and the files that are made of it.

`python -m tests.support.chart` (`make manifests`) writes deploy/kubernetes, deploy/spark/service.yaml, and in
the chart README.md and files/restart-keys.yaml. Each manifest names the SHA-256 of the chart that it was made
from, so that a stale one is found without helm.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from forwarding.config import ControllerConfig
from proxy.config import ProxyConfig, effects
from proxy.config.parts import Effect, Part, section_of
from tests.lab.cluster.errors import SetupError
from tests.support.helm import helm

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "helm" / "penstock"
VALUE_SETS = sorted((CHART / "ci").glob("*-values.yaml"))
"""Values for the usual clusters, as helm's own tools look for them. Tests render each."""
_SOURCE = re.compile(r"^# Source: penstock/templates/(\S+)\n", re.MULTILINE)
# A helm that was not built by its makers' script takes itself to be for Kubernetes 1.20.
_RELEASE = ("--namespace", "kafka", "--kube-version", "1.29.0")


def chart_sha256() -> str:
    """Of all files that the plain manifests depend on, names included."""
    digest = hashlib.sha256()
    for path in sorted(CHART.rglob("*")):
        # Rules and dashboard are not in the plain manifests.
        made_of_it = path.is_file() and not path.is_symlink() and path.suffix not in (".txt", ".md")
        if made_of_it and path.parent.name not in ("ci", "tests"):
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
    """Each plain manifest by its file: the chart with brokers of its own, and its default values besides."""
    bundled = ("--set", "mode=bundled", "--skip-tests")
    for name, text in _by_template(template(program, *bundled)):
        yield DEPLOY / "kubernetes" / name, _headed(text)
    audit = template(program, *bundled, "--set", "audit.enabled=true", "--show-only", "templates/audit.yaml")
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


def restart_keys() -> str:
    """files/restart-keys.yaml: the keys whose change needs a restart, as paths of sections."""
    files: dict[str, type[Part]] = {"proxy": ProxyConfig, "controller": ControllerConfig}
    lines = [
        "# Made of the configuration's fields by `make manifests`. A change of one of these restarts pods."
    ]
    for name, part in files.items():
        effect = effects.of(part)
        found = [keys for fields, keys in _keys(part) if effect[fields] is Effect.RESTART]
        lines += [f"{name}:", *(f"  - {json.dumps(keys)}" for keys in found)]
    return "\n".join([*lines, ""])


def _keys(part: type[Part], fields: str = "", keys: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """The path of each key's fields, and of its names in the file."""
    for name, field in part.model_fields.items():
        there = (*keys, str(field.alias))
        section = section_of(field)
        if section is None:
            yield f"{fields}{name}", list(there)
        else:
            yield from _keys(section, f"{fields}{name}.", there)


_VALUE = re.compile(r"( *)([\w.]+):(?: (.*))?")


def values_page() -> str:
    """README.md of the chart, with values.yaml as its table. The comment above a value is what it means."""
    rows: list[str] = []
    comment: list[str] = []
    path: list[str] = []
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.strip("# "))
        elif found := _VALUE.fullmatch(line):
            path = [*path[: len(found[1]) // 2], found[2]]
            if found[3] is not None or comment:
                default = f"`{found[3]}`" if found[3] is not None else ""
                rows.append(f"| `{'.'.join(path)}` | {default} | {' '.join(comment)} |")
            comment = []
        else:
            comment = []
    above = (CHART / "README.md").read_text(encoding="utf-8").split("|---|---|---|\n")[0]
    return f"{above}|---|---|---|\n" + "\n".join(rows) + "\n"


def made_files() -> Iterator[tuple[Path, str]]:
    """What is made of the chart and the configuration without helm."""
    yield CHART / "files" / "restart-keys.yaml", restart_keys()
    yield CHART / "README.md", values_page()


if __name__ == "__main__":
    try:
        for file, content in made_files():
            file.write_text(content, encoding="utf-8")
        for file, content in manifests(helm()):
            file.write_text(content, encoding="utf-8")
            sys.stdout.write(f"{file.relative_to(DEPLOY.parent)}\n")
    except SetupError as error:
        sys.exit(str(error))
