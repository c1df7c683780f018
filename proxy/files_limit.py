"""`max.connections` against the limit of open files: what is wrong, for the log and for `penstock check`.

Takes the configuration of a proxy or a controller; proxy.net.descriptors has the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.config import ProxyConfig
from proxy.net import descriptors

if TYPE_CHECKING:
    from forwarding.config import ControllerConfig

log = structlog.get_logger(__name__)


def missing_files(config: ProxyConfig | ControllerConfig, files: int) -> str | None:
    """In words, what such a limit is not enough for; None: it is enough."""
    wanted = config.limits.max_connections
    if isinstance(config, ProxyConfig):
        # Workers have their share each, and no other limit than a proxy that is alone.
        share = -(-wanted // config.workers)
        needed, effective = descriptors.needed(share), descriptors.connections(files) * config.workers
    else:
        needed, effective = descriptors.RESERVED + wanted, max(1, files - descriptors.RESERVED)
    if needed <= files:
        return None
    return (
        f"limits > max.connections: {wanted} connections need {needed} open files in a process, and its limit"
        f" is {files}: {effective} connections are accepted. Raise the limit (ulimit -n, LimitNOFILE), or"
        " lower max.connections"
    )


def report_files(config: ProxyConfig | ControllerConfig, files: int) -> None:
    """Log it: an error where so many connections were asked for, a warning where that is the default."""
    message = missing_files(config, files)
    if message is not None:
        asked = "max_connections" in config.limits.model_fields_set
        (log.error if asked else log.warning)("too few open files for max.connections", reason=message)
