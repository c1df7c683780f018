"""The addresses that a process listens on: those that collide, and those that none can connect to."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from proxy.config.document import Location
from proxy.config.parts import KeyProblem, split_host_port

Bind = tuple[Location, str]
"""The key that names it, and `host:port`."""


def require_different_ports(binds: Iterable[Bind]) -> None:
    """KeyProblem for the second of two that take the same port. Port 0 is any that is free."""
    before: list[Bind] = []
    for location, bind in binds:
        for other, taken in before:
            if _collide(bind, taken):
                raise KeyProblem(
                    location, f"{bind}: the port is taken by {_key(other)}: {taken}; give each its own"
                )
        before.append((location, bind))


def is_wildcard(bind: str) -> bool:
    """0.0.0.0 and ::, which listen on every address and are none that one could connect to."""
    host, _ = split_host_port(bind)
    return host == "*" or _is(host, "is_unspecified")


def is_loopback(bind: str) -> bool:
    """Whether only processes of this machine can connect."""
    host, _ = split_host_port(bind)
    return host == "localhost" or _is(host, "is_loopback")


def _is(host: str, what: str) -> bool:
    try:
        return bool(getattr(ip_address(host), what))
    except ValueError:
        return False


def _collide(one: str, other: str) -> bool:
    (host, port), (other_host, other_port) = split_host_port(one), split_host_port(other)
    if port != other_port or port == 0:
        return False
    # An IPv6 socket of ours takes no IPv4 connections: :: and 0.0.0.0 do not meet.
    if (":" in host) != (":" in other_host):
        return False
    return host == other_host or is_wildcard(one) or is_wildcard(other)


def _key(location: Sequence[str | int]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else (f" > {step}" if text else step)
    return text
