"""Jars out of Maven Central through the Ivy that pyspark carries: no Maven has to be installed.

Two ways: by an exact list (no descriptors are read, 9 s for Kafka) and by roots and what they need
(to make the list for a new Kafka version). Knows nothing of where jars are kept or whether they are right.
"""

import importlib.util
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.java import java

Coordinate = tuple[str, str, str]
"""Organisation, name, revision."""

_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms={poms}{root}/></resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0">
  <info organisation="io.penstock" module="demo"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
    {exclusions}
  </dependencies>
</ivy-module>
"""


def retrieve(jars: Sequence[Coordinate], into: Path, work: Path, arrived: Callable[[int], None]) -> None:
    """Bring exactly these jars into a directory; `arrived` is told how many there are after each download."""
    dependencies = [_dependency(jar, 'transitive="false" conf="default->default"') for jar in jars]
    _run(dependencies, [], f"{into}/[artifact]-[revision].[ext]", work, False, arrived)


def resolve(
    roots: Sequence[Coordinate], without: Sequence[tuple[str, str]], work: Path
) -> list[tuple[Coordinate, Path]]:
    """Bring the roots and all they need to run, save what matches (organisation, name) patterns."""
    dependencies = [_dependency(root, 'conf="default->master,runtime"') for root in roots]
    exclusions = [f'<exclude org={quoteattr(o)} module={quoteattr(m)} matcher="regexp"/>' for o, m in without]
    into = work / "resolved"
    _run(
        dependencies,
        exclusions,
        f"{into}/[organisation]~[artifact]~[revision].[ext]",
        work,
        True,
        lambda _: None,
    )
    return [(_coordinate(path), path) for path in sorted(into.glob("*.jar"))]


def _coordinate(path: Path) -> Coordinate:
    organisation, name, revision = path.name.removesuffix(".jar").split("~")
    return organisation, name, revision


def _dependency(jar: Coordinate, attributes: str) -> str:
    organisation, name, revision = map(quoteattr, jar)
    return f"<dependency org={organisation} name={name} rev={revision} {attributes}/>"


def _run(
    dependencies: list[str],
    exclusions: list[str],
    pattern: str,
    work: Path,
    poms: bool,
    arrived: Callable[[int], None],
) -> None:
    # PENSTOCK_MAVEN_URL names a mirror of Maven Central for those who have to go through one.
    mirror = os.environ.get("PENSTOCK_MAVEN_URL")
    settings, module = work / "ivysettings.xml", work / "ivy.xml"
    settings.write_text(
        _SETTINGS.format(
            cache=quoteattr(str(work / "ivy-cache")),
            poms=quoteattr(str(poms).lower()),
            root=f" root={quoteattr(mirror)}" if mirror else "",
        ),
        encoding="utf-8",
    )
    module.write_text(
        _MODULE.format(dependencies="\n    ".join(dependencies), exclusions="\n    ".join(exclusions)),
        encoding="utf-8",
    )
    command = [java(), "-cp", _class_path(), "org.apache.ivy.Main"]
    _follow([*command, "-settings", str(settings), "-ivy", str(module), "-retrieve", pattern], arrived)


def _follow(command: list[str], arrived: Callable[[int], None]) -> None:
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if "[SUCCESSFUL ]" in line:
                arrived(sum("[SUCCESSFUL ]" in seen for seen in lines))
    if process.returncode != 0:
        raise SetupError("Ivy could not fetch the jars:\n" + "\n".join(lines[-30:]))


def _class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupError("Kafka's jars are fetched with the Ivy in pyspark, and pyspark is not installed")
    jars = Path(spec.origin).parent / "jars"
    found = [path for name in ("ivy-*.jar", "commons-cli-*.jar") for path in jars.glob(name)]
    if len(found) != 2:
        raise SetupError(
            f"expected one Ivy and one commons-cli among pyspark's jars in {jars}, found {found}"
        )
    return os.pathsep.join(map(str, found))
