"""Decides whether a caller may do something to any resource of a type at all (KIP-679).

That needs an ALLOW of the caller that no DENY of the caller covers. The search takes the ALLOWs in the order
of their names, and skips all those that one DENY covers at once, so its steps depend on the number of DENYs
that cover something, not on the number of ALLOWs. One call takes at most MAX_STEPS. A search that needs more
returns "not ready" and continues with the next call, so that no set of ACLs holds up the event loop.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from proxy.metadata.acl import WILDCARD, Operation, PatternType
from proxy.metadata.acls_image import ResourceAcls, Subject
from proxy.metadata.sorted_names import Pair, SortedNames, after
from proxy.security.authorizer import ACL, DEFAULT_DENY, NOT_READY, TOPIC_OWNER, Decision

MAX_STEPS = 1_000
"""About five milliseconds."""

_DENIED = Decision(False, DEFAULT_DENY)
_NOT_READY = Decision(False, NOT_READY)
_OWNER = Decision(True, TOPIC_OWNER)
_NOTHING = SortedNames.EMPTY


@dataclass(frozen=True, slots=True, eq=False)
class CallerAcls:
    """The ACLs for one caller and one operation, and the topics that the caller owns."""

    allowed_literals: tuple[SortedNames, ...]
    allowed_prefixes: tuple[SortedNames, ...]
    denied_literals: tuple[SortedNames, ...]
    denied_prefixes: tuple[SortedNames, ...]
    owned: SortedNames

    def is_same(self, other: "CallerAcls") -> bool:
        """Whether nothing has changed: unchanged parts of two images are the same object."""
        return all(a is b for a, b in zip(self._parts(), other._parts(), strict=True))

    def _parts(self) -> tuple[SortedNames, ...]:
        return (
            *self.allowed_literals,
            *self.allowed_prefixes,
            *self.denied_literals,
            *self.denied_prefixes,
            self.owned,
        )


def caller_acls(
    resource: ResourceAcls,
    subjects: Sequence[Subject],
    operations: Sequence[Operation],
    owned: SortedNames = _NOTHING,
) -> CallerAcls:
    """Collect the ACLs that name a caller by any of `subjects`."""
    entries = [(*subject, operation) for subject, operation in product(subjects, operations)]

    def names(pattern_type: PatternType, *, allow: bool) -> tuple[SortedNames, ...]:
        return tuple(resource.names.get((*entry, pattern_type, allow)) or _NOTHING for entry in entries)

    return CallerAcls(
        names(PatternType.LITERAL, allow=True),
        names(PatternType.PREFIXED, allow=True),
        names(PatternType.LITERAL, allow=False),
        names(PatternType.PREFIXED, allow=False),
        owned,
    )


class Search:
    """A search that may take several calls."""

    def __init__(self, of: CallerAcls) -> None:
        self.caller_acls = of
        self._steps = _search(of)
        self._decision: Decision | None = None

    def decision(self) -> Decision:
        """Search for at most MAX_STEPS; "not ready" if that is not enough."""
        for _ in range(MAX_STEPS):
            if self._decision is not None:
                return self._decision
            self._decision = next(self._steps)
        return self._decision or _NOT_READY


def _search(of: CallerAcls) -> Iterator[Decision | None]:
    """Yield None for each step without a result, then the decision."""
    wildcard = _named(of.denied_literals, WILDCARD)
    if wildcard is not None:
        yield Decision(False, ACL, wildcard[1])
        return
    # Denied prefixes of `*` do not cover an ALLOW on all resources.
    wildcard = _named(of.allowed_literals, WILDCARD)
    if wildcard is not None:
        yield Decision(True, ACL, wildcard[1])
        return
    covering: list[str] = []
    for names, deny in _grants(of):
        name: str | None = ""
        while name is not None and (pair := names.at_or_after(name)) is not None:
            covered = yield from deny(pair[0])
            if covered is None:
                yield _OWNER if names is of.owned else Decision(True, ACL, pair[1])
                return
            acl_id, name = covered
            if names is not of.owned:
                covering = [acl_id]
            yield None
    yield Decision(False, ACL, covering[0]) if covering else _DENIED


Covering = Generator[None, None, tuple[str, str | None] | None]
"""After some steps, what covers a name: the id of a DENY, and the first name that it does not cover."""


def _grants(of: CallerAcls) -> Iterator[tuple[SortedNames, Callable[[str], Covering]]]:
    """Yield the names of the caller's ALLOWs, with a function that finds the DENY covering a name."""
    denied_literals = [names for names in of.denied_literals if names]
    denied_prefixes = [names for names in of.denied_prefixes if names]

    def of_prefix(name: str) -> Covering:
        for names in denied_prefixes:
            shortest = None
            for pair in names.prefixes_of(name):
                shortest = pair or shortest
                yield None
            if shortest is not None:
                return shortest[1], after(shortest[0])
        return None

    def of_literal(name: str) -> Covering:
        found = _named(denied_literals, name)
        return (yield from of_prefix(name)) if found is None else (found[1], name + "\0")

    yield from ((names, of_literal) for names in of.allowed_literals)
    yield from ((names, of_prefix) for names in of.allowed_prefixes)
    yield of.owned, of_literal


def _named(denied: Sequence[SortedNames], name: str) -> Pair | None:
    for names in denied:
        found = names.at_or_after(name)
        if found is not None and found[0] == name:
            return found
    return None
