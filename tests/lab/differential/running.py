"""Puts cases to both sides and compares what comes back.

A `Run` holds the two sides; `run.case(case)` sets the state up on both, asks, compares, clears, and gives a
`Result`.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from proxy.metadata.acl import Operation
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.error_codes import ErrorCode
from proxy.wire.schema import Struct
from tests.lab.differential import staging
from tests.lab.differential.cases import Case, Served, Step
from tests.lab.differential.comparing import Difference, codes, differences, plain
from tests.lab.differential.known import BEHIND_NO_RESPONSE, row_of
from tests.lab.differential.rights import marker
from tests.lab.side_by_side.dialogue import Asked, Closed, Dialogue, Heard, Outcome, Silent
from tests.lab.side_by_side.sides import Side

_DENIALS = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    )
)
_NEW = (Operation.TWO_PHASE_COMMIT,)
"""Operations that brokers without share groups do not know either."""
_SETTLING_TRIES = 60
_PAUSE_S = 0.03
_CLOSING_TRIES = 3
_pause = threading.Event()


@dataclass(slots=True)
class Finding:
    """A step at which the sides differ."""

    step: Step
    differences: list[Difference]
    outcomes: tuple[Outcome | None, Outcome | None]

    def __str__(self) -> str:
        lines = [f"  {self.step}", *(f"    DIFFERS {difference}" for difference in self.differences)]
        told = [
            f"    {name}: {outcome}" for name, outcome in zip(("broker", "proxy"), self.outcomes, strict=True)
        ]
        return "\n".join([*lines, *told])


@dataclass(slots=True)
class Result:
    """What came of one case."""

    case: Case
    asked: list[Step] = field(default_factory=list)
    unexplained: list[Finding] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    """Rows of docs/differences.md, one for each difference that it explains."""
    answers: list[str] = field(default_factory=list)
    """Of what kind the broker's answers were."""

    def __str__(self) -> str:
        return "\n".join([str(self.case), *map(str, self.unexplained)])


class _Talk:
    """One case at one side: a connection for each user, and what was heard so far."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.heard: list[Outcome | None] = []
        self._dialogues: dict[str, Dialogue] = {}

    def ask(self, step: Step) -> Outcome | None:
        message = deepcopy(step.message)
        if step.bind is not None:
            step.bind(message, self.heard)
        outcome = self._ask(step, message)
        if step.instead is not None and isinstance(outcome, Heard):
            other = step.instead(outcome.message)
            outcome = outcome if other is None else self._ask(step, other)
        return outcome

    def _ask(self, step: Step, message: Any) -> Outcome | None:
        _replace_ids(message, request_schema(step.api_key).root, self.side.topic_ids)
        return self._dialogue(step).ask(
            step.api_key, step.version, message, answered=step.answered, alter=step.alter
        )

    def ask_all(self, steps: Sequence[Step]) -> list[Outcome | None]:
        """At once, as the user of the first one."""
        requests = []
        for step in steps:
            message = deepcopy(step.message)
            _replace_ids(message, request_schema(step.api_key).root, self.side.topic_ids)
            requests.append(Asked(step.api_key, step.version, message, step.answered, step.alter))
        return self._dialogue(steps[0]).ask_all(requests)

    def _dialogue(self, step: Step) -> Dialogue:
        dialogue = self._dialogues.get(step.user)
        if dialogue is None or not (dialogue.usable or step.same_connection):
            dialogue = self._dialogues[step.user] = self.side.dialogue(step.user)
        return dialogue

    def close(self) -> None:
        for dialogue in self._dialogues.values():
            dialogue.close()


class Run:
    """Both sides, with the stage set."""

    def __init__(self, broker: Side, proxy: Side, *, staged: bool = False) -> None:
        """`staged`: another run has set the stage for these sides."""
        self.sides = (broker, proxy)
        self._other_records = False
        """A Produce had different results, so the offsets of what cases produce to may differ from now on."""
        self._pool = ThreadPoolExecutor(len(self.sides))
        if not staged:
            self._both(staging.set_the_stage)
        self.served = _served_by_both(broker.versions(), proxy.versions())
        self._has_new_operations = ApiKey.SHARE_FETCH in self.served

    def case(self, case: Case) -> Result:
        """Everything of one case."""
        result = Result(case)
        self._both(lambda side: self._set_up(side, case))
        talks = [_Talk(side) for side in self.sides]
        try:
            if case.pipelined:
                self._pipelined(case.steps, talks, result)
            else:
                for step in case.steps:
                    self._step(step, talks, result)
        finally:
            for talk in talks:
                talk.close()
        self._both(lambda side: staging.clear(side, case.names, topics=case.topics, groups=case.groups))
        if self._other_records:
            self._both(staging.create_sinks_again)
            self._other_records = False
        return result

    def _both(self, do: Callable[[Side], None]) -> None:
        """At both sides at once: most of it is waiting."""
        list(self._pool.map(do, self.sides))

    def _set_up(self, side: Side, case: Case) -> None:
        staging.prepare(side, case.names, topics=case.topics, groups=case.groups)
        rules = [rule for rule in case.rules if self._has_new_operations or rule.operation not in _NEW]
        staging.put_in_force(side, rules, marker(case.names))

    def _step(self, step: Step, talks: list[_Talk], result: Result) -> None:
        outcomes, found = self._compared(step, talks, result)
        for _ in range(_SETTLING_TRIES if step.settles else 0):
            if not found:
                break
            _pause.wait(_PAUSE_S)
            outcomes, found = self._compared(step, talks, result)
        for talk, outcome in zip(talks, outcomes, strict=True):
            talk.heard.append(outcome)
        result.asked.append(step)
        result.answers.append(_kind(outcomes[0], step, result.case, talks[0].side))
        self._note(step, found, outcomes, result)

    def _pipelined(self, steps: Sequence[Step], talks: list[_Talk], result: Result) -> None:
        for tries_left in reversed(range(_CLOSING_TRIES)):
            told = self._pool.map(lambda talk: talk.ask_all(steps), talks)
            each = list(zip(*told, strict=True))
            # Who closes with requests unread resets the connection, and what its client has not read is lost.
            if not tries_left or not any(_lost_one(outcomes) for outcomes in each):
                break
        is_behind = False
        for step, outcomes in zip(steps, each, strict=True):
            result.asked.append(step)
            result.answers.append(_kind(outcomes[0], step, result.case, talks[0].side))
            at_broker, at_proxy = outcomes
            if is_behind and at_broker != at_proxy and isinstance(at_broker, Closed | Silent):
                result.explained.append(BEHIND_NO_RESPONSE)
            else:
                self._note(step, _differences(step, outcomes, talks, result), outcomes, result)
            is_behind = is_behind or not step.answered

    def _compared(self, step: Step, talks: list[_Talk], result: Result) -> tuple[Any, list[Difference]]:
        outcomes = tuple(self._pool.map(lambda talk: talk.ask(step), talks))
        return outcomes, _differences(step, outcomes, talks, result)

    def _note(self, step: Step, found: list[Difference], outcomes: Any, result: Result) -> None:
        rows = [row_of(ApiKey.name_of(step.api_key), difference, step) for difference in found]
        self._other_records = self._other_records or (step.api_key == ApiKey.PRODUCE and bool(found))
        result.explained += [row for row in rows if row is not None]
        unexplained = [difference for difference, row in zip(found, rows, strict=True) if row is None]
        if unexplained:
            result.unexplained.append(Finding(step, unexplained, outcomes))


def _lost_one(outcomes: Sequence[Outcome | None]) -> bool:
    """Whether one side has responded, and the other one has closed the connection."""
    return {Heard, Closed} == {type(outcome) for outcome in outcomes}


def _differences(step: Step, outcomes: Any, talks: list[_Talk], result: Result) -> list[Difference]:
    trees = [
        plain(outcome, step.api_key, step.version, result.case.names, talk.side.topic_ids)
        for outcome, talk in zip(outcomes, talks, strict=True)
    ]
    return list(differences(*trees))


def _served_by_both(broker: Served, proxy: Served) -> Served:
    """As far as there are requests for it: Produce is offered from version 0 on, and exists from 3 on."""
    served = {}
    for key in sorted(broker.keys() & proxy.keys()):
        existing = codecs.request_versions(key)
        low = max(broker[key][0], proxy[key][0], existing.start)
        served[key] = (low, min(broker[key][1], proxy[key][1], existing.stop - 1))
    return served


def _kind(outcome: Outcome | None, step: Step, case: Case, side: Side) -> str:
    if not isinstance(outcome, Heard):
        return "no answer due" if outcome is None else type(outcome).__name__.lower()
    tree = plain(outcome, step.api_key, step.version, case.names, side.topic_ids)
    return "with a denial" if any(code in _DENIALS for code in codes(tree)) else "without a denial"


def _replace_ids(message: Any, struct: Struct, ids: dict[bytes, bytes]) -> None:
    for one in struct.fields:
        value = getattr(message, one.attribute)
        if one.struct is not None:
            for part in value or [] if one.is_array else [value] if value is not None else []:
                _replace_ids(part, one.struct, ids)
        elif one.type == "uuid" and not one.is_array:
            setattr(message, one.attribute, ids.get(bytes(value), value))
