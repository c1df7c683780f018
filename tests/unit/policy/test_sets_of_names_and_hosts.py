"""Sets of names and of addresses: their parts, their examples, and how they are written."""

import pytest

from proxy.metadata.acl import PatternType
from proxy.policy.hosts import (
    EVERY_HOST,
    HostScope,
    branches_of_hosts,
    has_host,
    host_parts,
    joined,
)
from proxy.policy.names import (
    EVERY_NAME,
    Area,
    Pattern,
    branches_of_names,
    example_of,
    is_in,
    name_parts,
    pattern_of,
)

pytestmark = pytest.mark.spec("D18")


def written(hosts: list[str], but: list[str]) -> list[str]:
    """The set of all addresses in some hosts and in none of others."""
    parts = host_parts(frozenset([*hosts, *but]))
    inside, outside = HostScope(frozenset(hosts), others=False), HostScope(frozenset(but), others=True)
    of_set = [part for part in parts if inside.includes(part.example) and outside.includes(part.example)]
    return [
        str(branch) for branch in branches_of_hosts(joined(each for part in of_set for each in part.hosts))
    ]


@pytest.mark.parametrize(
    ("hosts", "but", "text"),
    [
        (["0.0.0.0/0", "::/0"], [], ["*"]),
        (["0.0.0.0/0", "::/0"], ["10.0.0.1"], ["* but 10.0.0.1"]),
        (
            ["0.0.0.0/0", "::/0"],
            ["10.0.0.0/8", "2001:db8::/32"],
            ["* but 10.0.0.0/8, 2001:db8:0:0:0:0:0:0/32"],
        ),
        (["0.0.0.0/0"], [], ["0.0.0.0/0"]),
        (["10.0.0.0/9", "10.128.0.0/9"], [], ["10.0.0.0/8"]),
        (["10.0.0.0/8"], ["10.1.0.0/16"], ["10.0.0.0/8 but 10.1.0.0/16"]),
        (["10.0.0.1", "10.0.0.4"], [], ["10.0.0.1", "10.0.0.4"]),
        (["0:0:0:0:0:0:0:1"], [], ["0:0:0:0:0:0:0:1"]),
    ],
)
def test_a_set_of_hosts_is_written_as_few_networks(hosts: list[str], but: list[str], text: list[str]) -> None:
    assert written(hosts, but) == text


@pytest.mark.parametrize("host", ["*", "localhost", "::1", "0.0.0.0", "0.0.0.0/32", "10.0.0.1%eth0"])
def test_a_host_that_no_client_has_cuts_nothing(host: str) -> None:
    parts = host_parts(frozenset([host]))

    assert joined(each for part in parts for each in part.hosts) == EVERY_HOST
    assert [part.example for part in parts] == ["192.0.2.1", "2001:db8:0:0:0:0:0:1"]


def test_an_example_is_an_address_that_a_client_may_have() -> None:
    parts = host_parts(
        frozenset(["0.0.0.0/31", "192.0.2.1", "0:0:0:0:0:fffe:0:0/95", "0:0:0:0:0:fffe:0:0/96"])
    )

    assert {part.example: has_host(part.hosts, part.example) for part in parts} == {
        "0.0.0.3": True,
        "0.0.0.1": True,
        "192.0.2.1": True,
        "2001:db8:0:0:0:0:0:1": True,
        "0:0:0:0:0:fffe:0:1": True,
    }


def test_names_are_cut_by_prefixes_and_literal_names() -> None:
    patterns = [Pattern("a", False), Pattern("ab", False), Pattern("abc", True), Pattern("b", True)]

    parts = list(name_parts(Area([EVERY_NAME]), patterns))

    assert sorted(part.example for part in parts) == ["abc", "abx", "ax", "b", "x"]
    for part in parts:
        others = [each.example for each in parts if each is not part]
        assert is_in(part.names, part.example)
        assert not [name for name in others if is_in(part.names, name)]
        assert is_in(part.names, example_of(part.names))


def test_an_example_has_none_of_the_letters_that_lead_to_other_parts() -> None:
    taken = [Pattern(f"t{letter}", False) for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]

    examples = [part.example for part in name_parts(Area([Pattern("t", False)]), taken)]

    assert "t!" in examples
    assert len(set(examples)) == len(taken) + 1


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({EVERY_NAME}, ["*"]),
        ({Pattern("a", False), Pattern("ab", True)}, ["a* but ab"]),
        ({Pattern("a", False), Pattern("ab", False), Pattern("abc", True)}, ["a* but (ab* but abc)"]),
        ({Pattern("a", True), Pattern("b", False)}, ["a", "b*"]),
        ({Pattern("a*", True), Pattern("", True)}, ['""', '"a*"']),
    ],
)
def test_a_set_of_names_is_written_with_what_is_left_out(names: set[Pattern], text: list[str]) -> None:
    assert [str(branch) for branch in branches_of_names(frozenset(names))] == text


def test_the_wildcard_of_an_acl_is_every_name_and_an_area_has_what_both_have() -> None:
    assert pattern_of("*", PatternType.LITERAL) == pattern_of("", PatternType.PREFIXED) == EVERY_NAME
    one = Area([Pattern("a", False), Pattern("ab", False), Pattern("c", True)])
    other = Area([Pattern("abc", True), Pattern("c", False), Pattern("d", False)])

    assert one.roots == [Pattern("a", False), Pattern("c", True)]
    assert one.common(other).roots == other.common(one).roots == [Pattern("abc", True), Pattern("c", True)]
    assert [one.meets(Pattern(name, False)) for name in ("", "abz", "b", "c", "cc")] == [
        True,
        True,
        False,
        True,
        False,
    ]
