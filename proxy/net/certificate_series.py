"""When the certificates in use expire, for Prometheus (SPEC O12).

Asked at each scrape; the moments are those of the files as they were loaded last. A file that has changed on
disk and could not be loaded does not count: what is in use still ends when it did.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


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
