"""The progress of a stream: batches, records, offsets left. Used by streams.py.

Spark remembers only the last hundred batches of a query, so `update` has to be called now and then.
"""

import json
from collections.abc import Iterator

from pyspark.sql.streaming.query import StreamingQuery

_NO_OFFSET = {None, "None", "null"}
"""A missing offset. PySpark turns Java's null into a word."""


class Progress:
    """Counts the progress of one stream, over all of its queries in this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last_batch = -1
        self._batches = self._records = 0
        self._end: str | None = None
        self._behind: int | None = None
        self._last_line = ""

    def update(self, query: StreamingQuery) -> None:
        """Adds the batches since the last call."""
        for batch in query.recentProgress:
            source = batch["sources"][0]
            if batch["numInputRows"] and batch["batchId"] > self._last_batch:
                self._last_batch = batch["batchId"]
                self._batches += 1
                self._records += batch["numInputRows"]
                self._end = source["endOffset"]
            self._behind = behind(source["endOffset"], source["latestOffset"], self._behind)

    def line(self) -> str:
        """Returns how far the stream is."""
        if not self._batches and self._behind is None:
            return f"{self._name}: the first batch is running"
        return self._counted() + ("" if self._behind is None else f", {self._behind} offsets left")

    def changed_line(self) -> str | None:
        """Returns `line`, or None if it is the same as at the last call."""
        before, self._last_line = self._last_line, self.line()
        return self._last_line if self._last_line != before else None

    def summary(self) -> str:
        """Returns what the stream has done at its end."""
        return f"{self._counted()}, read up to {self._end if self._end is not None else 'as before'}"

    def _counted(self) -> str:
        return f"{self._name}: {self._records} records in {self._batches} batches"


def behind(end: str | None, latest: str | None, unknown: int | None = None) -> int | None:
    """Returns the number of offsets between two positions, each JSON of {"topic": {"partition": offset}}.

    There may be fewer records: compaction leaves gaps, and transaction markers take offsets. Returns
    `unknown` if Spark does not report a position: for a batch that it repeats, it does not request the end of
    the topic.
    """
    if _NO_OFFSET & {end, latest}:
        return unknown
    read = dict(_partitions(end))
    return sum(max(0, offset - read.get(place, 0)) for place, offset in _partitions(latest))


def _partitions(offsets: str | None) -> Iterator[tuple[tuple[str, str], int]]:
    for topic, partitions in json.loads(offsets or "{}").items():
        for partition, offset in partitions.items():
            yield (topic, partition), int(offset)
