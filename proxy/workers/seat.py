"""The arguments of a worker: its number, and the descriptors that it inherits.

The supervisor writes them to the worker's command line; proxy.app reads them. The configuration is the
one in effect at the supervisor: later edits of the file count only after a reload or restart.
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
from proxy.net.runtime.listening import address_text
from proxy.workers.member import Member
from proxy.workers.segment import Segment, layout
from proxy.workers.spools import spool_directory


@dataclass(frozen=True, slots=True)
class Seat:
    """The arguments of one worker."""

    number: int
    """Starts at 0."""
    config: int
    """Descriptor of a file with the configuration's text."""
    segment: int
    control: int
    """Descriptor of the socket to the supervisor."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Name of each listener -> its port."""

    def encoded(self) -> str:
        """The value of --worker on the command line."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "Seat":
        """Decode the value of --worker. ValueError if it is invalid."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"--worker is only for supervisors: {error}") from error

    def configuration(self, path: Path) -> ProxyConfig:
        """The configuration for this worker. ConfigError names `path`, where it was read from."""
        with _locked(self.config, fcntl.LOCK_SH):
            content = os.pread(self.config, os.fstat(self.config).st_size, 0)
        return self.own(parse(path, content, ProxyConfig))

    def member(self, config: ProxyConfig) -> Member:
        """This worker's view of its group."""
        return Member(Segment(self.segment, layout(config)), self.number, self.control)

    def own(self, whole: ProxyConfig) -> ProxyConfig:
        """The proxy's configuration with this worker's own identity, ports and spool."""
        listeners = [
            each.model_copy(
                update={"bind": address_text(split_host_port(each.bind)[0], self.ports[each.name])}
            )
            for each in whole.listeners
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
    """Write the configuration that workers read from now on. OSError."""
    text = _document(config)
    with _locked(file, fcntl.LOCK_EX):
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))


def _document(config: ProxyConfig) -> bytes:
    """A file with the same settings as `config`, with absolute paths."""
    document = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if config.controller.mode == "kraft":
        document.pop("metadata", None)  # With kraft it must not be set.
    return yaml.safe_dump(document, allow_unicode=True).encode()


@contextmanager
def _locked(file: int, how: int) -> Iterator[None]:
    # Not flock, because all processes of the group share the open file.
    fcntl.lockf(file, how)
    try:
        yield
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)
