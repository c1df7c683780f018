"""The groups in a token: where the claim is, what it may be, and what rejects the login."""

from typing import Any

import pytest

from proxy.security.claims import ClaimPath, GroupsClaim

pytestmark = pytest.mark.spec("A8")

URL = "https://example.com/groups"


def groups(path: str, payload: dict[str, Any], separator: str = "", prefix: str = "") -> tuple[str, ...]:
    return GroupsClaim(ClaimPath.parse(path), separator, prefix).groups(payload)


@pytest.mark.parametrize(
    ("path", "payload"),
    [
        ("groups", {"groups": ["b", "a", "b"]}),
        ("realm_access.roles", {"realm_access.roles": ["a", "b"], "realm_access": {"roles": ["x"]}}),
        ("/realm_access/roles", {"realm_access": {"roles": ["a", "b"]}}),
        ("/resource_access/kafka.eu/roles", {"resource_access": {"kafka.eu": {"roles": ["a", "b"]}}}),
        (URL, {URL: ["a", "b"]}),
        ("/https:~1~1example.com~1groups/all", {URL: {"all": ["a", "b"]}}),
        ("/a~01/b", {"a~1": {"b": ["a", "b"]}}),
    ],
)
def test_a_name_is_a_claim_and_a_pointer_leads_to_one(path: str, payload: dict[str, Any]) -> None:
    assert groups(path, payload) == ("a", "b")


def test_a_text_is_one_group_or_several_with_a_separator() -> None:
    assert groups("g", {"g": "a, b"}) == ("a, b",)
    assert groups("g", {"g": "b,, a ,"}, ",") == ("a", "b")
    # Groups that users of the provider may found themselves.
    assert groups("g", {"g": "admins\u00a0,\u2003ops"}, ",") == ("admins\u00a0", "\u2003ops")
    assert groups("g", {"g": ["a,b"]}, ",") == ("a,b",)
    assert groups("g", {"g": "a b"}, " ", "idp:") == ("idp:a", "idp:b")
    assert groups("g", {"g": ""}, ",") == ()


@pytest.mark.parametrize("payload", [{}, {"a": None}, {"a": {}}, {"a": {"b": None}}, {"a": {"b": []}}])
def test_a_claim_that_is_absent_means_no_groups(payload: dict[str, Any]) -> None:
    assert groups("/a/b", payload) == ()


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (7, "/a/b is neither a string nor a list of them"),
        (True, "/a/b is neither a string nor a list of them"),
        ({"admins": True}, "/a/b is neither a string nor a list of them"),
        (["good", 7], "/a/b is neither a string nor a list of them"),
        (["good", ["nested"]], "/a/b is neither a string nor a list of them"),
        (["good", None], "/a/b is neither a string nor a list of them"),
        ("", "/a/b: the name of a group is empty"),
        (["a\0"], "/a/b: the name of a group contains a control character or is not text"),
        ([str(number) for number in range(1001)], "/a/b: 1001 groups, limit 1000"),
    ],
)
def test_a_claim_of_a_wrong_type_or_size_is_an_error_that_names_it(value: Any, fault: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011
        groups("/a/b", {"a": {"b": value}})
    assert str(wrong.value) == fault


@pytest.mark.parametrize("way", ["text", 7, ["b"], True])
def test_a_path_through_anything_but_objects_is_an_error(way: Any) -> None:
    with pytest.raises(ValueError, match="/a/b leads through a value that is no object"):
        groups("/a/b", {"a": way})


def test_groups_that_the_provider_holds_elsewhere_are_an_error_and_not_absent() -> None:
    """As Entra ID does for users in many groups: a DENY for one of them would be lost."""
    payload = {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}}

    with pytest.raises(ValueError, match="groups is not in the token, which refers to another place"):
        groups("groups", payload)
    with pytest.raises(ValueError, match="another place"):
        groups("/groups/all", payload)
    assert groups("roles", payload | {"roles": ["a"]}) == ("a",)


@pytest.mark.parametrize(("path", "fault"), [("", "empty"), ("/a~b", "~ that is neither"), ("/a~", "~ that")])
def test_what_is_no_path_is_rejected(path: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ClaimPath.parse(path)
