"""franz-go: two processes of tests/lab/clients/go, which read numbers and print what became of them.

The program is built by Go, once for each run. Each line of its output is a word and what it is about.
"""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from tests.lab.clients.franz_go import franz_go
from tests.lab.rolling.clients import FLUSH_S
from tests.lab.rolling.ledger import Ledger
from tests.lab.rolling.place import Kinds, Place

_RECONNECT = re.compile(r"^\[(?:INFO|WARN)\] (.*?(?:unable to|errored|dial|disconnect|retry)[^;]*)")
# It takes a connection that ends before the first request, or cannot be opened, for an error of its own. It
# logs the same, and NOT_COORDINATOR of a broker that has just lost its groups, when a plain broker restarts,
# and repeats by itself what failed: the membership at once, the commit of offsets at its next interval.
_CUT = re.compile(
    r"^\[ERROR\] (unable to (?:request api versions|initialize sasl)|group manage loop errored"
    r"|default commit failed);.*(?:EOF|reset|refused|closed|broken pipe|NOT_COORDINATOR)"
)


class FranzGo:
    """A producer and a consumer."""

    def __init__(self, place: Place) -> None:
        self.ledger: Ledger = place.ledger
        self._program = franz_go(place.stack.directory)
        self._log: Path = place.stack.logs / "franz-go-clients.log"
        user, entrance = place.user, place.entrance
        login = {
            "bootstrap": entrance.bootstrap,
            "mechanism": user.mechanism,
            "user": user.name,
            "password": user.password,
            "ca": None if entrance.ca is None else str(entrance.ca),
        }
        self._order = json.dumps({"login": login, "topic": place.ledger.topic}).encode() + b"\n"

    def start(self) -> None:
        self._producer, self._consumer = self._started("send"), self._started("take")
        said: Mapping[str, Callable[[str], None]] = {
            "acknowledged": lambda number: self.ledger.was_acknowledged(int(number)),
            "consumed": lambda number: self.ledger.was_consumed(number.encode()),
            "error": lambda what: self.ledger.failed("franz-go", what),
            "retried": lambda _: self.ledger.reconnected("group session"),
        }
        self._hearing = [
            threading.Thread(target=_hear, args=(each.stdout, said))
            for each in (self._producer, self._consumer)
        ]
        self._sender = threading.Thread(target=self.ledger.send_by, args=[self._producer])
        for thread in (*self._hearing, self._sender):
            thread.start()

    def end_sending(self) -> None:
        self.ledger.over.set()
        self._sender.join()
        self._ended(self._producer, self._hearing[0])

    def end(self) -> None:
        assert self._consumer.stdin is not None
        self._consumer.stdin.close()
        self._ended(self._consumer, self._hearing[1])
        for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines():
            if told := _RECONNECT.match(line) or _CUT.match(line):
                self.ledger.reconnected(told[1])
            elif line.startswith("[ERROR]"):
                self.ledger.failed("log", line)

    def _started(self, does: str) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [str(self._program), does], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert process.stdin is not None
        process.stdin.write(self._order)
        process.stdin.flush()
        return process

    def _ended(self, process: "subprocess.Popen[bytes]", hearing: threading.Thread) -> None:
        try:
            if code := process.wait(FLUSH_S):
                self.ledger.failed("exit code", code)
        except subprocess.TimeoutExpired:
            self.ledger.failed("still running after s", FLUSH_S)
            process.kill()
            process.wait()
        hearing.join()


def _hear(stream: IO[bytes], said: Mapping[str, Callable[[str], None]]) -> None:
    for line in stream:
        word, _, what = line.decode().rstrip("\n").partition(" ")
        said[word](what)


FRANZ_GO: Kinds = {"franz-go": FranzGo}
