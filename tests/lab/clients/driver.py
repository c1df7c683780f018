"""The frame of a driver in Python: an order on standard input, a line of JSON for each scenario.

    {"login": {...}, "prefix": "...", "scenarios": {"name": {"does": ...}}}    what it is asked
    {"client": "aiokafka", "version": "0.14.0"}                                what it is
    {"scenario": "name", "result": "PASS", "detail": ""}                       how it went, each once

`result` is PASS with a transcript or nothing as detail, FAIL with the error, or UNSUPPORTED where the client
has no such call. Drivers in other languages do the same. A scenario's topics, groups and ids begin with the
prefix and its name.
"""

import json
import ssl
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Settings = dict[str, Any]

COUNT = 100
"""Records of a scenario."""

TIMEOUT_S = 30
LOOKS = 300
"""How often a driver looks again at what becomes true a little later."""

Found = TypeVar("Found")


class Unsupported(Exception):
    """The client cannot do this, here or at all."""


@dataclass(frozen=True, slots=True)
class Work:
    """One scenario to be played."""

    login: Settings
    name: str
    scenario: Mapping[str, Any]


def python_settings(work: Work) -> Settings:
    """The login as aiokafka and kafka-python take it."""
    login = work.login
    tls = {"ssl_context": ssl.create_default_context(cafile=login["ca"])} if login["ca"] else {}
    return {
        "bootstrap_servers": login["bootstrap"],
        "security_protocol": login["protocol"],
        "sasl_mechanism": login["mechanism"],
        "sasl_plain_username": login["user"],
        "sasl_plain_password": login["password"],
        **tls,
    }


def values(count: int = COUNT) -> list[bytes]:
    return [b"value %d of a record" % number for number in range(count)]


def until(look: Callable[[], Found], seen: Callable[[Found], bool], looks: int = LOOKS) -> Found:
    """Look again until it sees it; AssertionError with what it saw last."""
    for _ in range(looks):
        found = look()
        if seen(found):
            return found
    raise AssertionError(f"after {looks} looks: {found!r}")


def serve(client: str, version: str, functions: Mapping[str, Callable[[Work], None]]) -> None:
    order = json.load(sys.stdin)
    _say({"client": client, "version": version})
    for name, scenario in order["scenarios"].items():
        work = Work(order["login"], f"{order['prefix']}-{name}", scenario)
        function = functions.get(scenario["does"])
        _say({"scenario": name, **_played(function, work)})


def _played(function: Callable[[Work], None] | None, work: Work) -> dict[str, str]:
    if function is None:
        return {"result": "UNSUPPORTED", "detail": ""}
    try:
        function(work)
    except Unsupported as why:
        return {"result": "UNSUPPORTED", "detail": str(why)}
    except Exception:  # noqa: BLE001  Whatever went wrong is the scenario's outcome.
        return {"result": "FAIL", "detail": traceback.format_exc(limit=-4)}
    return {"result": "PASS", "detail": ""}


def _say(line: Mapping[str, str]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
