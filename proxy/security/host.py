"""Client addresses as in ACLs: the text of Java's getHostAddress, compared exactly.

An IPv6 address is written with all its eight groups ("0:0:0:0:0:0:0:1"), and an IPv4 address of an IPv6
socket is written as IPv4.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address


def host_address(address: str | bytes) -> str:
    """Convert a socket's address (with its zone after %) or 4 or 16 raw bytes; ValueError otherwise."""
    if isinstance(address, str):
        text, percent, zone = address.partition("%")
        return _text(ip_address(text)) + percent + zone
    if len(address) not in (4, 16):
        raise ValueError(f"an address of {len(address)} bytes, neither 4 nor 16")
    return _text(ip_address(bytes(address)))


def _text(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
