"""Names of groups: valid ones are sorted and unique; what exceeds a limit is an error, never truncated."""

import pytest

from proxy.security.principal import MAX_GROUP_NAME_BYTES, MAX_GROUPS, MAX_GROUPS_BYTES, group_names

pytestmark = pytest.mark.spec("A8")


def test_groups_are_sorted_and_unique_and_their_bytes_decide() -> None:
    # The second letter of the last one is Cyrillic, and "é" is one character or two: four groups.
    names = ["payments", "ops:eu", "payments", "pаyments", "caf\u00e9", "cafe\u0301", " padded ", "User:root"]

    assert group_names(names) == (
        " padded ",
        "User:root",
        "cafe\u0301",
        "caf\u00e9",
        "ops:eu",
        "payments",
        "pаyments",
    )
    assert group_names(["b", "a"], "idp:") == ("idp:a", "idp:b")
    assert group_names([]) == ()


@pytest.mark.parametrize("name", ["a\0", "\n", "a\x7f", "a\x85b", "\ud800", "a\udfff"])
def test_a_name_with_a_control_character_or_half_a_surrogate_pair_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="contains a control character or is not text"):
        group_names(["good", name])


def test_a_group_has_a_name_which_is_no_wildcard() -> None:
    with pytest.raises(ValueError, match="is empty"):
        group_names(["good", ""], "prefix")
    with pytest.raises(ValueError, match=r"named \*"):
        group_names(["*"])
    assert group_names(["*"], "idp:") == ("idp:*",)


def test_the_limits_are_exact() -> None:
    most = [f"{number}" for number in range(MAX_GROUPS)]
    assert len(group_names([*most, "0"])) == MAX_GROUPS
    with pytest.raises(ValueError, match="1001 groups, limit 1000"):
        group_names([*most, "another"])

    assert group_names(["ü" * 124 + "x"]) == ("ü" * 124 + "x",)
    with pytest.raises(ValueError, match="has 250 bytes, limit 249"):
        group_names(["ü" * 125])
    with pytest.raises(ValueError, match="has 250 bytes, limit 249"):
        group_names(["x" * MAX_GROUP_NAME_BYTES], "p")

    full = [f"{number:0128}" for number in range(MAX_GROUPS_BYTES // 128)]
    assert len(group_names(full)) == 128
    with pytest.raises(ValueError, match="have 16385 bytes, limit 16384"):
        group_names([*full, "x"])
