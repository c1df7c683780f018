"""The docstring of a package lists its modules. Each list is complete and names nothing else."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "spark_audit").rglob("__init__.py"))
ENTRY = re.compile(r"^(\w+)/? {2,}\S", re.MULTILINE)

pytestmark = pytest.mark.tooling


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.relative_to(ROOT).as_posix())
def test_the_map_of_a_package_names_exactly_its_modules(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in package.glob("*/__init__.py")}

    assert sorted(ENTRY.findall(docstring)) == sorted(modules | packages)
