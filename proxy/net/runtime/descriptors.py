"""How many files this process may have open, and how many connections that is good for.

Used by the entry points, which raise the limit, by proxy.net.clients.admission, which keeps to it, and by
`penstock check`.
"""

import os
import resource
from contextlib import suppress

RESERVED = 256
"""For all that is no client's connection: spool, logs, HTTP, controllers and brokers."""
MAX_HELD = 1_000
"""Connections that were turned away and wait for being closed."""
PER_CONNECTION = 2
"""The client's socket and the broker's."""
UNLIMITED = 1 << 20


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as a JVM does; the limit in effect."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):  # Not everywhere may it be unlimited.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def limit() -> int:
    """How many files may be open now."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def highest_limit() -> int:
    """How many that may be after `raise_limit`."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def held(files: int) -> int:
    """How many connections that were turned away may wait."""
    return max(0, min(MAX_HELD, (files - RESERVED) // 20))


def connections(files: int) -> int:
    """How many clients find room with so many files open."""
    return max(1, (files - RESERVED - held(files)) // PER_CONNECTION)


def needed(clients: int) -> int:
    """How many files have to be open at most for so many clients."""
    sockets = PER_CONNECTION * clients
    return RESERVED + sockets + min(MAX_HELD, sockets // 19 + 1)


def open_count() -> int:
    """How many are open now; 0 where the kernel does not say."""
    # To list them takes 60 ms where there are 18,000: kernels before 6.2 have no other way, and say 0.
    try:
        return os.stat("/proc/self/fd").st_size
    except OSError:
        return 0


def _number(value: int) -> int:
    return UNLIMITED if value == resource.RLIM_INFINITY else value
