"""Networks as hosts of ACLs, in CIDR notation (KIP-1276), as Kafka 4.4 reads them.

`10.0.0.0/8`, `2001:db8::/32`. Bits beyond the prefix may be set and do not count. An IPv6 address may have
brackets and a zone, which does not count either; one that stands for an IPv4 address is rejected. Numbers may
begin with zeros.
"""

import re
from functools import lru_cache
from ipaddress import ip_address, ip_network

_IPV4 = re.compile(r"(?P<address>\d{1,3}(\.\d{1,3}){3})/(?P<length>\d{1,2})", re.ASCII)
_IPV6 = re.compile(
    r"(?P<bracket>\[)?(?P<address>[0-9A-Fa-f:.]+)(%[^%\]\s]+)?(?(bracket)\])/(?P<length>[+-]?\d+)"
)
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")
NO_ADDRESS = "0.0.0.0"  # noqa: S104  # Compared, and bound to nowhere.
"""In no network, as in Kafka."""

Lengths = tuple[tuple[int, int], ...]
"""The bits of an address (32 or 128) and the bits of a prefix, for each length that some network has."""


@lru_cache(maxsize=10_000)
def network_text(text: str) -> str | None:
    """Return a network as decisions look it up: its first address in Java's form, and the length.

    None: it is no network.
    """
    found = (_IPV6 if ":" in text else _IPV4).fullmatch(text)
    if found is None:
        return None
    address = _LEADING_ZEROS.sub("", found["address"])
    try:
        network = ip_network((address, int(found["length"])), strict=False)
        is_mapped = getattr(ip_address(address), "ipv4_mapped", None) is not None
    except ValueError:
        return None
    return (
        None if is_mapped else _text(int(network.network_address), network.max_prefixlen, network.prefixlen)
    )


def length_of(network: str) -> tuple[int, int]:
    """Return the bits of an address and of the prefix, of a network as `network_text` returns it."""
    address, _, length = network.partition("/")
    return 128 if ":" in address else 32, int(length)


@lru_cache(maxsize=10_000)
def networks_of(address: str, lengths: Lengths) -> tuple[str, ...]:
    """Return the networks of these lengths that the address is in, in their order, as `network_text` does.

    `address`: in Java's form, without a zone.
    """
    parsed = ip_address(address)
    if address == NO_ADDRESS:
        return ()
    number, bits = int(parsed), parsed.max_prefixlen
    return tuple(
        _text(number >> (bits - length) << (bits - length), bits, length)
        for of_bits, length in lengths
        if of_bits == bits
    )


def _text(number: int, bits: int, length: int) -> str:
    if bits == 32:
        return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}/{length}"
    groups = (f"{number >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))
    return f"{':'.join(groups)}/{length}"
