"""The immutable mapping against a dict: any run of changes, and every earlier version untouched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.metadata.sharded_map import ShardedMap

changes = st.dictionaries(st.integers(0, 300), st.one_of(st.none(), st.integers(0, 5)), max_size=40)


@pytest.mark.spec("S2")
@settings(max_examples=150, deadline=None)
@given(st.lists(changes, max_size=20), st.sets(st.integers(0, 300)))
def test_any_run_of_changes_gives_what_a_dict_gives_and_leaves_earlier_versions_alone(
    steps: list[dict[int, int | None]], start: set[int]
) -> None:
    reference = dict.fromkeys(start, 9)
    versions: list[tuple[ShardedMap[int, int], dict[int, int]]] = [(ShardedMap(reference), dict(reference))]
    for step in steps:
        for key, value in step.items():
            reference.pop(key, None)
            if value is not None:
                reference[key] = value
        versions.append((versions[-1][0].updated(step), dict(reference)))

    for version, expected in versions:
        assert dict(version) == expected
        assert len(version) == len(expected)
        assert {key: version.get(key) for key in range(301)} == {key: expected.get(key) for key in range(301)}
        assert [key in version for key in range(301)] == [key in expected for key in range(301)]


@pytest.mark.spec("S2")
@pytest.mark.parametrize("size", [0, 1, 64, 65, 1025, 20_000])
def test_equal_contents_are_equal_however_they_came_about(size: int) -> None:
    at_once = ShardedMap({number: str(number) for number in range(size)})
    one_by_one: ShardedMap[int, str] = ShardedMap()
    for start in range(0, size, 37):
        one_by_one = one_by_one.updated({n: str(n) for n in range(start, min(start + 37, size))})

    assert one_by_one == at_once
    assert sorted(one_by_one) == list(range(size))


@pytest.mark.spec("S2")
def test_a_change_shares_all_but_one_shard_with_the_version_before() -> None:
    before = ShardedMap({number: number for number in range(20_000)})

    after = before.updated({5: None})

    shared = sum(a is b for a, b in zip(before._shards, after._shards, strict=True))
    assert (shared, len(before._shards)) == (len(after._shards) - 1, 256)
    assert max(map(len, before._shards)) < 200


@pytest.mark.spec("S2")
def test_no_change_gives_the_same_object_and_a_missing_key_its_error() -> None:
    mapping = ShardedMap({1: "a"})

    assert mapping.updated({}) is mapping
    with pytest.raises(KeyError):
        mapping[2]


@pytest.mark.spec("O8")
def test_growth_splits_only_the_shard_that_a_change_touches() -> None:
    mapping: ShardedMap[int, int] = ShardedMap()
    most = 0
    for number in range(20_000):
        before, mapping = mapping, mapping.updated({number: number})
        known = set(map(id, before._shards))
        most = max(most, sum(len(shard) for shard in mapping._shards if id(shard) not in known))

    # Rebuilding all of it, as growth once did, copies thousands of entries at a time.
    assert most <= 1_000
