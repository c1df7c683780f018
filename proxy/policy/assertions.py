"""Assertions about a policy, each proved for all requests there can be, or refuted by one (decision 0145).

    payroll: no principal but Group:payments and super users may WRITE, DELETE topic prefix payroll
    no principal but super users may ALL cluster
    User:ci never ANY topic prefix prod-
    no principal may ALTER cluster from outside 10.0.0.0/8, 192.168.0.0/16
    User:billing may READ topic invoices

`parse_assertions` reads the lines of a file, `violations` compares them with a policy. Neither does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from proxy.metadata.acl import (
    CLUSTER_NAME,
    OPERATIONS_ON,
    WILDCARD_PRINCIPAL,
    Operation,
    PatternType,
    ResourceType,
)
from proxy.metadata.image import TopicsImage
from proxy.policy.differences import NotReproduced, Region, Scope, Session, differences, is_group
from proxy.policy.hosts import ANY_HOST, HostScope, range_of
from proxy.policy.names import EVERY_NAME, Area, Pattern, pattern_of
from proxy.policy.policy import AccessRequest, Policy, decision_text, of_acls
from proxy.policy.together import session_with_all
from proxy.security.authorizer import ALLOW_EVERYONE, Decision
from proxy.security.principal import written_principal

ANY, ALL = "ANY", "ALL"
TYPES = {kind.name.lower().replace("_", "-"): kind for kind in OPERATIONS_ON}
"""The words for resource types."""

_DENYING, _ALLOWING = of_acls([]), of_acls([], {ALLOW_EVERYONE: "true"})
"""The policies that deny and allow every request."""


class AssertionFault(ValueError):
    """A line that is no assertion. The message begins with line and column, which count from 1."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """What a policy has to deny, or with `granted` to allow."""

    name: str
    text: str
    sessions: tuple[Session, ...] | None
    """Those that it is about; None: all but the exceptions."""
    exceptions: frozenset[str]
    but_super_users: bool
    but_owners: bool
    granted: bool
    operations: tuple[Operation, ...]
    together: bool
    """ALL: it is denied to have all operations, not each of them."""
    resource_type: ResourceType
    pattern: Pattern
    hosts: HostScope


@dataclass(frozen=True, slots=True)
class Violation:
    """An assertion that does not hold, and a request that the policy decides otherwise than it says."""

    assertion: Assertion
    counterexample: AccessRequest
    decision: Decision

    def __str__(self) -> str:
        request = self.counterexample
        if self.assertion.together:
            request = request._replace(operation=Operation.ALL)
        return f"{self.assertion.name}: {request} is {decision_text(self.decision)}"


def violations(
    policy: Policy, assertions: Iterable[Assertion], before: Policy | None = None
) -> list[Violation]:
    """Return the first counterexample of each assertion that does not hold, in their order.

    `before`: the policy that this one replaces, where only what is worse than in it counts.
    """
    found = (_violation(policy, assertion, before) for assertion in assertions)
    return [each for each in found if each is not None]


def _violation(policy: Policy, assertion: Assertion, before: Policy | None) -> Violation | None:
    spared = assertion.exceptions | (policy.super_users if assertion.but_super_users else frozenset())
    if assertion.but_owners:
        policy, before = _without_owners(policy), None if before is None else _without_owners(before)
    scope = Scope(
        assertion.resource_type,
        Area([assertion.pattern]),
        sum(1 << each for each in assertion.operations),
        assertion.hosts,
        None if assertion.sessions is None else frozenset(assertion.sessions),
        # What any session may do, one of its principals may. It is not so with what it could not do before.
        pairs=assertion.sessions is None and before is not None,
    )
    if assertion.together:
        requests = [session_with_all(policy, scope, spared, before)]
    elif assertion.granted:
        requests = [each.witness for each in differences(policy, before or _ALLOWING, scope) if each.allowed]
    else:
        regions = differences(before or _DENYING, policy, scope)
        requests = [_counterexample(each, spared) for each in regions if each.allowed]
    for request in requests:
        if request is not None:
            decision = policy.decide(request)
            if decision.allowed is assertion.granted:
                raise NotReproduced(f"{assertion.name}: {request}")
            return Violation(assertion, request, decision)
    return None


def _counterexample(region: Region, spared: frozenset[str]) -> AccessRequest | None:
    if not spared.isdisjoint(region.groups):
        return None
    if region.others:
        principal: str | None = region.witness.principal
        while principal in spared:
            principal += "-else"
    else:
        principal = next((each for each in region.principals if each not in spared), None)
    return None if principal is None else region.witness._replace(principal=principal)


def _without_owners(policy: Policy) -> Policy:
    topic = ResourceType.TOPIC
    acls = {**policy.acls, topic: replace(policy.acls[topic], owned={})}
    return replace(policy, image=replace(policy.image, topics=TopicsImage.EMPTY), acls=acls)


def parse_assertions(text: str) -> list[Assertion]:
    """Return the assertions of the lines of a text. AssertionFault names the first line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = _Words(line, number)
        if words.word is not None:
            found.append(_assertion(words))
    names = [each.name for each in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise AssertionFault(f"two assertions have the name {repeated!r}")
    return found


_WORD = re.compile(r'"(?:[^"\\]|\\.)*"?,?|#.*|\S+')


class _Words:
    """The words of a line, from left to right."""

    def __init__(self, line: str, number: int) -> None:
        self.line, self._number = line, number
        self._words = [(each[0], each.start() + 1) for each in _WORD.finditer(line) if each[0][0] != "#"]
        self._at = 0

    @property
    def word(self) -> str | None:
        return self._words[self._at][0] if self._at < len(self._words) else None

    def take(self, *expected: str) -> bool:
        """Take the next words if they are these."""
        here = [word for word, _ in self._words[self._at : self._at + len(expected)]]
        if here != list(expected):
            return False
        self._at += len(expected)
        return True

    def next(self, wanted: str) -> str:
        """Take the next word; without the quotes that it may have."""
        word = self.word
        if word is None:
            raise self.fault(f"expected {wanted} at the end of the line")
        if word.startswith('"'):
            if len(word) < 2 or not word.endswith('"'):
                raise self.fault("the quotation does not end")
            word = re.sub(r"\\(.)", r"\1", word[1:-1])
        self._at += 1
        return word

    def listed(self, wanted: str) -> list[str]:
        """Take a list with commas."""
        found: list[str] = []
        while True:
            word = self.next(wanted)
            found += [part for part in word.split(",") if part]
            if not word.endswith(","):
                return found

    def fault(self, what: str, before: int = 0) -> AssertionFault:
        """Return an error at the next word, or at one `before` it."""
        at = self._at - before
        column = self._words[at][1] if at < len(self._words) else len(self.line.rstrip()) + 1
        return AssertionFault(f"line {self._number}, column {column}: {what}")

    @property
    def default_name(self) -> str:
        return f"line {self._number}"


def _assertion(words: _Words) -> Assertion:
    name, text = words.default_name, words.line.strip()
    first = words.word or ""
    if len(first) > 1 and first.endswith(":") and not first.startswith('"'):
        name = words.next("a name")[:-1]
    sessions: tuple[Session, ...] | None = None
    exceptions: list[str] = []
    super_users = owners = granted = False
    if words.take("no", "principal"):
        if words.take("but"):
            exceptions, super_users, owners = _exceptions(words)
        if not words.take("may"):
            raise words.fault("expected 'may', or 'but' and its exceptions")
    else:
        sessions = tuple(_sessions(words))
        granted = words.take("may")
        if not granted and not words.take("never"):
            raise words.fault("expected 'may' or 'never'")
    written = words.listed("an operation")
    kind, pattern = _resource(words)
    operations = _operations(words, written, kind, granted)
    hosts = _hosts(words)
    if words.word is not None:
        raise words.fault(f"{words.word!r} is too much: the assertion has ended")
    return Assertion(
        name,
        text,
        sessions,
        frozenset(exceptions),
        super_users,
        owners,
        granted,
        operations,
        written == [ALL] and not granted,
        kind,
        pattern,
        hosts,
    )


def _exceptions(words: _Words) -> tuple[list[str], bool, bool]:
    principals: list[str] = []
    super_users = owners = False
    while True:
        if words.take("super", "users"):
            super_users = True
        elif words.take("owners"):
            owners = True
        else:
            principals.append(_principal(words))
        if not words.take("and"):
            return principals, super_users, owners


def _sessions(words: _Words) -> list[Session]:
    found = [_session(words)]
    while words.take("and"):
        found.append(_session(words))
    return found


def _session(words: _Words) -> Session:
    principal = _principal(words)
    if not words.take("in"):
        return (principal,)
    groups = [_checked(words, each) for each in words.listed("a group, such as Group:team")]
    if not all(is_group(each) for each in groups):
        raise words.fault("a session is in groups, such as Group:team", before=1)
    return (principal, *groups)


def _principal(words: _Words) -> str:
    return _checked(words, words.next("'no principal' or a principal, such as User:alice"))


def _checked(words: _Words, text: str) -> str:
    try:
        found = str(written_principal(text))
    except ValueError as error:
        raise words.fault(str(error), before=1) from error
    if found == WILDCARD_PRINCIPAL:
        raise words.fault("no client is User:*; write 'no principal may ...'", before=1)
    return found


def _resource(words: _Words) -> tuple[ResourceType, Pattern]:
    every = words.take("every")
    word = words.next("a resource type")
    kind = TYPES.get(word)
    if kind is None:
        raise words.fault(f"{word!r} is no resource type; there are {', '.join(TYPES)}", before=1)
    if kind is ResourceType.CLUSTER and not every:
        return kind, Pattern(CLUSTER_NAME, True)
    if every:
        return kind, EVERY_NAME
    pattern_type = PatternType.PREFIXED if words.take("prefix") else PatternType.LITERAL
    quoted = (words.word or "").startswith('"')
    name = words.next(f"the name of a {word}, or 'prefix' and its beginning")
    if name.endswith("*") and not quoted:
        advice = f"write '{word} prefix {name[:-1]}'" if name != "*" else f"write 'every {word}'"
        raise words.fault(f"{name!r} is a name here, not a pattern; {advice}", before=1)
    if quoted and name == "*":
        return kind, Pattern(name, True)
    return kind, pattern_of(name, pattern_type)


def _operations(
    words: _Words, written: list[str], kind: ResourceType, granted: bool
) -> tuple[Operation, ...]:
    known: Mapping[str, Operation] = {each.name: each for each in OPERATIONS_ON[kind]}
    if written in ([ANY], [ALL]):
        if granted and written == [ANY]:
            raise words.fault("'may ANY' would say nothing; name the operations, or ALL")
        return OPERATIONS_ON[kind]
    for word in written:
        if word not in known:
            raise words.fault(
                f"{word!r} is no operation on a {kind.name.lower().replace('_', '-')}; there are"
                f" {', '.join(known)}, and alone {ANY} (one of them) and {ALL} (all of them together)"
            )
    return tuple(known[word] for word in written)


def _hosts(words: _Words) -> HostScope:
    if not words.take("from"):
        return ANY_HOST
    others = words.take("outside")
    hosts = words.listed("an address or a network")
    for host in hosts:
        if range_of(host) is None:
            raise words.fault(f"{host!r} is neither an address, as Java writes it, nor a network", before=1)
    return HostScope(frozenset(hosts), others)
