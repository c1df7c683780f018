"""Sends events to a receiver by POST, in the framing of its product, until it has each at least once.

A batch that the receiver has no time for (429, 502, 503, 504), or that a lost connection leaves open, is
sent again. So a receiver may get an event twice, with the same id. Used by export.py in the driver; knows
neither Spark nor the tables.
"""

import gzip
import http.client
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from spark_audit.tables.files import AuditError

MAX_EVENTS, MAX_BYTES = 500, 900_000
"""Of one request, before it is compressed. Sentinel takes 1 MB, Splunk Cloud advises as much."""
ATTEMPTS = 8
FIRST_WAIT_S, MAX_WAIT_S = 1.0, 60.0
"""The waits double: two minutes in all, or what `Retry-After` says."""
_TIMEOUT_S = 30.0
_AGAIN = (429, 502, 503, 504)
_UNAUTHORIZED = 401
_EXISTS = 409
_SHOWN_CHARACTERS = 300


class Event(NamedTuple):
    """An exported record."""

    uid: str
    time_ms: int
    document: str
    """JSON on one line."""


class _Again(Exception):
    """The receiver wants the batch again. The message says why."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


class Framing(NamedTuple):
    """How a product wants its events."""

    content_type: str
    event: Callable[[Event], str]
    batch: tuple[str, str, str]
    """What is before, between and after the events."""
    check: Callable[[bytes], None] = lambda _content: None
    """Raises an error if a successful response says that it has not taken each event."""


def _splunk(event: Event) -> str:
    head = json.dumps({"time": event.time_ms / 1000, "source": "penstock", "sourcetype": "penstock:audit"})
    return f'{head[:-1]}, "event": {event.document}}}'


def _sentinel(event: Event) -> str:
    seconds, milliseconds = divmod(event.time_ms, 1000)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f'{{"TimeGenerated": "{at}.{milliseconds:03d}Z", "Event": {event.document}}}'


def _elastic(event: Event) -> str:
    return f"{json.dumps({'create': {'_id': event.uid}})}\n{event.document}"


def _otlp(event: Event) -> str:
    # By OpenTelemetry's conventions, of two log records with one log.record.uid one may be dropped.
    uid = {"key": "log.record.uid", "value": {"stringValue": event.uid}}
    return json.dumps(
        {
            "timeUnixNano": str(event.time_ms * 1_000_000),
            "body": {"stringValue": event.document},
            "attributes": [uid],
        }
    )


_SERVICE = json.dumps({"attributes": [{"key": "service.name", "value": {"stringValue": "penstock"}}]})


def _check_items(content: bytes) -> None:
    """Raise an error if Elastic has not taken each event of a batch. One that it has already is taken."""
    answer = json.loads(content)
    items = answer["items"] if answer["errors"] else []
    failed = [each["create"] for each in items if each["create"]["status"] not in (200, 201, _EXISTS)]
    if not failed:
        return
    final = [each for each in failed if each["status"] not in _AGAIN]
    if final:
        reason = json.dumps(final[0].get("error"))[:_SHOWN_CHARACTERS]
        raise AuditError(
            f"Elastic rejects {len(final)} events, the first with {final[0]['status']}: {reason}"
        )
    raise _Again(f"{len(failed)} events with status {failed[0]['status']}")


def _check_partial_success(content: bytes) -> None:
    """Raise an error if a receiver of OTLP has rejected log records. It must not get them again."""
    said = json.loads(content or b"{}").get("partialSuccess") or {}
    if rejected := int(said.get("rejectedLogRecords", 0)):
        reason = str(said.get("errorMessage"))[:_SHOWN_CHARACTERS]
        raise AuditError(f"the receiver rejects {rejected} log records: {reason}")


FRAMINGS = {
    "ndjson": Framing("application/x-ndjson", lambda event: event.document, ("", "\n", "\n")),
    "splunk": Framing("application/json", _splunk, ("", "\n", "")),
    "sentinel": Framing("application/json", _sentinel, ("[", ",", "]")),
    "elastic": Framing("application/x-ndjson", _elastic, ("", "\n", "\n"), _check_items),
    "otlp": Framing(
        "application/json",
        _otlp,
        (f'{{"resourceLogs":[{{"resource":{_SERVICE},"scopeLogs":[{{"logRecords":[', ",", "]}]}]}"),
        _check_partial_success,
    ),
}


class Receiver:
    """An HTTP receiver at a URL. `headers_file` has lines `Name: value`, such as a token."""

    def __init__(
        self, url: str, framing: str, headers_file: str | None, wait: Callable[[float], object]
    ) -> None:
        self._url = urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise AuditError(f"--url {url} is not a URL of http or https")
        self._framing = FRAMINGS[framing]
        self._headers_file, self._wait = headers_file, wait
        self._headers = self._read_headers()
        self._connection: http.client.HTTPConnection | None = None

    def send(self, events: Iterable[Event]) -> int:
        """Return how many the receiver has acknowledged: all. AuditError if it does not take them."""
        number = 0
        try:
            for batch in self._batches(events):
                self._send(batch)
                number += len(batch)
        finally:
            self._close()
        return number

    def _batches(self, events: Iterable[Event]) -> Iterator[list[str]]:
        batch, size = list[str](), 0
        for event in events:
            framed = self._framing.event(event)
            if batch and (len(batch) == MAX_EVENTS or size + len(framed) > MAX_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(framed)
            # JSON is written in ASCII: a character is a byte.
            size += len(framed) + 1
        if batch:
            yield batch

    def _send(self, batch: Sequence[str]) -> None:
        before, between, after = self._framing.batch
        body = gzip.compress((before + between.join(batch) + after).encode())
        for attempt in range(ATTEMPTS):
            try:
                return self._post(body)
            except (OSError, http.client.HTTPException, _Again) as error:
                self._close()
                why = str(error) or type(error).__name__
                asked_s = error.after_s if isinstance(error, _Again) else None
                backoff_s = min(MAX_WAIT_S, FIRST_WAIT_S * 2**attempt) * random.uniform(0.75, 1)  # noqa: S311
                if attempt < ATTEMPTS - 1:
                    self._wait(backoff_s if asked_s is None else min(asked_s, MAX_WAIT_S))
        raise AuditError(
            f"{self._url.netloc} does not take events after {ATTEMPTS} attempts ({why}); the next export"
            " continues after the last batch that it took"
        )

    def _post(self, body: bytes) -> None:
        own = {"Content-Type": self._framing.content_type, "Content-Encoding": "gzip"}
        connection = self._connection = self._connection or self._connected()
        path = self._url.path or "/"
        target = f"{path}?{self._url.query}" if self._url.query else path
        connection.request("POST", target, body, own | self._headers)
        response = connection.getresponse()
        content, status = response.read(), response.status
        if status in _AGAIN:
            raise _Again(f"status {status}", _seconds(response.getheader("Retry-After")))
        if status == _UNAUTHORIZED and (renewed := self._read_headers()) != self._headers:
            # The file may have a new token.
            self._headers = renewed
            raise _Again("status 401", 0.0)
        if not 200 <= status < 300:
            shown = content[:_SHOWN_CHARACTERS].decode(errors="replace")
            raise AuditError(f"{self._url.netloc} rejects events with status {status}: {shown}")
        self._framing.check(content)

    def _connected(self) -> http.client.HTTPConnection:
        secure = self._url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(str(self._url.hostname), self._url.port, timeout=_TIMEOUT_S)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _read_headers(self) -> dict[str, str]:
        if self._headers_file is None:
            return {}
        try:
            lines = Path(self._headers_file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise AuditError(f"--headers-file {self._headers_file}: {error.strerror}") from error
        pairs = [line.partition(":") for line in lines if line.strip()]
        if not all(colon and name.strip() for name, colon, _ in pairs):
            raise AuditError(f"--headers-file {self._headers_file}: a line is not of the form Name: value")
        return {name.strip(): value.strip() for name, _, value in pairs}


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() else None
