"""What a stream tells of its way: batches, records, how many are still to come. Fed by ingest with the query.

Spark keeps the last hundred batches only, so it has to be asked now and then.
"""

import json
from collections.abc import Iterator

from pyspark.sql.streaming.query import StreamingQuery

_UNTOLD = {None, "None", "null"}
"""An offset that is not there; PySpark makes the word of Java's null."""


class Progress:
    """Of one stream, over all of its queries in this process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last_batch = -1
        self._batches = self._records = 0
        self._end: str | None = None
        self._behind: int | None = None
        self._told = ""

    def hear(self, query: StreamingQuery) -> None:
        """Takes over what is new since the last time."""
        for batch in query.recentProgress:
            source = batch["sources"][0]
            if batch["numInputRows"] and batch["batchId"] > self._last_batch:
                self._last_batch = batch["batchId"]
                self._batches += 1
                self._records += batch["numInputRows"]
                self._end = source["endOffset"]
            self._behind = behind(source["endOffset"], source["latestOffset"], self._behind)

    def line(self) -> str:
        """Where the stream stands."""
        if not self._batches and self._behind is None:
            return f"{self._name}: the first batch is under way"
        return self._counted() + ("" if self._behind is None else f", {self._behind} offsets to go")

    def news(self) -> str | None:
        """`line`, unless it was told before."""
        before, self._told = self._told, self.line()
        return self._told if self._told != before else None

    def end(self) -> str:
        """What a stream that has come to its end has done."""
        return f"{self._counted()}, read up to {self._end if self._end is not None else 'as before'}"

    def _counted(self) -> str:
        return f"{self._name}: {self._records} records in {self._batches} batches"


def behind(end: str | None, latest: str | None, unknown: int | None = None) -> int | None:
    """Offsets between two places in a topic, each JSON of {"topic": {"partition": offset}}.

    More than there are records: compaction leaves gaps, and transactions take offsets for their markers.
    `unknown` where Spark does not tell: for a batch that it runs again it does not ask where the topic ends.
    """
    if _UNTOLD & {end, latest}:
        return unknown
    read = dict(_partitions(end))
    return sum(max(0, offset - read.get(place, 0)) for place, offset in _partitions(latest))


def _partitions(offsets: str | None) -> Iterator[tuple[tuple[str, str], int]]:
    for topic, partitions in json.loads(offsets or "{}").items():
        for partition, offset in partitions.items():
            yield (topic, partition), int(offset)
