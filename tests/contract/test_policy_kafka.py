"""The regions in which two policies differ, against Kafka's own StandardAuthorizer.

Each witness, and random requests outside and inside of all regions. Kafka's class knows no groups: about a
client in a group it is asked with the group's ACLs as the client's own. PENSTOCK_SEED chooses other policies,
PENSTOCK_POLICIES how many pairs are compared: with 2,700, a million requests are outside of all regions.
"""

import os
import sys
from dataclasses import replace
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from proxy.metadata.acl import OPERATIONS_ON, Acl, PatternType, PermissionType, host_fault
from proxy.policy.differences import Region, differences
from proxy.policy.policy import BY_TYPE, AccessRequest, of_acls
from tests.contract.test_standard_authorizer_kafka import Question, hexed, kafka_decides, words_of
from tests.support.metadata_log import acl
from tests.support.policies import FROM, HOSTS, NAMES, OPERATIONS, PRINCIPALS, REQUESTING, TYPES

pytestmark = [pytest.mark.long, pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("D18")]

SEED = int(os.environ.get("PENSTOCK_SEED", "1801"))
PAIRS = int(os.environ.get("PENSTOCK_POLICIES", "200"))
RANDOM_REQUESTS = 400
# A name that begins with * is decided otherwise by Kafka (docs/differences.md).
KAFKAS_NAMES = [name for name in [*NAMES, "zz", "aaz", "c"] if not name.startswith("*")]


def random_acls(random: Random, count: int) -> list[Acl]:
    found = {}
    for _ in range(count):
        permission = random.choice([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY])
        one = acl(
            random.choice([*KAFKAS_NAMES, "*", "*"]),
            random.choice(OPERATIONS[:9]),
            principal=random.choice(PRINCIPALS),
            host=random.choice([host for host in HOSTS if host_fault(host) is None]),
            pattern_type=random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            permission_type=permission,
            resource_type=random.choice(TYPES),
        )
        found[one.binding] = one
    return list(found.values())


def random_request(random: Random) -> AccessRequest:
    kind = random.choice(TYPES)
    name = "kafka-cluster" if kind.name == "CLUSTER" else random.choice(KAFKAS_NAMES)
    principal, host = random.choice(REQUESTING), random.choice(FROM)
    if random.random() < 0.1:
        return AccessRequest(principal, host, *BY_TYPE, None)
    return AccessRequest(principal, host, random.choice(OPERATIONS_ON[kind]), kind, name)


def question(request: AccessRequest) -> str:
    address = ip_address(request.host).packed
    name = request.resource_name
    return Question(request.principal, address, request.operation, request.resource_type, name).line()


def asked(side: list[Acl], users: str, everyone: str, requests: list[AccessRequest]) -> list[str]:
    """The lines that ask about requests, all of one principal if it is in groups. `users`: super.users."""
    (groups,) = {each.groups for each in requests}
    who = requests[0].principal
    own = {each.binding: each for each in side if each.principal not in groups}
    own |= {
        each.binding: each
        for each in (replace(each, principal=who) for each in side if each.principal in groups)
    }
    return [
        f"new {hexed(who if users in groups else users)} {everyone}",
        *(f"add {number} {words_of(each)}" for number, each in enumerate(own.values(), 1)),
        *map(question, requests),
    ]


def test_kafka_decides_differently_exactly_in_the_regions(kafka_libs: Path) -> None:
    random = Random(SEED)
    lines: list[str] = []
    compared: list[tuple[list[AccessRequest], list[Region]]] = []
    for _ in range(PAIRS):
        common, users = random_acls(random, 14), random.choice(["", "", "User:bob", "Group:team"])
        everyone = random.choice(["false", "false", "true"])
        sides = []
        settings = {"super.users": users, "allow.everyone.if.no.acl.found": everyone}
        for _ in range(2):
            of_side = {each.binding: each for each in [*common, *random_acls(random, 4)]}
            sides.append(list(of_side.values()))
        old, new = (of_acls(side, settings) for side in sides)
        regions = differences(old, new)
        witnesses = [
            each.witness for each in regions if not (each.witness.resource_name or "").startswith("*")
        ]
        alone = [each for each in witnesses if not each.groups]
        alone += [random_request(random) for _ in range(RANDOM_REQUESTS)]
        for requests in (alone, *([each] for each in witnesses if each.groups)):
            compared.append((requests, regions))
            for side in sides:
                lines += asked(side, users, everyone, requests)

    answers = kafka_decides(kafka_libs, lines)

    inside = outside = 0
    for requests, regions in compared:
        was, is_now = (list(islice(answers, len(requests))) for _ in range(2))
        for request, before, after in zip(requests, was, is_now, strict=True):
            found = [each.allowed for each in regions if each.contains(request)]
            assert found == ([] if before is after else [after]), f"{request}, PENSTOCK_SEED={SEED}"
            inside += bool(found)
            outside += not found
    assert list(answers) == []
    assert PAIRS < inside < outside, "the cases no longer try both outcomes"
    sys.stderr.write(f"{inside} requests inside of a region, {outside} outside\n")
