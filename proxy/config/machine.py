"""What this machine, or this user, cannot give a file that is right; and what is right and unwise. Warnings.

For `penstock check`, and for the log of a process that starts. Nothing is changed: an address is bound and
let go, a directory is made and removed.
"""

import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import structlog

from proxy.config.binds import Bind, is_loopback
from proxy.config.document import Location
from proxy.config.listener import Listener
from proxy.config.parts import split_host_port
from proxy.config.proxy import Limits, ProxyConfig
from proxy.net.runtime import descriptors
from proxy.net.runtime.listening import CannotListen, opening

Caution = tuple[Location, str]
"""The key, and what about it."""

_WORKERS = re.compile(r".*\.w\d+")

log = structlog.get_logger(__name__)


class Configuration(Protocol):
    """The configuration of a proxy or of a controller."""

    @property
    def limits(self) -> Limits: ...


def warns_of_id(key: str, name: str) -> Iterator[Caution]:
    """Workers of a proxy have such names in the audit trail."""
    if _WORKERS.fullmatch(name):
        yield (key,), f"{name}: names that end in .w and a number are those of workers; choose another one"


def warns_of_plaintext(location: Location, listener: Listener) -> Iterator[Caution]:
    """A password that whoever listens on the network can read, or guess offline."""
    if listener.security_protocol != "SASL_PLAINTEXT" or is_loopback(listener.bind):
        return
    mechanisms = ", ".join(listener.sasl_enabled_mechanisms)
    yield (
        (*location, "security.protocol"),
        f"logins ({mechanisms}) at {listener.bind} are not encrypted; write SASL_SSL and ssl: {{certificate:"
        " FILE, key: FILE}, or bind to 127.0.0.1",
    )


def warns_of_addresses(binds: Iterable[Bind]) -> Iterator[Caution]:
    """Those that cannot be listened on now."""
    for location, bind in binds:
        reason = _cannot_listen(bind)
        if reason is not None:
            yield location, reason


def warns_of_secrets(files: Iterable[tuple[Location, Path]]) -> Iterator[Caution]:
    """Files with keys or passwords that every user of this machine can read."""
    for location, path in files:
        if _others_can_read(path.resolve()):
            yield location, f"{path} can be read by every user of this machine; run chmod o-r {path}"


def warns_of_directory(location: Location, directory: Path) -> Iterator[Caution]:
    """One that we could not write to."""
    reason = _cannot_write(directory)
    if reason is not None:
        yield location, reason


def missing_files(config: Configuration, files: int) -> str | None:
    """Why `files` open files are too few for `max.connections`; None: they are enough."""
    wanted = config.limits.max_connections
    if isinstance(config, ProxyConfig):
        # Each worker has its share of the connections, and a limit of its own.
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


def report_files(config: Configuration, files: int) -> None:
    """Log it: an error where so many connections were asked for, a warning where that is the default."""
    message = missing_files(config, files)
    if message is not None:
        asked = "max_connections" in config.limits.model_fields_set
        (log.error if asked else log.warning)("too few open files for max.connections", reason=message)


def cannot_be(directory: Path) -> str | None:
    """Why no user could make a directory of it; None: one could, perhaps with more rights than ours."""
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            return f"{path} is a file; name a directory"
    return None


def _cannot_listen(bind: str) -> str | None:
    host, port = split_host_port(bind)
    if port == 0:
        return None
    try:
        with opening(host, port):
            _bind_once(host, port)
    except CannotListen as error:
        return str(error)
    return None


def _bind_once(host: str, port: int) -> None:
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            tried.bind(address)


def _others_can_read(path: Path) -> bool:
    """Whether the file and all directories above it let every user in."""
    try:
        if not path.stat().st_mode & stat.S_IROTH:
            return False
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
    except OSError:
        return False  # We cannot see it, so others need not either.


def _cannot_write(directory: Path) -> str | None:
    if directory.is_dir():
        if os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            return None
        return f"{directory} cannot be written to by this user"
    existing = next(path for path in directory.absolute().parents if path.exists())
    try:
        os.rmdir(tempfile.mkdtemp(dir=existing))
    except OSError as error:
        return f"{directory} cannot be made: {existing}: {error.strerror}"
    return None
