"""The frame of a driver that keeps clients at work until it is told to stop, each cell in a thread.

    {"cells": [{"cell": "...", "bootstrap": "...", ...}]}         the order, one line on standard input
    {"version": "2.16.0"}                                         what the client is
    {"at_work": true}                                             each consumer has read, or never will
    stop                                                          on standard input: send no more
    {"cell": "...", "sent": 90, "acknowledged": 90, ...}          how it went, one line for each cell

Numbers are produced one after the other to the topic named as the cell, and read back by a group.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

PAUSE_S = 0.25
"""Between two records."""
TIMEOUT_S = 60
"""For what was sent to be acknowledged and read, once no more is sent."""

Login = Mapping[str, Any]


@dataclass
class Load:
    """What one cell has done so far."""

    sent: int = 0
    acknowledged: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    disconnects: int | None = None
    """As the client counts them, since it was at work; None: it does not."""
    done: threading.Event = field(default_factory=threading.Event)
    """There is no more to come; its client may still be stopping."""

    @property
    def settled(self) -> bool:
        """All that was acknowledged was read."""
        return self.acknowledged <= self.read

    def told(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "acknowledged": len(self.acknowledged),
            "lost": sorted(self.acknowledged - self.read),
            "errors": self.errors[:5],
            "disconnects": self.disconnects,
            "renewals": None,
        }


Play = Callable[[Login, Load, threading.Event], None]
"""Works until the event is set, and then until all is settled."""


def serve(version: str, play: Play) -> None:
    cells: list[Login] = json.loads(sys.stdin.readline())["cells"]
    _say({"version": version})
    over = threading.Event()
    loads = {cell["cell"]: Load() for cell in cells}
    threads = [
        threading.Thread(target=_guarded, args=(play, cell, loads[cell["cell"]], over), daemon=True)
        for cell in cells
    ]
    for thread in threads:
        thread.start()
    for _ in range(TIMEOUT_S * 10):
        if all(load.read or load.errors for load in loads.values()):
            break
        over.wait(0.1)
    _say({"at_work": True})
    sys.stdin.readline()
    over.set()
    for load in loads.values():
        load.done.wait()
    for name, load in loads.items():
        _say({"cell": name, **load.told()})
    os._exit(0)  # A client of aiokafka whose coordinator was cut off as it stops may never have stopped.


def token(login: Login) -> str:
    """A new token of the cell's user, from the identity provider."""
    asked = Request(login["token_url"], b"grant_type=client_credentials", method="POST")
    asked.add_header("Authorization", f"Basic {login['basic']}")
    with urlopen(asked, timeout=10) as answer:
        text: str = json.load(answer)["access_token"]
    return text


def _guarded(play: Play, login: Login, load: Load, over: threading.Event) -> None:
    try:
        play(login, load, over)
    except Exception:  # noqa: BLE001  Whatever went wrong is the cell's outcome.
        load.errors.append(traceback.format_exc(limit=-3))
    finally:
        load.done.set()


def _say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
