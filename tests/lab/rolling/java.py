"""Kafka's console producer and consumer: numbers go in on standard input and come out on the other end.

The console producer names an error on standard error where a record could not be sent; it tells no
acknowledgement otherwise, so all that it did not name counts as acknowledged once it has ended with code 0.
"""

import re
import subprocess
import threading
from pathlib import Path

from tests.lab.cluster.tools import KafkaTools
from tests.lab.rolling.clients import FLUSH_S
from tests.lab.rolling.ledger import Ledger
from tests.lab.rolling.place import Kinds, Place

_ERROR = re.compile(r"\bERROR\b|Exception\b")
_RECONNECT = re.compile(r"WARN .*?((?:Connection to|Got error|Bootstrap broker|Received \w+)\s[^\d(\[]*)")


class Java:
    """A producer and a consumer."""

    def __init__(self, place: Place) -> None:
        self.ledger: Ledger = place.ledger
        stack, ledger = place.stack, place.ledger
        self._log: Path = stack.logs / "java-clients.log"
        properties = stack.properties_file(place.user.name, place.listener)
        tools = KafkaTools(stack.libs, place.entrance.bootstrap, properties)
        # The tool's own default is three retries; the client's is as many as fit into delivery.timeout.ms.
        patient = ("--message-send-max-retries", "2147483647", "--command-property", "linger.ms=0")
        self._producing = tools.command("kafka-console-producer", "--topic", ledger.topic, *patient)
        group = ("--group", ledger.topic, "--from-beginning")
        self._consuming = tools.command("kafka-console-consumer", "--topic", ledger.topic, *group)

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._producer = subprocess.Popen(self._producing, stdin=subprocess.PIPE, stdout=log, stderr=log)
            self._consumer = subprocess.Popen(self._consuming, stdout=subprocess.PIPE, stderr=log)
        self._sender = threading.Thread(target=self.ledger.send_by, args=[self._producer])
        self._taker = threading.Thread(target=self._take)
        self._taker.start()
        self._sender.start()

    def end_sending(self) -> None:
        self.ledger.over.set()
        self._sender.join()
        if self._producer.wait(FLUSH_S) == 0:
            self.ledger.acknowledged.update(range(len(self.ledger.sent_at_ms)))

    def end(self) -> None:
        self._consumer.terminate()
        self._taker.join()
        self._consumer.wait(FLUSH_S)
        for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines():
            if _ERROR.search(line) and "WARN" not in line:
                self.ledger.failed("log", line)
            elif told := _RECONNECT.search(line):
                self.ledger.reconnected(told[1].strip())

    def _take(self) -> None:
        assert self._consumer.stdout is not None
        for line in self._consumer.stdout:
            if line.strip().isdigit():
                self.ledger.was_consumed(line)


JAVA: Kinds = {"java": Java}
