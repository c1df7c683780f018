"""The addresses that a process listens on: finds conflicts, wildcard addresses and loopback addresses."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from proxy.config.document import Location
from proxy.config.parts import KeyProblem, split_host_port

Bind = tuple[Location, str]
"""The key, and its `host:port`."""


def require_different_ports(binds: Iterable[Bind]) -> None:
    """KeyProblem for the second of two addresses with the same port. Port 0 means any free port."""
    before: list[Bind] = []
    for location, bind in binds:
        for other, taken in before:
            if _collide(bind, taken):
                raise KeyProblem(
                    location, f"{bind}: {_key(other)} ({taken}) has the same port; use another one"
                )
        before.append((location, bind))


def is_wildcard(bind: str) -> bool:
    """Whether the address is 0.0.0.0 or ::, which clients cannot connect to."""
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
    # Penstock's IPv6 sockets accept no IPv4 connections, so :: and 0.0.0.0 do not conflict.
    if (":" in host) != (":" in other_host):
        return False
    return host == other_host or is_wildcard(one) or is_wildcard(other)


def _key(location: Sequence[str | int]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else (f" > {step}" if text else step)
    return text
