"""ApiVersions that everyone on a request's way speaks: proxy, broker and controller (KIP-590, E8).

Fed with what each has told, gives what clients are told. Knows nothing of how the answers were got.
"""

from collections.abc import Collection, Mapping

from proxy.session.apis.table import FORWARDED

TRANSACTIONAL_ID_TAG = 10_000
"""Of the controller's ApiVersions response: the id that no client may use, UTF-8 (docs/decisions/0007)."""

VersionRange = tuple[int, int]
"""Lowest and highest version, both included."""


def transactional_id_of(tags: Mapping[int, bytes]) -> str | None:
    """The controller's transactional id, by the tags of its ApiVersions response; None: it does not say."""
    try:
        return tags.get(TRANSACTIONAL_ID_TAG, b"").decode() or None
    except UnicodeDecodeError:
        return None


def common(one: VersionRange, other: VersionRange) -> VersionRange | None:
    """The versions in both ranges; None when there is none."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None


def for_clients(
    proxy: Mapping[int, VersionRange],
    upstream: Mapping[int, VersionRange],
    controller: Mapping[int, VersionRange] | None,
    answered_here: Collection[int] = (),
) -> dict[int, VersionRange]:
    """What ApiVersions answers: per API key the range that works on its whole way.

    `controller` None: none was reached yet, so nothing forwardable is offered; a client that asks then
    reconnects later. `answered_here`: APIs the proxy answers itself, whatever the broker speaks.
    """
    offered = {}
    for api_key, spoken in proxy.items():
        on_the_way = _others(api_key, upstream, controller, answered_here)
        for other in on_the_way:
            spoken_by_both = common(spoken, other) if other is not None else None
            if spoken_by_both is None:
                break
            spoken = spoken_by_both
        else:
            offered[api_key] = spoken
    return offered


def _others(
    api_key: int,
    upstream: Mapping[int, VersionRange],
    controller: Mapping[int, VersionRange] | None,
    answered_here: Collection[int],
) -> list[VersionRange | None]:
    if api_key in answered_here:
        return []
    if api_key in FORWARDED:
        return [upstream.get(api_key), (controller or {}).get(api_key)]
    return [upstream.get(api_key)]
