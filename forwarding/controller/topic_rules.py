"""A policy made of settings: topic names, numbers of partitions and replicas, required and forbidden configs.

Named as create.topic.policy.class.name, alter.config.policy.class.name or both; docs/topic-rules.md lists the
settings. The error message names all violations at once.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from forwarding.controller.policy import ConfigAlteration, PolicyViolation, TopicCreation

NAME_PATTERN = "name.pattern"
PARTITIONS_MIN, PARTITIONS_MAX = "partitions.min", "partitions.max"
REPLICATION_MIN, REPLICATION_MAX = "replication.factor.min", "replication.factor.max"
REQUIRED, FORBIDDEN = "configs.required", "configs.forbidden"
EXEMPT = "exempt.principals"


class TopicRules:
    """Implements both policies. Anything without a setting is allowed."""

    def __init__(self) -> None:
        self._name: re.Pattern[str] | None = None
        self._numbers: dict[str, int] = {}
        self._required: dict[str, str | None] = {}
        self._forbidden: frozenset[str] = frozenset()
        self._exempt: frozenset[str] = frozenset()

    def configure(self, settings: Mapping[str, str]) -> None:
        unknown = sorted(settings.keys() - _SETTINGS.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no such setting; there are {', '.join(_SETTINGS)}")
        read = {key: _SETTINGS[key](key, value) for key, value in settings.items()}
        self._name = read.get(NAME_PATTERN)
        self._numbers = {key: value for key, value in read.items() if isinstance(value, int)}
        self._required = read.get(REQUIRED, {})
        self._forbidden = frozenset(read.get(FORBIDDEN, {}))
        self._exempt = frozenset(read.get(EXEMPT, {}))

    def validate_creation(self, creation: TopicCreation) -> None:
        if creation.principal not in self._exempt:
            _reject(self._creation_faults(creation))

    def validate_alteration(self, alteration: ConfigAlteration) -> None:
        if alteration.resource_type == "TOPIC" and alteration.principal not in self._exempt:
            _reject(self._alteration_faults(alteration))

    def _creation_faults(self, creation: TopicCreation) -> Iterator[str]:
        if self._name is not None and self._name.fullmatch(creation.topic) is None:
            yield f"the name does not match {self._name.pattern}"
        partitions, replicas = creation.num_partitions, [creation.replication_factor]
        if creation.replicas_assignments is not None:
            partitions = len(creation.replicas_assignments)
            replicas = [len(brokers) for brokers in creation.replicas_assignments.values()]
        yield from self._outside("partitions", partitions, PARTITIONS_MIN, PARTITIONS_MAX)
        for factor in sorted({factor or 0 for factor in replicas}):
            yield from self._outside("replicas", factor, REPLICATION_MIN, REPLICATION_MAX)
        for name, value in self._required.items():
            given = creation.configs.get(name)
            if given is None or value not in (None, given):
                yield f"{name} must be set" + ("" if value is None else f" to {value}")
        yield from self._set_though_forbidden(creation.configs)

    def _alteration_faults(self, alteration: ConfigAlteration) -> Iterator[str]:
        for name, value in self._required.items():
            if name in alteration.configs or alteration.replaces:
                given = alteration.configs.get(name)
                if given is None or value not in (None, given):
                    yield f"{name} must stay set" + ("" if value is None else f" to {value}")
        yield from self._set_though_forbidden(alteration.configs)

    def _set_though_forbidden(self, configs: Mapping[str, str | None]) -> Iterator[str]:
        for name in sorted(self._forbidden & configs.keys()):
            if configs[name] is not None:
                yield f"{name} must not be set"

    def _outside(self, what: str, number: int | None, least: str, most: str) -> Iterator[str]:
        # An unknown number violates every bound.
        if least in self._numbers and (number is None or number < self._numbers[least]):
            yield f"{number} {what}, at least {self._numbers[least]} are required"
        if most in self._numbers and (number is None or number > self._numbers[most]):
            yield f"{number} {what}, at most {self._numbers[most]} are allowed"


def _reject(faults: Iterator[str]) -> None:
    message = "; ".join(faults)
    if message:
        raise PolicyViolation(f"Topic policy: {message}.")


def _pattern(key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{key}: {error}") from error


def _number(key: str, text: str) -> int:
    if not re.fullmatch("[0-9]+", text) or int(text) == 0:
        raise ValueError(f"{key}: expected a number of 1 or more, found {text!r}")
    return int(text)


def _entries(key: str, text: str) -> dict[str, str | None]:
    """Parse a list of settings: "a=1;b" -> {"a": "1", "b": None}."""
    entries = [entry.strip() for entry in text.split(";") if entry.strip()]
    if not entries:
        raise ValueError(f"{key}: expected names, separated by semicolons")
    pairs = [entry.partition("=") for entry in entries]
    return {name.strip(): value.strip() if equals else None for name, equals, value in pairs}


_SETTINGS: dict[str, Callable[[str, str], Any]] = {
    NAME_PATTERN: _pattern,
    PARTITIONS_MIN: _number,
    PARTITIONS_MAX: _number,
    REPLICATION_MIN: _number,
    REPLICATION_MAX: _number,
    REQUIRED: _entries,
    FORBIDDEN: _entries,
    EXEMPT: _entries,
}
