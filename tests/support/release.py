"""Cuts a release and makes its files: `make cut VERSION=0.9.0`, `make release VERSION=0.9.0`.

`cut` makes two commits: "Release 0.9.0", with the version in all its places and the unreleased part of
CHANGELOG.md as the version's, and one that opens the next minor version. `release`, in a checkout of the
first, writes to dist/: wheel and sdist, the chart as a package, the context of the image, a bill of materials
of what the image installs (CycloneDX), the documentation as a site, the notes from CHANGELOG.md, and the
checksums of all of these.
"""

import hashlib
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.cluster.node import CHECKOUT
from tests.support import site
from tests.support.helm import helm

SBOM_TOOL = "cyclonedx-bom==7.5.0"
"""Run by uv in an environment of its own, since nothing else needs it."""
IMAGE_CONTEXT = (
    "Dockerfile",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "deploy/requirements.lock",
)
PACKAGES = ("proxy", "forwarding", "spark_audit")
UNRELEASED = "## [Unreleased]\n"


def semantic(version: str) -> str:
    """Return a version of PEP 440 as Semantic Versioning writes it, for the chart and images."""
    return re.sub(r"\.?(a|b|rc|dev)(\d+)$", r"-\1.\2", version)


PLACES = (
    ("pyproject.toml", r'(?m)^(version = ")(.+)(?=")', str),
    ("Dockerfile", r"(?m)^(ARG VERSION=)(.+)", semantic),
    ("deploy/helm/penstock/Chart.yaml", r"(?m)^(version: )(.+)", semantic),
    ("deploy/helm/penstock/Chart.yaml", r"(?m)^(appVersion: )(.+)", semantic),
    ("deploy/kubernetes/kustomization.yaml", r"(?m)^(    newTag: )(.+)", semantic),
)
"""Each place of the version: a file, what finds it, and how it is written there.

The manifests have it from the chart, and the installed program from pyproject.toml.
"""


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do."""


def release(version: str, directory: Path) -> None:
    """Write all files of the release into the directory, which is made."""
    _require_release(version)
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise ReleaseError(f"{directory} is not empty; remove what is in it")
    notes = notes_of(version, (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8"))
    (directory / "RELEASE.md").write_text(notes, encoding="utf-8")
    commit_s = _output("git", "log", "-1", "--format=%ct").strip()
    uv = str(Path(sys.executable).with_name("uv"))
    # The times in the archives are that of the commit, so that two releases of it are equal.
    _run(uv, "build", "--quiet", "--out-dir", str(directory), SOURCE_DATE_EPOCH=commit_s)
    (directory / ".gitignore").unlink(missing_ok=True)
    _run(str(helm()), "package", str(CHECKOUT / "deploy/helm/penstock"), "--destination", str(directory))
    context = directory / f"penstock-image-{version}.tar.gz"
    _run("git", "archive", f"--output={context}", "HEAD", *IMAGE_CONTEXT, *PACKAGES)
    bill = directory / f"penstock-{version}.cdx.json"
    tool = ("tool", "run", "--quiet", "--from", SBOM_TOOL, "cyclonedx-py")
    options = ("--output-reproducible", "--pyproject", "pyproject.toml", "--output-file", str(bill))
    _run(uv, *tool, "requirements", *options, "deploy/requirements.lock")
    pages = site.build({"SOURCE_DATE_EPOCH": commit_s})
    same = ("--sort=name", f"--mtime=@{commit_s}", "--owner=0", "--group=0", "--use-compress-program=gzip -n")
    _run("tar", "-c", *same, "-f", str(directory / f"penstock-docs-{version}.tar.gz"), "-C", str(pages), ".")
    sums = [f"{_sha256(file)}  {file.name}\n" for file in sorted(directory.iterdir())]
    (directory / "SHA256SUMS").write_text("".join(sums))


def notes_of(version: str, changelog: str) -> str:
    """Return the section of the changelog about this version. ReleaseError without one."""
    found = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## \[|\Z)", changelog, re.M | re.S)
    if found is None:
        raise ReleaseError(
            f"CHANGELOG.md has no section for {version}; check out the commit that `make cut` made"
        )
    return found[0].rstrip() + "\n"


def cut(version: str) -> None:
    """Commit the release, then the opening of the next minor version."""
    _require_committed()
    changelog = CHECKOUT / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    opened = f"{UNRELEASED}\n## [{version}] - {datetime.now(UTC).date()}\n"
    changelog.write_text(text.replace(UNRELEASED, opened, 1), encoding="utf-8")
    _commit(version, f"Release {version}")
    major, minor = version.split(".")[:2]
    upcoming = f"{major}.{int(minor) + 1}.0.dev0"
    _commit(upcoming, f"Open {upcoming}")


def _commit(version: str, subject: str) -> None:
    for name, pattern, written in PLACES:
        file = CHECKOUT / name
        text = re.sub(pattern, rf"\g<1>{written(version)}", file.read_text(encoding="utf-8"), count=1)
        file.write_text(text, encoding="utf-8")
    _run(sys.executable, "-m", "tests.support.chart")
    _run("git", "commit", "--quiet", "--all", "--message", subject)


def other_versions(version: str) -> list[str]:
    """Return each place that has another version, with what it has."""
    found = []
    for name, pattern, written in PLACES:
        match = re.search(pattern, (CHECKOUT / name).read_text(encoding="utf-8"))
        if match is None or match[2] != written(version):
            found.append(f"{name} has {match and match[2]}")
    return found


def _require_release(version: str) -> None:
    if others := other_versions(version):
        raise ReleaseError(
            f"not the commit that `make cut VERSION={version}` made; check that out: {', '.join(others)}"
        )
    _require_committed()


def _require_committed() -> None:
    if changed := _output("git", "status", "--porcelain").strip():
        raise ReleaseError(f"the work tree differs from its commit; commit or remove:\n{changed}")


def _run(*command: str, **environment: str) -> None:
    subprocess.run(command, cwd=CHECKOUT, check=True, env={**os.environ, **environment})


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    try:
        if sys.argv[1] == "cut":
            cut(sys.argv[2])
        else:
            release(sys.argv[2], Path(sys.argv[3]))
    except ReleaseError as error:
        sys.exit(f"make {sys.argv[1]}: {error}")
