"""Certificates and keys on disk: one watch over all that a process uses (O3), and when they expire (O12).

`run` belongs in the process's TaskGroup. A certificate and its key change one after the other: the first new
file does not fit the old other one, which is logged, and both take effect once the second is there. Expiry is
that of the files as they were last loaded: a changed file that could not be loaded does not count.
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
    """proxy.net.files.tls's contexts."""

    @property
    def files(self) -> tuple[Path, ...]: ...

    @property
    def expiries(self) -> Mapping[Path, float]: ...

    def reload(self, _content: bytes = b"") -> None: ...


class Certificates:
    def __init__(self, held: Iterable[Reloadable | None], reloads: FileReloads) -> None:
        """TlsError, from those that hold it, when a file has become unusable since they read it."""
        self._reloads = reloads
        self._files: dict[Reloadable, list[WatchedFile]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._watches: dict[Reloadable, list[asyncio.Task[None]]] = {}
        for each in held:
            if each is not None:
                self.hold(each, self.read(each))

    def read(self, each: Reloadable) -> list[WatchedFile]:
        """For `hold`; in a thread, where the loop is not to wait. TlsError when a file cannot be used."""
        files = [WatchedFile(path, FILE_KIND, each.reload, self._reloads) for path in each.files]
        for file in files:
            file.load()
        return files

    def hold(self, each: Reloadable, files: list[WatchedFile]) -> None:
        """Watch its files too."""
        self._files[each] = files
        self._watch(each)

    def release(self, each: Reloadable) -> None:
        """Its files are of no concern any more."""
        self._files.pop(each, None)
        for watch in self._watches.pop(each, ()):
            watch.cancel()

    @property
    def expiries(self) -> dict[Path, float]:
        """When what is loaded expires, by file, in seconds since the epoch.

        The earliest of those that use the file.
        """
        found: dict[Path, float] = {}
        for path, expiry_s in (item for each in list(self._files) for item in each.expiries.items()):
            found[path] = min(expiry_s, found.get(path, expiry_s))
        return found

    async def run(self) -> None:
        """Until cancelled."""
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
    """Of the first certificate in a PEM file, which is the peer's to see; seconds since the epoch.

    None where the file holds none that can be read: whether it can be used is for OpenSSL to say.
    """
    ends = _ends(path)
    return ends[0] if ends else None


def expiry_of_cas(path: Path) -> float | None:
    """Of the certificate in a PEM file that is valid longest: after it nobody is trusted."""
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
    """One series for each file."""

    def __init__(self, expiries: Callable[[], Mapping[Path, float]]) -> None:
        """`expiries`: of the files in use."""
        self._expiries = expiries

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "penstock_certificate_expiry_timestamp_seconds",
            "When the certificate loaded from this file expires, since the epoch; of CAs, the last of them",
            labels=["file"],
        )
        for path, expiry_s in sorted(self._expiries().items()):
            family.add_metric([str(path)], expiry_s)
        return (family,)
