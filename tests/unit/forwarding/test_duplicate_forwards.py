"""What a controller keeps of its responses, for proxies that retry."""

import pytest

from forwarding.net.duplicate_forwards import ResponseCache
from proxy.wire import types

pytestmark = pytest.mark.spec("E12", "O6")


def response(size_bytes: int) -> types.EnvelopeResponse:
    return types.EnvelopeResponse(response_data=bytes(size_bytes))


def kept(cache: ResponseCache, count: int) -> list[int]:
    return [number for number in range(count) if cache.get(("User:proxy", f"id-{number}")) is not None]


def test_the_oldest_responses_are_forgotten_beyond_a_number_and_beyond_their_bytes() -> None:
    many, large = ResponseCache(max_responses=3), ResponseCache(max_bytes=1_000)
    for number in range(10):
        many.put(("User:proxy", f"id-{number}"), response(10))
        large.put(("User:proxy", f"id-{number}"), response(400))
        large.put(("User:proxy", f"id-{number}"), response(400))

    assert (kept(many, 10), kept(large, 10)) == ([7, 8, 9], [8, 9])


def test_a_response_that_is_too_large_by_itself_is_not_kept_and_harms_no_other() -> None:
    cache = ResponseCache(max_bytes=1_000)
    cache.put(("User:proxy", "id-0"), response(2_000))
    cache.put(("User:proxy", "id-1"), response(900))

    assert kept(cache, 2) == [1]
