"""Requests of any API in any version at random, out of the schemas and the table of values by field.

A field takes its value from the most specific line that the table has for it: `Metadata:topics.name`, then
`Metadata:name`, `topics.name` and `name`. A field without a line gets a plain value of its type: so an API
that is new in the table of APIs is asked from the first day on, if with less wit.
"""

from copy import deepcopy
from random import Random
from typing import Any, TypeVar

from proxy.wire.catalog import request as request_schema
from proxy.wire.message import classes_of
from proxy.wire.schema import Field, Struct
from tests.lab.differential.adjusting import ADJUSTMENTS
from tests.lab.differential.choice import Choice
from tests.lab.differential.naming import Names
from tests.lab.differential.values import COUNTS, NOT_NULL, ONCE, VALUES

_NULL_CHANCE = 0.12
_COUNTS = (0, 1, 1, 1, 2, 2, 3)
_TWICE_CHANCE = 0.08
"""That a list has an element twice."""

_Value = TypeVar("_Value")


class Filler:
    """Fills the requests of one case."""

    def __init__(self, random: Random, names: Names) -> None:
        self._random = random
        self._choice = Choice(random, names)

    def request(self, api_key: int, version: int) -> Any:
        """A request that a client could send in that version."""
        schema = request_schema(api_key)
        api = schema.name.removesuffix("Request")
        message = _Filling(self._random, self._choice, api, version).message(schema.root)
        if api in ADJUSTMENTS:
            ADJUSTMENTS[api](self._choice, message, version)
        return message


class _Filling:
    """Fills one request."""

    def __init__(self, random: Random, choice: Choice, api: str, version: int) -> None:
        self._random = random
        self._choice = choice
        self._api = api
        self._version = version
        self._classes: dict[str, Any] = dict(classes_of(f"{api}Request"))

    def message(self, struct: Struct, path: str = "") -> Any:
        message = self._classes[struct.name]()
        for field in struct.fields:
            if self._version in field.versions:
                below = f"{path}.{field.attribute}" if path else field.attribute
                setattr(message, field.attribute, self._value(field, below))
        return message

    def _value(self, field: Field, path: str) -> Any:
        nullable = self._version in field.nullable and self._line(NOT_NULL, path) is None
        if nullable and self._random.random() < _NULL_CHANCE:
            return None
        if not field.is_array:
            return self._element(field, path)
        counts: tuple[int, ...] = self._line(COUNTS, path) or _COUNTS
        elements = [self._element(field, path) for _ in range(self._random.choice(counts))]
        if elements and self._line(ONCE, path) is None and self._random.random() < _TWICE_CHANCE:
            elements.append(deepcopy(self._random.choice(elements)))
        return elements

    def _element(self, field: Field, path: str) -> Any:
        if field.struct is not None:
            return self.message(field.struct, path)
        value = self._line(VALUES, path)
        return value(self._choice) if value is not None else self._choice.of_type(field.type)

    def _line(self, table: dict[str, _Value], path: str) -> _Value | None:
        steps = path.split(".")
        suffixes = [".".join(steps[at:]) for at in range(len(steps))]
        keys = [*(f"{self._api}:{suffix}" for suffix in suffixes), *suffixes]
        return next((table[key] for key in keys if key in table), None)
