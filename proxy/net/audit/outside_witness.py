"""Passes the end of the trail to a witness outside, which keeps what an administrator of the cluster may cut.

The witness is a directory (on another machine, or one that can only be appended to), a URL that takes the
checkpoint as the body of a POST, or a topic of another cluster. It gets one each minute and at the end of the
process. Its failures are logged, counted and shown, and stop nothing.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from proxy.error_text import text_of
from proxy.net.audit.delivery import MIN_BATCH_BYTES, AuditProducer, NotDelivered
from proxy.net.audit.shipper import DiskThread
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.logins.http_client import HttpClient, HttpError
from proxy.net.runtime.reachability import Cause, StateLine

INTERVAL_S = 60.0
RETRY_S = 5.0
TIMEOUT_S = 10.0
SUFFIX = ".checkpoint"
"""Of the names of files; each boot has one."""


def is_url(target: str) -> bool:
    """Whether a witness is a URL, and not a directory."""
    return urlsplit(target).scheme in ("http", "https")


@dataclass(frozen=True, slots=True)
class WitnessTopic:
    """A topic of another cluster, which is created if it is missing."""

    cluster: EndpointSettings
    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic} at {self.cluster.address}"


class OutsideWitness:
    """The witness of one process."""

    def __init__(self, target: str | WitnessTopic | None, name: str, note: Callable[[], str]) -> None:
        """`target`: None: there is no witness. `name`: of the file, or the record's key. `note`: the signed
        end of the trail.
        """
        self._target, self._name, self._note = target, name, note
        self._producer: AuditProducer | None = None
        if isinstance(target, WitnessTopic):
            self._producer = AuditProducer(target.cluster, target.topic)
        self._line = StateLine("checkpoints reach the witness", "checkpoints do not reach the witness")
        self._disk = DiskThread("audit-witness")
        self.failures = 0
        """Attempts that failed."""

    @property
    def cause(self) -> Cause | None:
        """Why the witness does not get the checkpoints; None if it does."""
        return self._line.cause

    async def run(self) -> None:
        """Pass on a checkpoint each minute, until cancelled; return if there is no witness."""
        if self._target is None:
            return
        while True:
            is_there = await self._passed_on(self._target)
            await asyncio.sleep(INTERVAL_S if is_there else RETRY_S)

    async def close(self, timeout_ms: int) -> None:
        """Pass on the last checkpoint, as far as the time allows."""
        if self._target is not None:
            await self._passed_on(self._target, timeout_ms / 1000)
        if self._producer is not None:
            await self._producer.close()

    async def _passed_on(self, target: str | WitnessTopic, timeout_s: float = TIMEOUT_S) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._pass_on(target)
        except TimeoutError:
            await self._failed(f"no response within {timeout_s:g} s")
            return False
        except (OSError, HttpError, NotDelivered) as error:
            await self._failed(text_of(error))
            return False
        self._line.is_up(witness=str(target))
        return True

    async def _pass_on(self, target: str | WitnessTopic) -> None:
        if self._producer is not None:
            await self._producer.prepare()
            record = self._name.encode(), self._note().encode()
            await self._producer.deliver(self._producer.batch([record], MIN_BATCH_BYTES, 1))
        elif is_url(str(target)):
            response = await HttpClient().post(str(target), self._note())
            if not 200 <= response.status < 300:
                raise HttpError(f"HTTP status {response.status}")
        else:
            await self._disk.run(_replace, Path(str(target)) / (self._name + SUFFIX), self._note())

    async def _failed(self, reason: str) -> None:
        self.failures += 1
        self._line.is_down(Cause(reason), witness=str(self._target))
        if self._producer is not None:
            # The next checkpoint is another record: it may not have the sequence number of this one.
            self._producer.forget()
            await self._producer.close()


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
