"""Warnings about a valid file: what this machine or user lacks, and what is unwise.

`penstock check` prints them, and a starting process logs those about open files. It changes nothing: it
binds an address and releases it, it creates a directory and removes it.
"""

import grp
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import structlog

from proxy.config.addresses import Bind, is_loopback, split_host_port
from proxy.config.document import Location
from proxy.config.listener import ListenerConfig
from proxy.config.proxy import LimitsConfig, ProxyConfig
from proxy.net.runtime import descriptors
from proxy.net.runtime.listening import CannotListen, bound_sockets

Caution = tuple[Location, str]
"""The key, and the warning."""

_WORKERS = re.compile(r".*\.w\d+")

log = structlog.get_logger(__name__)


class Configuration(Protocol):
    """The configuration of a proxy or of a controller."""

    @property
    def limits(self) -> LimitsConfig: ...


def warns_of_id(key: str, name: str) -> Iterator[Caution]:
    """Warn of a name that workers of a proxy have in the audit trail."""
    if _WORKERS.fullmatch(name):
        yield (key,), f"{name}: names that end in .w and a number belong to workers; use another name"


def warns_of_plaintext(location: Location, listener: ListenerConfig) -> Iterator[Caution]:
    """Warn of logins without TLS, which an attacker on the network can read or guess offline."""
    if listener.security_protocol != "SASL_PLAINTEXT" or is_loopback(listener.bind):
        return
    mechanisms = ", ".join(listener.sasl_enabled_mechanisms)
    yield (
        (*location, "security.protocol"),
        f"logins ({mechanisms}) at {listener.bind} are not encrypted; write SASL_SSL and ssl: {{certificate:"
        " FILE, key: FILE}, or bind to 127.0.0.1",
    )


def warns_of_addresses(binds: Iterable[Bind], ours: frozenset[int]) -> Iterator[Caution]:
    """Warn of addresses that the process could not listen on now. `ours`: ports that it has already."""
    for location, bind in binds:
        host, port = split_host_port(bind)
        if port == 0 or port in ours:
            continue
        try:
            for bound in bound_sockets(host, port):
                bound.close()
        except CannotListen as error:
            yield location, str(error)


def warns_of_secrets(files: Iterable[tuple[Location, Path]]) -> Iterator[Caution]:
    """Warn of files with keys or passwords that their group or every user of this machine can read."""
    for location, path in files:
        file = path.resolve()
        who = _readers(file)
        if who is not None:
            bits = "go" if _is_owned(file.stat()) else "o"
            yield location, f"{who} can read {path}; run chmod {bits}-rwx {path}"


def warns_of_directory(location: Location, directory: Path) -> Iterator[Caution]:
    """Warn of a directory that this user could not write to."""
    if directory.is_dir():
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            yield location, f"this user cannot write to {directory}"
        return
    existing = next(path for path in directory.absolute().parents if path.exists())
    try:
        os.rmdir(tempfile.mkdtemp(dir=existing))
    except OSError as error:
        yield location, f"this user cannot create {directory}: {existing}: {error.strerror}"


def warns_of_workers(workers: int, cores: int) -> Iterator[Caution]:
    """Warn of more workers than cores: they only take turns, and each has its share of the limits."""
    if workers > cores:
        yield ("workers",), f"{workers} workers for {cores} cores only take turns; write workers: {cores}"


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def missing_files(config: Configuration, files: int) -> str | None:
    """A message if a limit of `files` open files is too low for `max.connections`; otherwise None."""
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
        f"limits > max.connections: {wanted} connections need {needed} open files in a process, but its limit"
        f" is {files}, so it accepts only {effective} connections; raise the limit (ulimit -n, LimitNOFILE),"
        " or lower max.connections"
    )


def report_files(config: Configuration, files: int) -> None:
    """Log the message: as an error if the file sets max.connections, as a warning for the default."""
    message = missing_files(config, files)
    if message is not None:
        configured = "max_connections" in config.limits.model_fields_set
        (log.error if configured else log.warning)("too few open files for max.connections", reason=message)


def cannot_be(directory: Path) -> str | None:
    """Why no user could create this directory; None if one could, possibly with more rights."""
    for path in (directory, *directory.parents):
        if path.exists() and not path.is_dir():
            return f"{path} is a file; name a directory"
    return None


def _readers(path: Path) -> str | None:
    """Who can read the file besides its owner, and besides a process that reads it through its group."""
    try:
        file, above = path.stat(), [parent.stat() for parent in path.parents]
    except OSError:
        return None  # This user cannot see it.
    if file.st_mode & stat.S_IROTH and all(each.st_mode & stat.S_IXOTH for each in above):
        return "every user of this machine"
    if not (file.st_mode & stat.S_IRGRP and _is_owned(file)):
        return None
    for each in above:
        if not each.st_mode & (stat.S_IXOTH | (stat.S_IXGRP if each.st_gid == file.st_gid else 0)):
            return None
    return f"the group {_group(file.st_gid)}"


def _is_owned(file: os.stat_result) -> bool:
    """Whether this user does not need the file's group to read it, as with fsGroup or root:penstock."""
    return file.st_uid == os.geteuid() and (file.st_uid != 0 or file.st_gid == 0)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
