"""The audit spool of each worker, and the spools of workers that no longer exist (SPEC D3).

The first worker uses the directory of a proxy without workers, so nothing is lost when `workers` is
raised. When it is lowered, the first worker ships what the others left, each under its own identity. The
last record stays, because the next boot of a worker with that number refers to it.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from proxy.error_text import text_of
from proxy.net.audit.shipper import DiskThread
from proxy.net.audit.spool import Spool
from proxy.net.audit.spool_files import SpoolError, has_unshipped, remove_empty_segments
from proxy.net.audit.spool_lock import Holder, lock_spool

BATCH_LINES = 2_000
_NAMED = re.compile(r"worker-([1-9][0-9]*)")

log = structlog.get_logger(__name__)


class Sink(Protocol):
    """Delivers records to the audit topic (proxy.net.audit.delivery)."""

    async def send(self, records: Sequence[tuple[bytes, bytes]]) -> None: ...

    async def close(self) -> None: ...


def spool_directory(directory: Path, worker: int) -> Path:
    """The spool directory of a worker; `directory` is spool.dir of the configuration."""
    return directory if worker == 0 else directory / f"worker-{worker}"


def left_over(directory: Path, workers: int) -> list[Path]:
    """Spools below spool.dir that belong to none of the `workers` and contain unshipped records."""
    if not directory.is_dir():
        return []
    named = ((path, _NAMED.fullmatch(path.name)) for path in directory.iterdir() if path.is_dir())
    gone = sorted(path for path, match in named if match and int(match[1]) >= workers)
    return [path for path in gone if has_unshipped(path)]


async def ship_left_over(directory: Path, workers: int, new_sink: Callable[[], Sink], holder: Holder) -> None:
    """Deliver the records of left-over spools; retry until all are delivered.

    This process, or its supervisor, holds the lock on `directory`; each spool below it is locked as well.
    """
    disk = DiskThread("audit-left-over")
    for path in await disk.run(left_over, directory, workers):
        try:
            lock = lock_spool(path, holder)
            try:
                await _ship(path, new_sink(), disk)
            finally:
                lock.close()
        except (SpoolError, OSError) as error:
            log.error("left-over audit spool not shipped", directory=str(path), error=text_of(error))


async def _ship(path: Path, sink: Sink, disk: DiskThread) -> None:
    # No lines are added, so its size need not be limited.
    spool, count = await disk.run(Spool, path, 1 << 62), 0
    try:
        while lines := await disk.run(spool.unshipped, BATCH_LINES):
            await sink.send([(line.key, line.value) for line in lines])
            await disk.run(spool.shipped, lines[-1].end)
            count += len(lines)
    finally:
        await sink.close()
        await disk.run(spool.close)
        await disk.run(remove_empty_segments, path)
    log.info("left-over audit spool shipped", directory=str(path), records=count, damaged=spool.damaged_count)
