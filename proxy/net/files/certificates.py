"""Certificates and keys on disk: watches all that a process uses (O3), and reports when they expire (O12).

A certificate and its key change one after the other. Between the two the pair does not match: this is logged,
and both take effect once the second file is there. Expiry is that of the files last loaded; a changed file
that could not be loaded does not count.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.net.files.watched_file import FileReloads, WatchedFile

FILE_KIND = "certificate"


class Reloadable(Protocol):
    """A user of certificate files, such as the contexts of proxy.net.files.tls."""

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def expiries(self) -> Mapping[Path, float]: ...

    def reload(self, _content: bytes = b"") -> None: ...


class Certificates:
    """Watches the files of all contexts of a process."""

    def __init__(self, contexts: Iterable[Reloadable | None], reloads: FileReloads) -> None:
        """Raise TlsError if a file cannot be used any more."""
        self._reloads = reloads
        self._files: dict[Reloadable, list[WatchedFile]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._watches: dict[Reloadable, list[asyncio.Task[None]]] = {}
        for each in contexts:
            if each is not None:
                self.add(each, self.read(each))

    def read(self, each: Reloadable) -> list[WatchedFile]:
        """Load the files of a context for `add`. Blocks; TlsError when a file cannot be used."""
        files = [WatchedFile(path, FILE_KIND, each.reload, self._reloads) for path in each.files]
        for file in files:
            file.load()
        return files

    def add(self, each: Reloadable, files: list[WatchedFile]) -> None:
        """Watch these files of a context."""
        self._files[each] = files
        self._watch(each)

    def remove(self, each: Reloadable) -> None:
        """Stop watching the files of a context."""
        self._files.pop(each, None)
        for watch in self._watches.pop(each, ()):
            watch.cancel()

    @property
    def expiries(self) -> dict[Path, float]:
        """By file, when what is loaded expires, in seconds since the epoch.

        The earliest time, if several contexts use the file.
        """
        found: dict[Path, float] = {}
        for path, expiry_s in (item for each in list(self._files) for item in each.expiries.items()):
            found[path] = min(expiry_s, found.get(path, expiry_s))
        return found

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for each in self._files:
                self._watch(each)
            # The group ends when it has no task, and there may be files to watch later.
            await asyncio.Event().wait()

    def _watch(self, each: Reloadable) -> None:
        if self._tasks is not None:
            self._watches[each] = [self._tasks.create_task(file.run()) for file in self._files[each]]


def expiry_of_chain(path: Path) -> float | None:
    """Return when the first certificate in a PEM file expires, in seconds since the epoch.

    None if the file has no readable certificate: OpenSSL decides whether it can be used.
    """
    ends = _ends(path)
    return ends[0] if ends else None


def expiry_of_cas(path: Path) -> float | None:
    """Return when the last certificate in a PEM file expires: from then on no peer is trusted."""
    return max(_ends(path), default=None)


def _ends(path: Path) -> list[float]:
    # Called when a process is put together, if it has certificates; without them it is not needed.
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return []
    return [_moment(certificate.not_valid_after_utc) for certificate in found]


def _moment(moment: datetime) -> float:
    return moment.timestamp()


class CertificateSeries(Collector):
    """Collects one series for each file."""

    def __init__(self, expiries: Callable[[], Mapping[Path, float]]) -> None:
        """`expiries`: by file, in seconds since the epoch."""
        self._expiries = expiries

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "penstock_certificate_expiry_timestamp_seconds",
            "When the certificate loaded from this file expires; for a file of CAs, when the last one does",
            labels=["file"],
        )
        for path, expiry_s in sorted(self._expiries().items()):
            family.add_metric([str(path)], expiry_s)
        return (family,)
