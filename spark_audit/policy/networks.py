"""Networks as hosts of ACLs (KIP-1276), read as proxy.metadata.networks reads them.

Imports neither Spark nor this package, because it is pickled with the plan.
"""

import re
from ipaddress import IPv6Address, ip_address, ip_network

_IPV4 = re.compile(r"(?P<address>\d{1,3}(\.\d{1,3}){3})/(?P<length>\d{1,2})", re.ASCII)
_IPV6 = re.compile(
    r"(?P<bracket>\[)?(?P<address>[0-9A-Fa-f:.]+)(%[^%\]\s]+)?(?(bracket)\])/(?P<length>[+-]?\d+)"
)
_LEADING_ZEROS = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")


def network_bits(host: str) -> str | None:
    """Return what the bits of addresses in a network begin with, after `4:` or `6:`; None: it is none."""
    found = (_IPV6 if ":" in host else _IPV4).fullmatch(host)
    if found is None:
        return None
    address = _LEADING_ZEROS.sub("", found["address"])
    try:
        parsed, network = ip_address(address), ip_network((address, int(found["length"])), strict=False)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return None
    bits = f"{int(network.network_address):0{network.max_prefixlen}b}"
    return f"{network.version}:{bits[: network.prefixlen]}"
