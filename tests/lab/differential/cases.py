"""One case: a user, a set of ACLs and a few requests, made of a seed and a number and nothing else.

    case = random_case(seed=7, number=42, served={3: (0, 13), ...})

The same seed and number give the same case as long as both sides serve the same APIs, so a difference can be
looked at again alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proxy.wire.api_keys import ApiKey
from tests.lab.differential.checking import checks
from tests.lab.differential.families import Family, family
from tests.lab.differential.filling import Filler
from tests.lab.differential.naming import Names
from tests.lab.differential.rights import Rule, random_rules
from tests.lab.side_by_side.dialogue import Alter, Outcome
from tests.lab.side_by_side.sides import ADMIN

USERS = ("alice",) * 14 + ("bob",) * 3 + ("carol", ADMIN, ADMIN)

Served = Mapping[int, tuple[int, int]]
Bind = Callable[[Any, Sequence[Outcome | None]], None]


@dataclass(slots=True)
class Step:
    """One request of one user."""

    user: str
    api_key: int
    version: int
    message: Any
    bind: Bind | None = None
    """Puts what the side has answered before into the request: ids that differ from side to side."""
    settles: bool = False
    """It looks at what was changed, which a broker may apply a moment after it has said so."""
    answered: bool = True
    """Whether an answer is due."""
    same_connection: bool = False
    """It is asked on the connection of the step before even when that may be closed."""
    alter: Alter | None = None
    """Changes the bytes of the frame."""
    instead: Callable[[Any], Any] | None = None
    """What a client asks upon this answer instead of using it; None: it uses the answer."""

    def __str__(self) -> str:
        return f"{self.user}: {ApiKey.name_of(self.api_key)} v{self.version} {self.message}"


@dataclass(slots=True)
class Case:
    """All that is put to both sides."""

    seed: int
    number: int
    subject: str
    """The API or the scenario that it is about."""
    rules: list[Rule]
    steps: list[Step]
    topics: bool = False
    """Whether topics of its own are made before it."""
    groups: bool = False
    """Whether groups of its own are."""
    pipelined: bool = False
    """Whether all steps are sent at once, on one connection."""
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names(self.number)

    def __str__(self) -> str:
        rules = "\n".join(f"    {rule}" for rule in self.rules) or "    (none)"
        return f"case {self.number} of seed {self.seed}, {self.subject}\n  ACLs\n{rules}"


def random_case(seed: int, number: int, api_key: int, served: Served) -> Case:
    """A case about one API."""
    random, names = Random(f"{seed}/{number}"), Names(number)
    about = family(api_key)
    user = random.choice(USERS)
    filler = Filler(random, names)
    count = 1 if about.once else random.choice((1, 2, 3, 4))
    versions = [random.choice(versions_of(api_key, served)) for _ in range(count)]
    steps = [Step(user, api_key, version, filler.request(api_key, version)) for version in versions]
    return Case(
        seed,
        number,
        ApiKey.name_of(api_key),
        random_rules(random, names, about.kinds, about.operations),
        steps + _looks(about, names),
        about.topics,
        about.groups,
    )


def versions_of(api_key: int, served: Served) -> tuple[int, ...]:
    """All versions, the lowest and the highest as often as all between them together."""
    low, high = served[api_key]
    between = range(low + 1, high)
    return (*((low, high) * max(1, len(between) // 2)), *between)


def _looks(about: Family, names: Names) -> list[Step]:
    return [
        Step(ADMIN, key, version, message, settles=True)
        for key, version, message in checks(about.after, names)
    ]
