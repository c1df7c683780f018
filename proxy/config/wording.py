"""Converts pydantic's errors to messages for operators: which key, what is wrong, what to do; one line each.

proxy.config.reading calls it. pydantic's own messages are about Python ("Input should be a valid tuple").
For an unknown key the message has advice: the intended name, where it belongs, or what replaces Kafka's key.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_origin

import yaml
from pydantic_core import ErrorDetails

from proxy.config.document import Location
from proxy.config.parts import KeyProblem, KeyProblems, Part, parts_in, section_of

DOCUMENTED = "docs/configuration.md lists all keys"
MAX_LISTED = 12

_PEM = "certificates have to be PEM files: write "
_KEYSTORE = _PEM + "ssl: {certificate: FILE, key: FILE}; openssl pkcs12 converts a keystore"
_TRUSTSTORE = _PEM + "ssl: {ca: FILE}"
_UNENCRYPTED = "encrypted keys are not supported: decrypt the key with openssl pkey -in KEY -out FILE"
_IN_USERS = (
    "users of PLAIN belong in users.file, Penstock's own login in sasl: {username: NAME, password.file: FILE}"
)
_FROM_A_FILE = "this file must not contain secrets: write {} with the name of a file that contains the secret"

KAFKAS = {
    "ssl.keystore.location": _KEYSTORE,
    "ssl.keystore.type": _KEYSTORE,
    "ssl.keystore.certificate.chain": _KEYSTORE,
    "ssl.keystore.key": _KEYSTORE,
    "ssl.keystore.password": _UNENCRYPTED,
    "ssl.key.password": _UNENCRYPTED,
    "ssl.truststore.location": _TRUSTSTORE,
    "ssl.truststore.type": _TRUSTSTORE,
    "ssl.truststore.certificates": _TRUSTSTORE,
    "ssl.truststore.password": _TRUSTSTORE,
    "ssl.protocol": "write ssl: {enabled.protocols: [TLSv1.2, TLSv1.3]}",
    "ssl.cipher.suites": "write ssl: {ciphers: ...}, in OpenSSL's notation",
    "ssl.endpoint.identification.algorithm": (
        "write ssl: {endpoint.identification: true}, or false for Kafka's empty value"
    ),
    "sasl.jaas.config": _IN_USERS,
    "sasl.mechanism.inter.broker.protocol": "write sasl: {mechanism: ...} below upstream",
    "sasl.password": _FROM_A_FILE.format("password.file"),
    "advertised.listeners": "write advertised: host:port in each of the listeners",
    "listener.security.protocol.map": "write security.protocol in each of the listeners",
    "security.inter.broker.protocol": "write security.protocol below upstream",
    "inter.broker.listener.name": "the broker's own listener is upstream: {bootstrap: host:port}",
    "controller.listener.names": "the controllers' addresses are controller: {endpoints: [host:port]}",
    "controller.quorum.voters": "the controllers' addresses are controller: {endpoints: [host:port]}",
    "controller.quorum.bootstrap.servers": "the controllers' addresses are controller: {endpoints: [...]}",
    "broker.id": "write upstream: {node.id: N}",
    "node.id": "write upstream: {node.id: N}",
    "process.roles": "remove it: a proxy and a controller are separate processes, each with its own file",
    "zookeeper.connect": "remove it: Penstock does not use ZooKeeper; brokers may",
    "num.network.threads": "write workers: N, the number of processes",
    "num.io.threads": "write workers: N, the number of processes",
    "log.dirs": "the only data are audit records: write audit: {spool.dir: DIR}",
    "delegation.token.master.key": _FROM_A_FILE.format("delegation.token: {secret.key.file: FILE}"),
    "delegation.token.secret.key": _FROM_A_FILE.format("delegation.token: {secret.key.file: FILE}"),
    "client.quota.callback.class": (
        "remove it: quotas are those of Kafka's default class; set them with kafka-configs"
    ),
    "authorizer": "write authorizer: {class.name: ...}",
    "password": _FROM_A_FILE.format("password.file"),
    "client.secret": _FROM_A_FILE.format("oauthbearer.client.credentials.client.secret.file"),
}
"""A property of Kafka's brokers or clients -> the advice."""
OF_USERS = {
    "password": "write password.file: FILE, or password.hash: HASH, which penstock hash-password prints"
}


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a key. `meant`: the key that was probably intended; None if unknown."""

    text: str
    meant: Location | None = None


Steps = tuple[str, ...]
"""The keys that lead from a part to a key below it."""


def about(file: type[Part], at: Location, part: type[Part], key: str, value: object) -> Advice:
    """Return advice about `key`, found in the `part` at `at` of a `file`."""
    for advice in (
        _bootstrap(at, part, key),
        _repeats(at, part, key),
        _nested(at, part, key, value),
        _kafkas(part, key),
        _elsewhere(file, at, key, value),
        _misspelled(at, part, key),
    ):
        if advice is not None:
            return advice
    return Advice(_listed(part))


def _bootstrap(at: Location, part: type[Part], key: str) -> Advice | None:
    if key not in ("bootstrap.servers", "bootstrap.server", "metadata.broker.list"):
        return None
    for name in ("bootstrap", "endpoints"):
        if name in _names(part):
            return Advice(f"write {name}: host:port", (*at, name))
    peer = next((name for name in ("upstream", "broker") if name in _names(part)), None)
    return None if peer is None else Advice(f"write {peer}: {{bootstrap: host:port}}", (*at, peer))


def _repeats(at: Location, part: type[Part], key: str) -> Advice | None:
    """`http: {http.bind: ...}`: the key repeats the name of its part."""
    above = str(at[-1]) if at else ""
    name = key.removeprefix(f"{above}.")
    if above and name != key and name in _names(part):
        return Advice(f"write {name}: it is already below {above}", (*at, name))
    return None


def _nested(at: Location, part: type[Part], key: str, value: object) -> Advice | None:
    """`http.bind: ...` for `http: {bind: ...}`."""
    for steps in _below(part):
        dotted = ".".join(steps)
        if len(steps) > 1 and key in (dotted, f"{part.repeated}{dotted}"):
            return Advice(f"nest it: {_written(steps, value)}", (*at, *steps))
    return None


def _kafkas(part: type[Part], key: str) -> Advice | None:
    if "password.hash" in _names(part) and key in OF_USERS:
        return Advice(OF_USERS[key])
    for name in (key, f"ssl.{key}", f"sasl.{key}"):
        if name in KAFKAS:
            return Advice(KAFKAS[name])
    return None


def _elsewhere(file: type[Part], at: Location, key: str, value: object) -> Advice | None:
    """A valid key in the wrong place. No advice if there are several possible places."""
    places = {steps for steps in _below(file) if f".{'.'.join(steps)}".endswith(f".{key}") and len(steps) > 1}
    lists = [name for name, listed in _lists(file) for steps in _below(listed) if ".".join(steps) == key]
    if len(places) == 1 and not lists:
        (place,) = places
        return Advice(f"move it: {_written(place, value)}", place)
    if lists and not places:
        return Advice(f"move it to each of the {lists[0]}")
    if not at and key in _names(file):
        return None
    if at and key in _names(file):
        return Advice(f"move it to the top of the file: it does not belong below {at[0]}", (key,))
    return None


def _misspelled(at: Location, part: type[Part], key: str) -> Advice | None:
    known = {".".join(steps): steps for steps in _below(part)}
    close = get_close_matches(key.lower().replace("_", ".").replace("-", "."), known, n=1, cutoff=0.7)
    if not close:
        return None
    steps = known[close[0]]
    if len(steps) == 1:
        return Advice(f"did you mean {close[0]}?", (*at, *steps))
    return Advice(f"did you mean {_written(steps, ...)}?", (*at, *steps))


def _listed(part: type[Part]) -> str:
    names = sorted(_names(part))
    return f"the keys here are {', '.join(names)}" if len(names) <= MAX_LISTED else DOCUMENTED


def _names(part: type[Part]) -> set[str]:
    return {field.alias or name for name, field in part.model_fields.items()}


def _below(part: type[Part]) -> Iterator[Steps]:
    """Every key of the part and of the parts below it, except in lists and in mappings by name."""
    for name, field in part.model_fields.items():
        alias, section = field.alias or name, section_of(field)
        yield (alias,)
        if section is not None and get_origin(field.annotation) is not tuple:
            yield from ((alias, *steps) for steps in _below(section))


def _lists(part: type[Part]) -> Iterator[tuple[str, type[Part]]]:
    for name, field in part.model_fields.items():
        section = section_of(field)
        if section is not None and get_origin(field.annotation) is tuple:
            yield field.alias or name, section


def _written(steps: Steps, value: object) -> str:
    """The correct spelling in the file, in one line."""
    if not isinstance(value, str | int | float | bool):
        return ": {".join(steps) + ": ..." + "}" * (len(steps) - 1)
    nested: object = value
    for step in reversed(steps):
        nested = {step: nested}
    # A file does not need the outermost braces.
    return yaml.safe_dump(nested, default_flow_style=True, width=10_000, allow_unicode=True).strip()[1:-1]


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
            part, name = _part_at(file, location[:-1]), str(location[-1])
            unknown_key = about(file, location[:-1], part, name, error["input"])
            unknown.append(Problem(location, f"unknown key; {unknown_key.text}"))
            if unknown_key.meant is not None:
                meant.add(unknown_key.meant)
        else:
            others += ((error, problem) for problem in _problems(error, location))
    missing_but_there = {location[:depth] for location in meant for depth in range(1, len(location) + 1)}
    return unknown + [
        problem
        for error, problem in others
        if error["type"] != "missing" or problem.location not in missing_but_there
    ]


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


def _number(what: str) -> Callable[[Context, object, Location], str]:
    def words(_context: Context, value: object, location: Location) -> str:
        unit = str(location[-1]).rpartition(".")[2]
        measured = isinstance(value, str) and value[:1].isdigit() and value[-1:].isalpha() and unit in UNITS
        hint = f" without a unit: it is in {unit}" if measured else ""
        return f"expected {what}{hint}, found {_shown(value)}"

    return words


UNITS = ("ms", "bytes", "seconds", "size")
_WHOLE, _NUMBER = _number("a whole number"), _number("a number")
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
