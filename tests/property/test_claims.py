"""Paths to claims and names of groups, whatever a token contains."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.security.claims import ClaimPath, GroupsClaim
from proxy.security.principal import MAX_GROUP_NAME_BYTES, MAX_GROUPS, MAX_GROUPS_BYTES, group_names

pytestmark = pytest.mark.spec("A8")

NAMES = st.lists(st.text(max_size=6) | st.sampled_from(["a/b", "~", "~1", "https://x.example/g"]), min_size=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=20,
)


def pointer(names: list[str]) -> str:
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names)


@given(NAMES, st.integers())
def test_a_pointer_finds_exactly_what_lies_below_its_names(names: list[str], value: int) -> None:
    payload: Any = value
    for name in reversed(names):
        payload = {name: payload, f"{name}x": 0}

    assert ClaimPath.parse(pointer(names)).names == tuple(names)
    assert ClaimPath.parse(pointer(names)).value(payload) == value


@given(st.text(min_size=1).filter(lambda name: not name.startswith("/")), st.integers())
def test_a_name_is_one_member_of_the_payload_whatever_it_contains(name: str, value: int) -> None:
    assert ClaimPath.parse(name).value({name: value}) == value


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.sampled_from(["a", "/a", "/a/b", "/a/b/c"]))
def test_any_payload_has_valid_groups_or_an_error(payload: dict[str, Any], path: str) -> None:
    try:
        found = GroupsClaim(ClaimPath.parse(path)).groups(payload)
    except ValueError:
        return
    assert found == tuple(sorted(set(found)))
    assert group_names(found) == found
    assert len(found) <= MAX_GROUPS
    assert sum(len(name.encode()) for name in found) <= MAX_GROUPS_BYTES
    assert all(0 < len(name.encode()) <= MAX_GROUP_NAME_BYTES for name in found)
