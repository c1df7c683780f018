"""The narrower grants that would do, and the commands for them: no Spark session is needed."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_audit.arguments import LEAST_PRIVILEGE
from spark_audit.least_privilege.commands import acl_command, quota_command
from spark_audit.least_privilege.grants import grant_rows
from spark_audit.least_privilege.narrowing import Use, narrower
from spark_audit.proposal import SUPPORTED, ProposedAcl, Removal, constant, parse_proposal

pytestmark = pytest.mark.spec("D11")


def an_acl(text: str) -> ProposedAcl:
    permission, principal, host, operation, resource_type, pattern_type, name = text.split()
    return ProposedAcl(resource_type, name, pattern_type, principal, host, operation, permission)


def uses(*texts: str) -> list[Use]:
    """`User:a 10.0.0.1 READ orders` as uses."""
    split = [text.split() for text in texts]
    return [Use(*(who, host, operation, name), 1, 0, 0, ()) for who, host, operation, name in split]


@pytest.mark.parametrize(
    ("grant", "used", "ways", "instead"),
    [
        (
            "ALLOW User:a * ALL TOPIC LITERAL *",
            ["User:a 10.0.0.1 READ orders", "User:a 10.0.0.1 DESCRIBE orders", "User:a 10.0.0.2 DESCRIBE x"],
            ["name", "operation"],
            [
                f"ALLOW User:a * {right}"
                for right in ("DESCRIBE TOPIC LITERAL x", "READ TOPIC LITERAL orders")
            ],
        ),
        (
            "ALLOW User:a 10.0.0.1 READ TOPIC PREFIXED o",
            ["User:a 10.0.0.1 READ orders", "User:a 10.0.0.1 DESCRIBE others"],
            ["name", "operation"],
            [
                f"ALLOW User:a 10.0.0.1 {right}"
                for right in ("DESCRIBE TOPIC LITERAL others", "READ TOPIC LITERAL orders")
            ],
        ),
        (
            "ALLOW User:* 10.0.0.1 READ GROUP LITERAL g",
            ["User:b 10.0.0.1 READ g", "User:a 10.0.0.1 READ g"],
            ["principal"],
            [f"ALLOW User:{name} 10.0.0.1 READ GROUP LITERAL g" for name in "ab"],
        ),
        (
            "ALLOW User:a * READ TOPIC LITERAL x",
            ["User:a 10.0.0.1 DESCRIBE x"],
            ["operation"],
            ["ALLOW User:a * DESCRIBE TOPIC LITERAL x"],
        ),
        (
            "ALLOW User:a * READ GROUP LITERAL *",
            [
                "User:a 10.0.0.1 READ app-1c9e6679-7425-40de-944b-e07fc1f90ae7",
                "User:a 10.0.0.1 DESCRIBE app-fixed",
                "User:a 10.0.0.1 READ orders",
                "User:a 10.0.0.1 READ deadbeef",
            ],
            ["name"],
            [
                f"ALLOW User:a * READ GROUP {name}"
                for name in ("LITERAL deadbeef", "LITERAL orders", "PREFIXED app-")
            ],
        ),
        (
            "ALLOW User:a * READ GROUP PREFIXED app-",
            ["User:a 10.0.0.1 READ app-7f3a91c204", "User:a 10.0.0.1 READ app-x-0000000003-changelog"],
            [],
            ["ALLOW User:a * READ GROUP PREFIXED app-"],
        ),
        (
            "ALLOW User:a * READ GROUP LITERAL *",
            [f"User:a 10.0.0.1 READ console-consumer-{n}" for n in (5821, 77, 10931, 4)],
            ["name"],
            ["ALLOW User:a * READ GROUP PREFIXED console-consumer-"],
        ),
        (
            "ALLOW User:a * READ GROUP LITERAL *",
            ["User:a 10.0.0.1 READ 1c9e6679-7425-40de-944b-e07fc1f90ae7"],
            [],
            ["ALLOW User:a * READ GROUP LITERAL *"],
        ),
        (
            "ALLOW User:a 10.0.0.1 WRITE TOPIC LITERAL *",
            [f"User:a 10.0.0.1 WRITE team.{n}" for n in range(11)],
            ["name"],
            ["ALLOW User:a 10.0.0.1 WRITE TOPIC PREFIXED team."],
        ),
        (
            "ALLOW User:a 10.0.0.1 WRITE TOPIC PREFIXED team.",
            [f"User:a 10.0.0.1 WRITE team.{n}" for n in "abcdefghijk"],
            [],
            ["ALLOW User:a 10.0.0.1 WRITE TOPIC PREFIXED team."],
        ),
    ],
)
def test_a_grant_is_narrowed_to_what_it_was_used_for(
    grant: str, used: list[str], ways: list[str], instead: list[str]
) -> None:
    assert narrower(an_acl(grant), uses(*used)) == (ways, [an_acl(text) for text in instead])


def test_hosts_are_narrowed_on_request_if_they_are_few() -> None:
    grant, used = an_acl("ALLOW User:a * READ TOPIC LITERAL x"), uses("User:a 10.0.0.1 READ x")
    many = uses(*(f"User:a 10.0.0.{n} READ x" for n in range(4)))

    assert narrower(grant, used) == ([], [grant])
    assert narrower(grant, used, narrows_hosts=True) == (
        ["host"],
        [an_acl("ALLOW User:a 10.0.0.1 READ TOPIC LITERAL x")],
    )
    assert narrower(grant, many, narrows_hosts=True) == ([], [grant])


@pytest.mark.spec("S12")
@pytest.mark.parametrize(
    ("used", "networks", "hosts"),
    [
        (["10.0.0.1", "10.0.0.2", "10.0.0.250", "10.0.1.7"], {4: 24}, ["10.0.0.0/24", "10.0.1.7"]),
        ([f"10.0.{n}.{n}" for n in range(200)], {4: 16}, ["10.0.0.0/16"]),
        ([f"10.0.{n}.{n}" for n in range(4)], {4: 24}, ["*"]),
        (["10.0.0.1", "10.0.0.2"], {4: 24, 6: 64}, ["10.0.0.0/24"]),
        (
            ["2001:db8:0:0:0:0:0:1", "2001:db8:0:0:9:0:0:2", "10.0.0.1"],
            {4: 24, 6: 64},
            ["10.0.0.1", "2001:db8::/64"],
        ),
        (
            ["2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:2"],
            {4: 24},
            ["2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:2"],
        ),
        (["10.0.0.1", "fe80:0:0:0:0:0:0:1%eth0"], {6: 64}, ["*"]),
        (["10.0.0.1", "h"], {4: 24}, ["*"]),
    ],
)
def test_a_network_stands_for_several_hosts_in_it_on_request(
    used: list[str], networks: dict[int, int], hosts: list[str]
) -> None:
    grant = an_acl("ALLOW User:a * READ TOPIC LITERAL x")
    of_hosts = uses(*(f"User:a {host} READ x" for host in used))

    _, instead = narrower(grant, of_hosts, narrows_hosts=True, networks=networks)

    assert [acl.host for acl in instead] == hosts
    for acl in instead:
        assert list(parse_proposal(acl_command("add", acl), "p").added) == [acl]


@pytest.mark.spec("S12")
def test_the_option_for_networks_has_one_prefix_length_or_two() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for add in LEAST_PRIVILEGE:
        add(parser)

    def networks(*words: str) -> object:
        return parser.parse_args(["--out", "x", "--tables", "x", *words]).networks

    assert [networks(), networks("--networks", "24"), networks("--networks", "8,64")] == [
        {},
        {4: 24},
        {4: 8, 6: 64},
    ]
    for text in ("", "0", "33", "24,0", "24,129", "/24", "24,", "a"):
        with pytest.raises(argparse.ArgumentError, match="is not a prefix length"):
            networks("--networks", text)


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@given(st.data(), names, names, st.sampled_from(["ALLOW", "DENY"]), st.sampled_from(["LITERAL", "PREFIXED"]))
def test_the_commands_for_an_acl_mean_exactly_this_acl(
    data: st.DataObject, name: str, user: str, permission: str, pattern: str
) -> None:
    resource_type = data.draw(st.sampled_from(sorted(SUPPORTED)))
    operations = ["ALL", *map(constant, SUPPORTED[resource_type].split())]
    operation = data.draw(st.sampled_from(operations))
    host = data.draw(st.sampled_from(["*", "10.0.0.1"]))
    if resource_type == "CLUSTER":
        name, pattern = "kafka-cluster", "LITERAL"
    acl = ProposedAcl(resource_type, name, pattern, f"User:{user}", host, operation, permission)

    added = parse_proposal(acl_command("add", acl), "p").added
    removed = parse_proposal(acl_command("remove", acl), "p").removed

    assert list(added) == [acl]
    assert [removal.acl for removal in removed] == [acl]
    assert isinstance(next(iter(removed)), Removal)


def test_the_command_for_a_quota_sets_it() -> None:
    entity = (("client-id", None), ("user", "O'Neil, CN=x"))

    proposal = parse_proposal(quota_command(entity, "producer_byte_rate", 1_500_000.0), "p")

    assert {quota: limit for quota, (limit, _) in proposal.quotas.items()} == {
        (entity, "producer_byte_rate"): 1_500_000.0
    }


@pytest.mark.spec("A8", "A11")
def test_a_grant_of_a_user_that_groups_have_too_is_covered_by_theirs() -> None:
    acls = {
        "user": an_acl("ALLOW User:a * READ TOPIC LITERAL orders"),
        "group": an_acl("ALLOW Group:staff * READ TOPIC PREFIXED o"),
        "other": an_acl("ALLOW Group:payments * READ TOPIC LITERAL orders"),
        "denied": an_acl("DENY Group:staff * WRITE TOPIC LITERAL orders"),
    }

    def covered(*acls_of_uses: tuple[str, ...], **ends: int) -> list[object]:
        used = [
            Use("User:a", f"10.0.0.{n}", "READ", "orders", 1, 0, 0, each)
            for n, each in enumerate(acls_of_uses)
        ]
        found = grant_rows(acls, {"user": used, "group": used, "other": used}, ends)
        return [
            row["covered_by"] for row in found if row["kind"] == "covered-grant" and row["acl_id"] == "user"
        ]

    both = ("group", "other", "user")
    by_groups = [str(acls["other"]), str(acls["group"])]
    assert covered(both) == [by_groups]
    assert covered(both, ("group", "user")) == [by_groups]
    assert covered(both, ("group", "user"), group=1_000) == covered(("user",), both) == []
    (row,) = (
        each
        for each in grant_rows(acls, {"user": [Use("User:a", "h", "READ", "orders", 1, 0, 0, both)]})
        if each["kind"] == "covered-grant"
    )
    assert row["commands"] == [acl_command("remove", acls["user"])]
