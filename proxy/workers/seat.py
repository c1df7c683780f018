"""What a worker is told at its start: which one it is, and the descriptors it inherits.

Written by the supervisor onto the worker's command line, read by proxy.process. The configuration comes as
the supervisor has read it: what was edited since is for the next start of all.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proxy.config import ProxyConfig, split_host_port
from proxy.config.reading import parse
from proxy.workers.member import Member
from proxy.workers.segment import Segment, layout
from proxy.workers.spools import spool_directory


@dataclass(frozen=True, slots=True)
class Seat:
    number: int
    """From 0 on."""
    config: int
    """Descriptor of the configuration's text."""
    segment: int
    control: int
    """Descriptor of the socket to the supervisor."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Name of each listener -> its port."""

    def told(self) -> str:
        """As it stands on the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Seat":
        """ValueError for what is none."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"--worker is for the supervisor's use: {error}") from error

    def configuration(self, path: Path) -> ProxyConfig:
        """The proxy's, as it is for this worker; ConfigError. `path` is what it was read from."""
        content = os.pread(self.config, os.fstat(self.config).st_size, 0)
        return self.own(parse(path, content, ProxyConfig))

    def member(self, config: ProxyConfig) -> Member:
        """This worker's view of its group."""
        return Member(Segment(self.segment, layout(config)), self.number, self.control)

    def own(self, whole: ProxyConfig) -> ProxyConfig:
        """The configuration of the proxy as it is for this worker: an identity and a spool of its own."""
        listeners = [
            listener.model_copy(update={"bind": _with_port(listener.bind, self.ports[listener.name])})
            for listener in whole.listeners
        ]
        spool = spool_directory(whole.audit.spool_dir, self.number)
        changes: dict[str, Any] = {
            "proxy_id": f"{whole.proxy_id}.w{self.number}",
            "listeners": tuple(listeners),
            "audit": whole.audit.model_copy(update={"spool_dir": spool}),
            "http": None,
        }
        return whole.model_copy(update=changes)


def _with_port(bind: str, port: int) -> str:
    host, _ = split_host_port(bind)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
