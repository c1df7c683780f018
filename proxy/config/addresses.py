"""Addresses in settings: `host:port`, addresses that a process listens on, URLs of an identity provider.

A URL of keys or tokens is `https://…`, `file:…`, or `http://` on this machine. Two listen addresses that
conflict are found before either is opened.
"""

import re
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

from pydantic import ValidationInfo
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.document import Location
from proxy.config.parts import KeyProblem

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _identity_url(text: str, info: ValidationInfo) -> str:
    """Check the URL. A `file:` URL is returned with an absolute path."""
    parts = urlsplit(text)
    if parts.scheme == "file":
        return "file:" + quote(str(_file(parts.netloc, parts.path, info)))
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"expected https://… or file:…, found {text!r}")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        # An attacker that can change the response could forge any identity.
        raise ValueError(f"http:// is allowed only to {', '.join(LOOPBACK)}; write https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the URL must not contain a user name or password, because logs and metrics show it; remove them"
        )
    _ = parts.port  # ValueError for an invalid port.
    return text


def _file(host: str, path: str, info: ValidationInfo) -> Path:
    if host not in ("", "localhost"):
        raise ValueError(f"the file: URL has the host {host!r}; write file:/path or file:///path")
    found = Path((info.context or {}).get("directory", Path())) / unquote(path)
    if not found.is_file():
        raise ValueError(f"no such file: {found}")
    return found


IdentityUrl = Annotated[str, AfterValidator(_identity_url)]


def _network(text: object) -> object:
    try:
        if isinstance(text, str):
            return ip_network(text)
    except ValueError:
        pass
    raise ValueError(
        f"expected a network without bits behind its prefix, such as 10.0.3.0/24, found {text!r}"
    )


Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]


def file_of(url: str) -> Path | None:
    """The path in a checked `file:` URL; None for an endpoint."""
    return Path(unquote(url.removeprefix("file:"))) if url.startswith("file:") else None


def host_port(text: str) -> str:
    """Return `text`; ValueError if it is not host:port."""
    scheme, separator, rest = text.partition("://")
    if separator:
        raise ValueError(f"expected host:port, found {text!r}; remove {scheme}://{_path(rest)}")
    host, colon, port = text.rpartition(":")
    if "," in host:
        raise ValueError(f"expected a single host:port, found {text!r}")
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise ValueError(f"expected host:port, found {text!r}{_path(text)}")
    if int(port) > 65535:
        raise ValueError(f"expected host:port, found {text!r}: ports end at 65535")
    _require_host(host, text)
    return text


def _path(rest: str) -> str:
    return f" and /{rest.partition('/')[2]}" if "/" in rest else ""


def _require_host(host: str, text: str) -> None:
    if _LOOKS_LIKE_IPV4.fullmatch(host) or ":" in host or "[" in host:
        bare = host.removeprefix("[").removesuffix("]")
        try:
            version = ip_address(bare).version
        except ValueError:
            raise ValueError(f"expected host:port, found {text!r}: {bare} is not an IP address") from None
        if (version == 6) != (host != bare):
            raise ValueError(f"expected host:port, found {text!r}: write an IPv6 address in [brackets]")
    elif host != "*" and not _NAME.fullmatch(host):
        raise ValueError(f"expected host:port, found {text!r}: {host!r} is not the name of a host")


def _peer(text: str) -> str:
    if split_host_port(host_port(text))[1] == 0:
        raise ValueError(f"expected host:port, found {text!r}: nothing can connect to port 0")
    return text


_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?")


def split_host_port(text: str) -> tuple[str, int]:
    """Split '[::1]:9092' or 'localhost:9092' into host and port."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def _addresses(value: object) -> object:
    listed = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError(f"expected host:port, or several separated by commas, found {value!r}")
    addresses = tuple(_peer(str(each)) for each in listed)
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice:
        raise ValueError(f"the list contains {', '.join(twice)} more than once; remove the duplicates")
    return addresses


HostPort = Annotated[str, AfterValidator(host_port)]


Bootstrap = Annotated[tuple[str, ...], BeforeValidator(_addresses)]
"""Addresses of one cluster: `a:9092,b:9092` as Kafka's bootstrap.servers, or a YAML list."""


Bind = tuple[Location, str]
"""The key, and its `host:port`."""
Peers = tuple[Location, tuple[str, ...]]
"""The key, and addresses of other processes."""


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


def require_other_processes(binds: Iterable[Bind], peers: Iterable[Peers]) -> None:
    """KeyProblem for an address to connect to that is one of the process's own."""
    for location, addresses in peers:
        for address in addresses:
            for own, bind in binds:
                if _leads_to(bind, address):
                    raise KeyProblem(
                        location,
                        f"{address} is the address of this process itself: {_key(own)} ({bind}); write the"
                        " other process's address, or another port",
                    )


def same_host(one: str, other: str) -> bool:
    """Whether two hosts are the same by their text."""
    one, other = (host.lower().removesuffix(".") for host in (one, other))
    return one == other or {one, other} <= {"localhost", "127.0.0.1"} or {one, other} <= {"localhost", "::1"}


def _leads_to(bind: str, address: str) -> bool:
    (bound, port), (host, other_port) = split_host_port(bind), split_host_port(address)
    if port != other_port or port == 0:
        return False
    if not is_wildcard(bind):
        return same_host(bound, host)
    if same_host(host, socket.gethostname()) or host == "localhost" or is_wildcard(address):
        return True
    return is_loopback(address) and (":" in bound) == (":" in host)


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
