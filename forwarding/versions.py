"""The API versions that the proxy supports together with its broker or the controller (KIP-590, E8)."""

from collections.abc import Collection, Mapping

from proxy.session.apis.table import FORWARDED
from proxy.session.gate import VersionRange
from proxy.wire import types

TRANSACTIONAL_ID_TAG = 10_000
"""Tagged field of the controller's ApiVersions response: the transactional id that clients may not use, UTF-8
(decision 0007)."""

AUDIT_END_TAG = 10_001
"""Tagged field of ApiVersions, of the proxy's request and of the controller's response: the end of the
sender's audit trail, UTF-8, so that the receiver witnesses it (decision 0075)."""

ENVELOPE_ERROR_TAG = 10_002
"""Tagged field of ApiVersions, empty in the request. The response has the error that an Envelope of the
sender would get now, int16 big-endian. `penstock check --connect` requests it: an Envelope would be recorded
as a forward (decision 0120)."""

SAME_ID_TAG = 10_003
"""Tagged field of the response with AUDIT_END_TAG: another process that runs under the proxy's id, UTF-8, for
people to read (decision 0119)."""


def transactional_id_of(tags: Mapping[int, bytes]) -> str | None:
    """Return the controller's transactional id from the tagged fields of its ApiVersions response."""
    try:
        return tags.get(TRANSACTIONAL_ID_TAG, b"").decode() or None
    except UnicodeDecodeError:
        return None


def witness_request(end: str) -> types.ApiVersionsRequest:
    """Return the request by which proxy and controller exchange the ends of their audit trails."""
    request = types.ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1")
    request.unknown_tags = {AUDIT_END_TAG: end.encode()}
    return request


def common(one: VersionRange, other: VersionRange) -> VersionRange | None:
    """Return the versions in both ranges; None if there is none."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None


def for_clients(
    proxy: Mapping[int, VersionRange],
    upstream: Mapping[int, VersionRange],
    controller: Mapping[int, VersionRange] | None,
    local_apis: Collection[int] = (),
) -> dict[int, VersionRange]:
    """Return the versions for the ApiVersions response to clients, by API key.

    The broker never gets a forwarded API: the controller decides, and restricts what it sends to a broker to
    that broker's versions (decision 0079). `controller` is None until one was reached: then no forwarded API
    is offered, and clients have to reconnect to see them. `local_apis`: APIs that the proxy serves itself.
    """
    offered = {}
    for api_key, own in proxy.items():
        served = (controller or {}) if api_key in FORWARDED else upstream
        peer = own if api_key in local_apis else served.get(api_key)
        spoken_by_both = common(own, peer) if peer is not None else None
        if spoken_by_both is not None:
            offered[api_key] = spoken_by_both
    return offered
