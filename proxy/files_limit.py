"""Compares `max.connections` with the limit of open files, for the log and for `penstock check`.

It takes the configuration of a proxy or a controller; proxy.net.descriptors has the numbers.
"""

import structlog

from forwarding.config import ControllerConfig
from proxy.config import ProxyConfig
from proxy.net import descriptors

log = structlog.get_logger(__name__)


def missing_files(config: ProxyConfig | ControllerConfig, files: int) -> str | None:
    """A message if the limit `files` is too low; None if it is high enough."""
    wanted = config.limits.max_connections
    if isinstance(config, ControllerConfig):
        needed, effective = descriptors.RESERVED + wanted, max(1, files - descriptors.RESERVED)
    else:
        # Each worker has its share of the connections, and the same limit as a single process.
        share = -(-wanted // config.workers)
        needed, effective = descriptors.needed(share), descriptors.connections(files) * config.workers
    if needed <= files:
        return None
    return (
        f"limits > max.connections: {wanted} connections need {needed} open files in a process, but its limit"
        f" is {files}, so it accepts only {effective} connections; raise the limit (ulimit -n,"
        " LimitNOFILE), or"
        " lower max.connections"
    )


def report_files(config: ProxyConfig | ControllerConfig, files: int) -> None:
    """Logs the message: as an error if the file sets max.connections, as a warning for the default."""
    message = missing_files(config, files)
    if message is not None:
        configured = "max_connections" in config.limits.model_fields_set
        (log.error if configured else log.warning)("too few open files for max.connections", reason=message)
