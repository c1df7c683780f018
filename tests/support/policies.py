"""Random policies over few principals, names and hosts, so that ACLs meet, and all requests about these."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from hypothesis import strategies as st

from proxy.metadata.acl import OPERATIONS_ON, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.image import OWNER, Topic, TopicsImage
from proxy.metadata.sharded_map import ShardedMap
from proxy.metadata.sorted_names import SortedNames
from proxy.policy.policy import BY_TYPE, AccessRequest, Policy, caller, of_acls, of_file
from tests.support.metadata_log import acl

TYPES = [ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.USER]
NAMES = ["", "a", "b", "ab", "aa", "aab", "é", "*", "*a", "hardcode", "kafka-cluster"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "User:*", "Group:team", "User:"]
HOSTS = [
    "*",
    "*",
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.0/31",
    "10.0.0.0/8",
    "0.0.0.0/0",
    "0.0.0.0/1",
    "128.0.0.0/1",
    "::/0",
]
NO_HOSTS = ["::1", "localhost", "0:0:0:0:0:0:0:1", "0.0.0.0/32", "0.0.0.0"]
REQUESTING = ["User:alice", "User:bob", "User:carol", "Group:team", "Group:other", "User:"]
FROM = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.9.9.9",
    "192.0.2.7",
    "0:0:0:0:0:0:0:1",
    "2001:db8:0:0:0:0:0:1",
]
OPERATIONS = [Operation.ALL, *[each for each in Operation if each > Operation.ALL]]

acls = st.builds(
    acl,
    resource_name=st.sampled_from(NAMES),
    operation=st.sampled_from(OPERATIONS[:9]),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from([*HOSTS, *HOSTS, *NO_HOSTS]),
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    permission_type=st.sampled_from([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]),
    resource_type=st.sampled_from(TYPES),
)

settings_of_authorizers = st.fixed_dictionaries(
    {
        "super.users": st.sampled_from(["", "", "", "User:alice", "User:root;User:bob"]),
        "allow.everyone.if.no.acl.found": st.sampled_from(["false", "false", "true"]),
    }
)

owners = st.dictionaries(
    st.sampled_from(["a", "ab", "zz"]), st.sampled_from(["User:alice", "User:dave"]), max_size=2
)


def topics_of(owned: dict[str, str]) -> TopicsImage:
    """The topics of an image, with their owners."""
    topics = {name: Topic(name, f"id-{name}", 1, {OWNER: owner}) for name, owner in owned.items()}
    names = {
        owner: SortedNames([(name, f"id-{name}") for name in sorted(owned) if owned[name] == owner])
        for owner in owned.values()
    }
    return TopicsImage(
        ShardedMap(topics), ShardedMap({f"id-{name}": name for name in owned}), ShardedMap(names)
    )


@st.composite
def pairs_of_policies(draw: st.DrawFn) -> tuple[Policy, Policy]:
    """Two policies with most of their ACLs in common."""
    common, old, new = (draw(st.lists(acls, max_size=size)) for size in (12, 4, 4))
    settings = draw(settings_of_authorizers)
    others = draw(st.one_of(st.just(settings), settings_of_authorizers))
    owned, owned_later = draw(owners), draw(owners)
    return (
        of_acls([*common, *old], settings, topics_of(owned)),
        of_acls([*common, *new], others, topics_of(draw(st.sampled_from([owned, owned_later])))),
    )


file_acls = st.lists(
    st.fixed_dictionaries(
        {
            "principal": st.sampled_from(["alice", "User:bob", "Anonymous", "Group:team"]),
            "permissionType": st.sampled_from(["ALLOW", "ALLOW", "DENY"]),
            "operations": st.lists(
                st.sampled_from(["READ", "WRITE", "ALL", "DESCRIBE", "CREATE"]), min_size=1, max_size=2
            ),
            "hosts": st.lists(st.sampled_from(["*", "10.0.0.1", "10.0.0.0/8"]), min_size=1, max_size=2),
        }
    ),
    max_size=3,
)


@st.composite
def policies_of_files(draw: st.DrawFn) -> Policy:
    """A policy of SimpleAclAuthorizer."""
    topics: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(["a", "ab", "*"]), unique=True, max_size=3)):
        owner = draw(st.sampled_from([{}, {"owner": "alice"}]))
        topics[name] = {"acls": draw(file_acls), **owner}
    groups = {name: {"acls": draw(file_acls)} for name in draw(st.sampled_from([(), ("b",)]))}
    file = {"version": 1, "acls": draw(file_acls), "topics": topics, "groups": groups}
    return of_file(json.dumps(file).encode(), draw(settings_of_authorizers))


SUBJECTS = [
    (kind, name)
    for kind in dict.fromkeys(TYPES)
    for name in (["kafka-cluster"] if kind is ResourceType.CLUSTER else [*NAMES, "zz", "aaz", "c"])
]


def decisions(policy: Policy) -> Iterator[tuple[AccessRequest, int]]:
    """All requests about these principals, hosts and names, each with the sum of 1 << allowed operation.

    The operation of each request is the first one of its type, or that by resource type.
    """
    for principal, host in product([*REQUESTING, "User:root", "User:dave"], FROM):
        who = caller(principal)
        for kind, name in SUBJECTS:
            yield (
                AccessRequest(principal, host, OPERATIONS_ON[kind][0], kind, name),
                policy.allowed(who, host, kind, name),
            )
        by_type = AccessRequest(principal, host, *BY_TYPE, None)
        yield by_type, policy.decide(by_type).allowed << BY_TYPE[0]
