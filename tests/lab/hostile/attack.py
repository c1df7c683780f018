"""What an attack is: a function of the target and of its size, with the scene it is played in.

`python -m tests.lab.hostile.attack NAME TARGET.json` plays one in its own process, so that it cannot delay
those who judge it, and prints what it found as one line of JSON. The limit on its time is kept here.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import uvloop

from tests.lab.hostile.place import ORDINARY, Scene
from tests.lab.hostile.target import Target

MODULES = (
    *("strangers", "requests", "logins", "readers", "records", "produces", "administration", "http"),
    *("quotas", "own_topics", "pipelines"),
    "identity",
)
SHORT_LIMIT_S, LONG_LIMIT_S = 30, 240

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Size:
    """How big an attack is."""

    long: bool

    def of(self, short: Number, long: Number) -> Number:
        return long if self.long else short

    @property
    def limit_s(self) -> int:
        """An attack that takes longer is ended, and judged by what came until then."""
        return self.of(SHORT_LIMIT_S, LONG_LIMIT_S)

    @property
    def patience_s(self) -> int:
        """How long a proxy that does not answer is waited for."""
        return self.of(20, 60)


@dataclass(slots=True)
class Found:
    """What an attack tells of itself."""

    facts: dict[str, int | float | str] = field(default_factory=dict)
    """Printed, not judged."""
    faults: list[str] = field(default_factory=list)
    """What went wrong by the attack's own measure."""
    connections: int = 1
    """As many as it had open at a time: each may cost memory."""
    logged_in: bool = False
    """Whether any of them was a known client: the bound on memory is another one."""
    memory_bytes: int = 256 * 1024 * 1024
    """queued.max.request.bytes of the scene."""
    more_bytes: int = 0
    """What it is known to cost besides."""
    may_fail: list[str] = field(default_factory=list)
    """What of the normal user may fail meanwhile, for a reason that the attack's docstring gives."""


Play = Callable[[Target, Size, Found], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Attack:
    play: Play
    scene: Scene
    only_long: bool

    @property
    def name(self) -> str:
        return str(getattr(self.play, "__name__", "")).replace("_", "-")

    @property
    def module(self) -> str:
        return self.play.__module__.rpartition(".")[2]

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.play.__doc__ or "")


_ALL: list[Attack] = []


def attack(scene: Scene = ORDINARY, *, only_long: bool = False) -> Callable[[Play], Play]:
    """Put a function into the suite."""

    def put(play: Play) -> Play:
        _ALL.append(Attack(play, scene, only_long))
        return play

    return put


def attacks(modules: Sequence[str] = MODULES) -> list[Attack]:
    """Those of the modules, in that order; those of one scene beside each other."""
    for module in MODULES:
        import_module(f"tests.lab.hostile.attacks.{module}")
    wanted = [each for module in modules for each in _ALL if each.module == module]
    scenes = list(dict.fromkeys(each.scene for each in wanted))
    return sorted(wanted, key=lambda each: scenes.index(each.scene))


def named(name: str) -> Attack:
    return next(each for each in attacks() if each.name == name)


def main(name: str, target: Path, long: str) -> None:
    size, found = Size(long == "long"), Found()
    uvloop.run(_played(named(name), Target.read(target), size, found))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


async def _played(attack: Attack, target: Target, size: Size, found: Found) -> None:
    try:
        async with asyncio.timeout(size.limit_s):
            await attack.play(target, size, found)
    except TimeoutError:
        found.facts["ended after s"] = size.limit_s


if __name__ == "__main__":
    # By its name: else there would be two of this module, and the attacks in the other one.
    import_module("tests.lab.hostile.attack").main(*sys.argv[1:2], Path(sys.argv[2]), sys.argv[3])
