"""The mutants of a file: mutmut's operators, one change of one expression each.

Only mutmut's changes are used, not its runner: docs/decisions/0061-mutants.md.
"""

import difflib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import libcst as cst
from mutmut.mutation.file_mutation import Mutation, create_mutations

PACKAGES = {
    "security": "proxy/security",
    "quota": "proxy/quota",
    "session": "proxy/session",
    "controller": "forwarding/controller",
    "reconcile": "spark_audit/reconcile",
}


@dataclass(frozen=True)
class Mutant:
    """One change. `number`: which one of the file's, in mutmut's order."""

    path: str
    number: int
    line: int
    change: tuple[str, ...]
    """The lines before and after it, as a diff has them."""
    source: str
    """The whole file with the change."""

    @property
    def name(self) -> str:
        """What `ONLY` takes."""
        return f"{self.path}:{self.number}"


def files(packages: Sequence[str]) -> list[str]:
    """Paths of the product's files that are changed, below the checkout."""
    return [str(path) for name in packages for path in sorted(Path(PACKAGES[name]).rglob("*.py"))]


def sample(paths: Sequence[str], size: int, seed: int) -> tuple[int, list[Mutant]]:
    """How many mutants there are, and some of them: the same ones for the same seed and the same files."""
    everything = [(path, number) for path in paths for number in range(len(_mutations(path)[1]))]
    chosen = random.Random(seed).sample(everything, min(size, len(everything)))
    return len(everything), [mutant(path, number) for path, number in sorted(chosen)]


def mutant(path: str, number: int) -> Mutant:
    """That one change of the file."""
    module, mutations = _mutations(path)
    mutation = mutations[number]
    changed = module.deep_replace(mutation.original_node, mutation.mutated_node)
    assert isinstance(changed, cst.Module)
    lines = list(_differing(module.code, changed.code))
    return Mutant(path, number, lines[0][0], tuple(line for _, line in lines), changed.code)


def unchanged(mutant: Mutant) -> Mutant:
    """The same place with the file as it is: its tests have to pass."""
    return replace(mutant, source=Path(mutant.path).read_text(encoding="utf-8"))


def _differing(before: str, after: str) -> Iterator[tuple[int, str]]:
    """Each line that differs, and the number of the line before the change that it stands at."""
    old, new = before.splitlines(), after.splitlines()
    for kind, start, stop, new_start, new_stop in difflib.SequenceMatcher(
        None, old, new, False
    ).get_opcodes():
        if kind != "equal":
            yield from ((start + 1, f"-{line.strip()}") for line in old[start:stop])
            yield from ((start + 1, f"+{line.strip()}") for line in new[new_start:new_stop])


@cache
def _mutations(path: str) -> tuple[cst.Module, list[Mutation]]:
    """Those within functions: what stands outside of them runs at the import, for all tests or for none."""
    module, found, _, _ = create_mutations(path, Path(path).read_text(encoding="utf-8"))
    return module, [
        each for each in found if isinstance(each.contained_by_top_level_function, cst.FunctionDef)
    ]
