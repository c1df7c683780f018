"""Sorts of very many elements, and loops over them, stop between pieces (O8)."""

from collections.abc import Callable
from random import Random

import pytest

from proxy.metadata.acl import AclFilter, Operation, PatternType, PermissionType, ResourceType
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import PIECE, Elements, paced_sorted
from tests.session.apis.asking import image_with
from tests.support.sliced import in_slices

pytestmark = pytest.mark.spec("O8")


@pytest.mark.parametrize("size", [0, 1, 999, 1_000, 1_001, 10_000])
@pytest.mark.parametrize("key", [None, lambda number: -number])
def test_the_order_is_that_of_sorted(size: int, key: Callable[[int], int] | None) -> None:
    numbers = [Random(size).randrange(size) for _ in range(size)]

    result, stops = in_slices(lambda: paced_sorted(iter(numbers), key))

    assert result == sorted(numbers, key=key) == paced_sorted(numbers, key)
    assert stops >= size // 1_000


def test_equal_elements_stay_in_their_order() -> None:
    pairs = [(number % 3, number) for number in range(5_000)]

    result, _ = in_slices(lambda: paced_sorted(pairs, lambda pair: pair[0]))

    assert result == sorted(pairs, key=lambda pair: pair[0])


def test_a_search_through_all_acls_stops_between_pieces() -> None:
    image = image_with(*(f"READ TOPIC topic-{number}" for number in range(2_000)))
    every = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)

    found, stops = in_slices(lambda: list(image.acls.select(every)))

    assert len(found) == 2_000
    assert stops >= 2_000 // 64


def test_a_long_array_of_a_decoded_message_is_iterated_in_slices_and_a_short_one_is_a_plain_list() -> None:
    topic = types.MetadataRequest.MetadataRequestTopic
    codec = codecs.request(ApiKey.METADATA, 12)

    def decoded(count: int) -> list[object]:
        body = codec.encode(types.MetadataRequest(topics=[topic(name=f"t{n}") for n in range(count)]))
        topics: list[object] = codec.decode(body)[0].topics
        return topics

    short, long = decoded(PIECE), decoded(10 * PIECE)
    in_order, stops = in_slices(lambda: [each for each in long])  # noqa: C416 - the loop is the subject

    assert (type(short), type(long), stops) == (list, Elements, 10)
    assert in_order == list(long) == long
