"""The index of ACLs: what a change copies, and what a decision is offered."""

import pytest

from proxy.metadata.acl import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from tests.support.metadata_log import acl, acls_image


@pytest.mark.spec("S7")
def test_a_name_is_covered_by_its_literal_then_its_longest_prefix_then_the_wildcard() -> None:
    literal = acl("orders")
    longer = acl("order", pattern_type=PatternType.PREFIXED)
    shorter = acl("o", pattern_type=PatternType.PREFIXED)
    wildcard = acl("*")
    image = acls_image([wildcard, acl("x", pattern_type=PatternType.PREFIXED), shorter, longer, literal])

    covering = image.resources[ResourceType.TOPIC].covering("orders")

    assert [pattern[("User:alice", "*")] for pattern in covering] == [
        (literal,),
        (longer,),
        (shorter,),
        (wildcard,),
    ]


@pytest.mark.spec("S7")
def test_prefixes_longer_than_the_name_are_not_probed() -> None:
    image = acls_image([acl("a" * length, pattern_type=PatternType.PREFIXED) for length in (1, 3, 249)])

    assert len(list(image.resources[ResourceType.TOPIC].covering("aa"))) == 1


@pytest.mark.spec("S7")
def test_a_prefix_length_is_forgotten_with_the_last_prefix_that_has_it() -> None:
    first, second = (acl(name, pattern_type=PatternType.PREFIXED) for name in ("ab", "cd"))
    both = acls_image([first, second, acl("x", pattern_type=PatternType.PREFIXED)])

    one = _without(both, first.id)
    none = _without(one, second.id)

    lengths = [image.resources[ResourceType.TOPIC].prefix_lengths for image in (both, one, none)]
    assert lengths == [(1, 2), (1, 2), (1,)]


@pytest.mark.spec("S7")
def test_one_added_acl_leaves_the_index_of_all_others_as_it_is() -> None:
    before = acls_image(acl(f"topic-{number}") for number in range(5000))
    delta = AclsDelta(before, compacted=False)
    delta.add(acl("topic-17", Operation.WRITE))

    after = delta.apply()

    unchanged = sum(
        after.resources[ResourceType.TOPIC].literal[f"topic-{number}"]
        is before.resources[ResourceType.TOPIC].literal[f"topic-{number}"]
        for number in range(5000)
    )
    assert (unchanged, after.count, before.count) == (4999, 5001, 5000)


@pytest.mark.spec("S7")
def test_removing_everything_leaves_the_empty_image() -> None:
    acls = [acl("a"), acl("a", Operation.WRITE), acl("b", pattern_type=PatternType.PREFIXED)]
    image = acls_image(acls)

    for removed in acls:
        image = _without(image, removed.id)

    assert image == AclsImage.EMPTY


@pytest.mark.spec("S1")
def test_a_record_that_repeats_an_id_replaces_the_acl() -> None:
    first = acl("a")
    second = acl("b", acl_id=first.id)

    image = acls_image([first, second])

    assert image == acls_image([second])
    assert not image.resources[ResourceType.TOPIC].covers("a")


@pytest.mark.spec("S8")
def test_an_acl_that_says_the_same_is_found_whatever_its_id() -> None:
    present = acl("a", host="10.0.0.1")
    image = acls_image([present, acl("a", Operation.WRITE, host="10.0.0.1")])

    assert image.existing(acl("a", host="10.0.0.1")) == present
    assert image.existing(acl("a", host="10.0.0.2")) is None
    assert image.existing(acl("a", host="10.0.0.1", pattern_type=PatternType.PREFIXED)) is None
    assert image.existing(acl("a", host="10.0.0.1", resource_type=ResourceType.GROUP)) is None


def _without(image: AclsImage, acl_id: str) -> AclsImage:
    delta = AclsDelta(image, compacted=False)
    delta.remove(acl_id)
    return delta.apply()


@pytest.mark.spec("O8", "S7")
@pytest.mark.parametrize("pattern_type", [PatternType.ANY, PatternType.MATCH, PatternType.LITERAL])
def test_a_filter_that_names_a_resource_does_not_look_at_all_acls(
    pattern_type: PatternType, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = acls_image(acl(f"topic-{number}") for number in range(1_000))
    wanted = AclFilter(
        ResourceType.ANY, "topic-7", pattern_type, None, None, Operation.ANY, PermissionType.ANY
    )
    looked_at: list[str] = []
    matches = AclFilter.matches

    def counted(self: AclFilter, candidate: Acl) -> bool:
        looked_at.append(candidate.resource_name)
        return matches(self, candidate)

    monkeypatch.setattr(AclFilter, "matches", counted)

    assert [each.resource_name for each in image.select(wanted)] == ["topic-7"]
    assert looked_at == ["topic-7"]
