"""The image as the shell walks it."""

import json
from dataclasses import replace

import pytest

from proxy.metadata.acl import PatternType
from proxy.metadata.delta import MetadataDelta, without_ended
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.metadata.tree import TreeNode, parts, tree_of
from tests.support.metadata_log import acl, acl_record, owned, quota_record, scram_record, token, token_record

pytestmark = pytest.mark.spec("S10")

ACL = acl("ordérs", pattern_type=PatternType.PREFIXED, host="10.0.0.1")


def node_at(image: MetadataImage, path: str) -> TreeNode | None:
    node: TreeNode | None = tree_of(image)
    for part in parts(path):
        node = None if node is None else node.children.get(part)
    return node


def children(image: MetadataImage, path: str) -> list[str] | None:
    node = node_at(image, path)
    return None if node is None else node.names()


def cat(image: MetadataImage, path: str) -> str | None:
    node = node_at(image, path)
    return None if node is None or node.value is None else json.dumps(node.value(), ensure_ascii=False)


def image() -> MetadataImage:
    delta = MetadataDelta(MetadataImage.EMPTY)
    delta.replay(acl_record(ACL))
    for entity in (
        QuotaEntity(user="al/ice"),
        QuotaEntity(user="al/ice", client_id="app"),
        QuotaEntity(user=DEFAULT, client_id=DEFAULT),
        QuotaEntity(ip="10.0.0.1"),
    ):
        delta.replay(quota_record(entity, "producer_byte_rate", 1000.0))
    credential = credential_from_password(ScramMechanism.SCRAM_SHA_512, "geheim", b"salz")
    delta.replay(scram_record(ScramMechanism.SCRAM_SHA_512, "bob", credential))
    delta.replay(token_record(token("t-1", renewers=("User:bob",))))
    for record in owned("orders", "User:olga"):
        delta.replay(record)
    return delta.apply(41)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/", ["acl", "config", "scram", "status", "token", "topic"]),
        ("", ["acl", "config", "scram", "status", "token", "topic"]),
        ("/acl", ["id"]),
        ("/acl/id", [ACL.id]),
        ("/acl/id/", [ACL.id]),
        ("/config", ["ips", "users"]),
        ("/config/users", ["<default>", "al%2Fice"]),
        ("/config/users/al%2Fice", ["clients"]),
        ("/config/users/al%2Fice/clients", ["app"]),
        ("/config/users/<default>/clients", ["<default>"]),
        ("/scram", ["SCRAM-SHA-512"]),
        ("/scram/SCRAM-SHA-512", ["bob"]),
        ("/token", ["t-1"]),
        ("/topic", ["orders"]),
        ("/token/t-1", None),
        ("/status", None),
        (f"/acl/id/{ACL.id}", None),
        ("/acl/id/nobody", None),
        ("/nowhere", None),
        ("/config/users/al", None),
    ],
)
def test_a_directory_lists_what_lies_below_it(path: str, names: list[str] | None) -> None:
    assert children(image(), path) == names


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (
            f"/acl/id/{ACL.id}",
            {
                "id": ACL.id,
                "resourceType": "TOPIC",
                "resourceName": "ordérs",
                "patternType": "PREFIXED",
                "principal": "User:alice",
                "host": "10.0.0.1",
                "operation": "READ",
                "permissionType": "ALLOW",
            },
        ),
        ("/config/users/al%2Fice", {"producer_byte_rate": 1000.0}),
        ("/config/users/al%2Fice/clients/app", {"producer_byte_rate": 1000.0}),
        ("/config/ips/10.0.0.1", {"producer_byte_rate": 1000.0}),
        ("/scram/SCRAM-SHA-512/bob", {"iterations": 4096}),
        (
            "/token/t-1",
            {
                "owner": "User:alice",
                "requester": "User:alice",
                "renewers": ["User:bob"],
                "issueTimestamp": 1_000,
                "maxTimestamp": 9_000,
                "expirationTimestamp": 2_000,
            },
        ),
        (
            "/topic/orders",
            {"id": "AAAAAAAAAAAAAAAAAAAAAQ", "owner": "User:olga", "partitions": None, "configs": {}},
        ),
        (
            "/status",
            {
                "offset": 41,
                "aclCount": 1,
                "quotaEntityCount": 4,
                "scramCredentialCount": 1,
                "delegationTokenCount": 1,
                "topicCount": 1,
            },
        ),
    ],
)
def test_a_leaf_reads_as_json(path: str, content: dict[str, object]) -> None:
    text = cat(image(), path)

    assert text is not None
    assert json.loads(text) == content


@pytest.mark.parametrize(
    "path", ["/", "/acl", "/acl/id", "/config/users/<default>", "/nowhere/at/all", "/status/x"]
)
def test_what_is_no_leaf_has_no_content(path: str) -> None:
    assert cat(image(), path) is None


def test_no_secret_shows_anywhere() -> None:
    shown = [cat(image(), f"/scram/SCRAM-SHA-512/{user}") for user in ("bob",)]

    assert shown == ['{"iterations": 4096}']


def test_directories_that_are_always_there_may_be_empty() -> None:
    assert [
        children(MetadataImage.EMPTY, path) for path in ("/acl", "/acl/id", "/config", "/scram", "/token")
    ] == [
        ["id"],
        [],
        [],
        [],
        [],
    ]


@pytest.mark.spec("A11")
def test_an_acl_is_shown_with_its_end_and_also_when_it_has_ended() -> None:
    over = replace(acl("orders"), until_ms=1_801_418_400_250)
    delta = MetadataDelta(MetadataImage.EMPTY)
    delta.replay(acl_record(over))
    for shown in (image := delta.apply(1), without_ended(image, 1_801_418_400_250)):
        assert json.loads(cat(shown, f"/acl/id/{over.id}") or "")["until"] == "2027-01-31T18:00:00.250Z"
