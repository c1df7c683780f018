"""What a worker is told at its start: which one it is, and the descriptors it inherits.

Written by the supervisor onto the worker's command line, read by proxy.process. The configuration comes as
the supervisor has it in effect: what was edited since is for the next reload, or start of all.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import yaml

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
        with _locked(self.config, fcntl.LOCK_SH):
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
        changes: dict[str, object] = {
            "proxy_id": f"{whole.proxy_id}.w{self.number}",
            "listeners": tuple(listeners),
            "audit": whole.audit.model_copy(update={"spool_dir": spool}),
            "http": None,
        }
        return whole.model_copy(update=changes)


def give(file: int, config: ProxyConfig) -> None:
    """From now on workers read this configuration from the file of their seats. OSError."""
    text = _document(config)
    with _locked(file, fcntl.LOCK_EX):
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))


def _document(config: ProxyConfig) -> bytes:
    """As a file that `config` could have been read from: with what was set there, and whole paths."""
    document = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if config.controller.mode == "kraft":
        document.pop("metadata", None)  # There it is not to be set.
    return yaml.safe_dump(document, allow_unicode=True).encode()


@contextmanager
def _locked(file: int, how: int) -> Iterator[None]:
    # Not flock: all processes of the group have the open file in common.
    fcntl.lockf(file, how)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)


def _with_port(bind: str, port: int) -> str:
    host, _ = split_host_port(bind)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
