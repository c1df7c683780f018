"""Record batches and their records as aiokafka reads them out of a log; it has no types of its own."""

from collections.abc import Iterator, Sequence
from typing import Protocol


class LogRecord(Protocol):
    """A record of a batch."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class LogBatch(Protocol):
    """A batch of message format 2."""

    base_offset: int
    next_offset: int
    producer_id: int
    is_control_batch: bool
    is_transactional: bool

    def validate_crc(self) -> bool: ...
    def __iter__(self) -> Iterator[LogRecord]: ...
