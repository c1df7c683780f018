"""Networks as hosts of ACLs (KIP-1276), read as proxy.metadata.networks reads them.

Imports neither Spark nor this package, because it is pickled with the plan.
"""

import re
from ipaddress import IPv6Address, ip_address, ip_network

_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}/\d{1,2}", re.ASCII)
_LENGTH = re.compile(r"[+-]?\d+")


def network_bits(host: str) -> str | None:
    """Returns what the bits of addresses in a network begin with, after `4:` or `6:`; None: it is none."""
    address, _, length = host.partition("/")
    if ":" in host and _LENGTH.fullmatch(length):
        address = address[1:-1] if address.startswith("[") and address.endswith("]") else address
        address = address.partition("%")[0]
    elif _IPV4.fullmatch(host):
        address = ".".join(str(int(octet)) for octet in address.split("."))
    else:
        return None
    try:
        parsed, network = ip_address(address), ip_network((address, int(length)), strict=False)
    except ValueError:
        return None
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return None
    bits = f"{int(network.network_address):0{network.max_prefixlen}b}"
    return f"{network.version}:{bits[: network.prefixlen]}"
