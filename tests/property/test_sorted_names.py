"""The sorted names against a plain sorted list: any changes, every search, old versions untouched."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.metadata.sorted_names import SortedNames, after

names = st.text("ab\U0010ffff", max_size=4)
pairs = st.tuples(names, st.sampled_from(["x", "y"]))


@pytest.mark.spec("S7")
@settings(max_examples=200, deadline=None)
@given(st.sets(pairs), st.lists(st.tuples(st.sets(pairs), st.sets(pairs)), max_size=6), names)
def test_changes_and_searches_are_those_of_a_sorted_list(
    start: set[tuple[str, str]], steps: list[tuple[set[tuple[str, str]], set[tuple[str, str]]]], name: str
) -> None:
    expected = set(start)
    versions = [(SortedNames(start), sorted(expected))]
    for removed, added in steps:
        expected = (expected - removed) | added
        versions.append((versions[-1][0].updated(removed, added), sorted(expected)))

    for version, content in versions:
        prefixes = {pair[0] for pair in content if pair[0] and name.startswith(pair[0])}
        found = [pair[0] for pair in version.prefixes_of(name) if pair is not None]
        assert (list(version), len(version)) == (content, len(content))
        assert version.at_or_after(name) == next((pair for pair in content if pair[0] >= name), None)
        assert version.at_or_before(name) == next((pair for pair in content[::-1] if pair[0] <= name), None)
        assert list(dict.fromkeys(found)) == sorted(prefixes, key=len, reverse=True)


@pytest.mark.spec("S7")
@given(names.filter(bool), names)
def test_all_names_under_a_prefix_lie_before_the_name_after_it(prefix: str, name: str) -> None:
    end = after(prefix)

    assert name.startswith(prefix) == (prefix <= name and (end is None or name < end))


@pytest.mark.spec("O8")
def test_a_change_of_many_names_copies_only_those_around_it() -> None:
    before = SortedNames((f"topic-{number:06}", "x") for number in range(50_000))

    changed = before.updated([], [("topic-025000-a", "y")])

    assert len(set(map(id, changed._chunks)) - set(map(id, before._chunks))) == 1
    assert max(map(len, changed._chunks)) <= 256
