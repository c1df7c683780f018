"""The limit of open files, and the number of connections that it allows.

The entry points raise the limit. proxy.net.clients.admission and `penstock check` compute with it.
"""

import os
import resource
from contextlib import suppress

RESERVED = 256
"""Files for everything but client connections: spool, logs, HTTP, controllers and brokers."""
MAX_HELD = 1_000
"""The most rejected connections that wait for being closed."""
PER_CONNECTION = 2
"""A socket to the client, and one to the broker."""
UNLIMITED = 1 << 20


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as a JVM does, and return the limit in effect."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # Some systems do not allow an unlimited number.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def limit() -> int:
    """Return the soft limit of open files."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def highest_limit() -> int:
    """Return the hard limit of open files, which `raise_limit` sets."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def rejected_connections(files: int) -> int:
    """Return how many rejected connections may wait for being closed."""
    return max(0, min(MAX_HELD, (files - RESERVED) // 20))


def connections(files: int) -> int:
    """Return how many clients can connect if `files` may be open."""
    return max(1, (files - RESERVED - rejected_connections(files)) // PER_CONNECTION)


def needed(clients: int) -> int:
    """Return how many files must be allowed for so many clients."""
    sockets = PER_CONNECTION * clients
    return RESERVED + sockets + min(MAX_HELD, sockets // 19 + 1)


def open_count() -> int:
    """Return how many files are open; 0 where the kernel does not say."""
    # Kernels before 6.2 report 0 here. Listing the files instead takes 60 ms for 18,000 of them.
    try:
        return os.stat("/proc/self/fd").st_size
    except OSError:
        return 0


def _number(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value
