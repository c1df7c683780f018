"""Converts pydantic's errors to messages for operators: which key, what is wrong, what to do; one line each.

proxy.config.reading calls it. pydantic's own messages are about Python ("Input should be a valid tuple").
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from proxy.config import advice
from proxy.config.document import Location
from proxy.config.parts import KeyProblem, KeyProblems, Part, parts_in

Context = Mapping[str, Any]
"""Details of a pydantic error, such as `gt`, `expected`, `error`."""
MAX_SHOWN = 60
_PATTERNS = {
    r"^[A-Za-z0-9._-]+$": "expected letters, digits, '.', '_' and '-' only",
    r"^[A-Z0-9_-]{1,20}$": "expected the name of a mechanism, up to 20 capital letters, digits, '-' and '_'",
    r"^\w+(\.\w+)+$": "expected package.module.Class, a Python class",
    r"^[^/@\s]+$": "expected a name without '/', '@' and spaces",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error. `location` has the current spelling; `line` is set if `location` does not lead to it."""

    location: Location
    text: str
    line: int | None = None


def in_words(errors: Iterable[ErrorDetails], file: type[Part]) -> list[Problem]:
    """The errors of a `file`. A key with a wrong name is not reported as missing as well."""
    unknown: list[Problem] = []
    meant: set[Location] = set()
    others: list[tuple[ErrorDetails, Problem]] = []
    for error in errors:
        location = error["loc"]
        if error["type"] == "extra_forbidden":
            about = _about_unknown(file, location, error["input"])
            unknown.append(Problem(location, f"unknown key; {about.text}"))
            if about.meant is not None:
                meant.add(about.meant)
        else:
            others += ((error, problem) for problem in _problems(error, location))
    missing_but_there = {location[:depth] for location in meant for depth in range(1, len(location) + 1)}
    return unknown + [
        problem
        for error, problem in others
        if error["type"] != "missing" or problem.location not in missing_but_there
    ]


def _about_unknown(file: type[Part], location: Location, value: object) -> advice.Advice:
    return advice.about(file, location[:-1], _part_at(file, location[:-1]), str(location[-1]), value)


def _part_at(file: type[Part], location: Location) -> type[Part]:
    """The part at a location; a name or a position in a list leads to no other part."""
    part = file
    for step in location:
        for name, field in part.model_fields.items():
            if (field.alias or name) == step:
                part = next(parts_in(field.annotation), part)
                break
    return part


def _problems(error: ErrorDetails, location: Location) -> Iterator[Problem]:
    if location[-1:] == ("[key]",):
        location = location[:-1]
    context: Context = error.get("ctx", {})
    if error["type"] == "value_error":
        yield from _raised(context["error"], location)
    else:
        yield Problem(location, _words(error["type"], context, error["input"], location))


def _raised(error: ValueError, location: Location) -> Iterator[Problem]:
    if isinstance(error, KeyProblems):
        for problem in error.problems:
            yield from _raised(problem, location)
    elif isinstance(error, KeyProblem):
        yield Problem((*location, *error.location), str(error))
    else:
        for line in str(error).splitlines() or ["the value is invalid"]:
            yield Problem(location, line)


def _words(kind: str, context: Context, value: object, location: Location) -> str:
    if kind == "missing":
        return "is missing; add it, because it has no default"
    if value is None:
        return "has no value; add one, or remove the line"
    if kind in ("dict_type", "model_type") and isinstance(value, str):
        return f"expected keys below it, found {_shown(value)}"
    return _WORDS.get(kind, _invalid)(context, value, location)


def _expected(what: str) -> Callable[[Context, object, Location], str]:
    return lambda _context, value, _location: f"expected {what}, found {_shown(value)}"


def _bound(words: str, name: str) -> Callable[[Context, object, Location], str]:
    return lambda context, value, _location: f"must be {words} {context[name]:g}, found {_shown(value)}"


def _text_expected(_context: Context, value: object, _location: Location) -> str:
    hint = "" if isinstance(value, list | dict) else "; put it in quotes"
    return f"expected text, found {_shown(value)}{hint}"


def _list_expected(_context: Context, value: object, location: Location) -> str:
    if isinstance(value, dict):
        return "expected a list; begin each item with '- '"
    if location[-1] == "listeners":
        return f"expected a list of - {{name: NAME, bind: host:port}}, found {_shown(value)}"
    return f"expected a list, found {_shown(value)}; write {location[-1]}: [A, B]"


def _one_of(context: Context, value: object, _location: Location) -> str:
    choices = str(context["expected"]).replace("'", "")
    known = choices.replace(" or ", ", ").split(", ")
    close = get_close_matches(str(value).upper(), [choice.upper() for choice in known], n=1)
    meant = [choice for choice in known if close and choice.upper() == close[0]]
    return f"expected {choices}, found {_shown(value)}" + (f"; did you mean {meant[0]}?" if meant else "")


def _pattern(context: Context, value: object, _location: Location) -> str:
    pattern = str(context["pattern"])
    return f"{_PATTERNS.get(pattern, f'must match {pattern}')}, found {_shown(value)}"


def _invalid(_context: Context, value: object, _location: Location) -> str:
    return f"invalid value: {_shown(value)}"


_WHOLE, _NUMBER = _expected("a whole number"), _expected("a number")
_TRUE_FALSE, _KEYS = _expected("true or false"), _expected("keys below it")
_WORDS: Mapping[str, Callable[[Context, object, Location], str]] = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "bool_type": _TRUE_FALSE,
    "bool_parsing": _TRUE_FALSE,
    "string_type": _text_expected,
    "string_too_short": lambda _context, _value, _location: "must not be empty",
    "string_pattern_mismatch": _pattern,
    "invalid_key": lambda _context, _value, location: f"expected the name of a key, found {location[-1]}",
    "path_type": _expected("the name of a file"),
    "literal_error": _one_of,
    "enum": _one_of,
    "tuple_type": _list_expected,
    "dict_type": _KEYS,
    "model_type": _KEYS,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
}


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "keys below it" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
