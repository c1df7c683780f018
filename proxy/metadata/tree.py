"""An image as paths: /acl/id/<uuid>, /config/..., /scram/..., /token/<id>, /topic/<name>, /status.

A path may have children, a value, or both (/config/users/<user> has its own limits and may have clients).
Names in paths are sanitized, the default is `<default>`. No secret is shown: only the iterations of a SCRAM
credential.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from proxy.metadata.acl import Acl, end_text
from proxy.metadata.image import OWNER, DelegationToken, MetadataImage, Topic
from proxy.metadata.quota_entity import sanitize
from proxy.metadata.scram import ScramCredential

Path = tuple[str, ...]
Fields = dict[str, object]


@dataclass(slots=True)
class TreeNode:
    """One path: its value, computed on request, and its children."""

    value: Callable[[], Fields] | None = None
    children: "dict[str, TreeNode]" = field(default_factory=dict)
    is_directory: bool = False
    """Whether it is a directory even without children."""

    def names(self) -> list[str] | None:
        """Return the sorted names of the children; None if this is not a directory."""
        return sorted(self.children) if self.children or self.is_directory else None


def tree_of(image: MetadataImage) -> TreeNode:
    """Return all paths of an image. O(size of the image)."""
    root = TreeNode(is_directory=True)
    for path in _DIRECTORIES:
        _node(root, path).is_directory = True
    for leaves in _ROOTS:
        for path, value in leaves(image).items():
            _node(root, path).value = value
    return root


def parts(path: str) -> Path:
    """Split a path: "/acl/id/" -> ("acl", "id")."""
    return tuple(part for part in path.split("/") if part)


def _node(root: TreeNode, path: Path) -> TreeNode:
    for part in path:
        root = root.children.setdefault(part, TreeNode())
    return root


Leaves = dict[Path, Callable[[], Fields]]


def _acl_leaves(image: MetadataImage) -> Leaves:
    return {("acl", "id", acl.id): partial(_acl_fields, acl) for acl in image.acls.by_id.values()}


def _acl_fields(acl: Acl) -> Fields:
    names = (
        "resourceType",
        "resourceName",
        "patternType",
        "principal",
        "host",
        "operation",
        "permissionType",
    )
    return {"id": acl.id, **dict(zip(names, acl.names, strict=True)), **_end_field(acl.until_ms)}


def _end_field(until_ms: int | None) -> Fields:
    return {} if until_ms is None else {"until": end_text(until_ms)}


def _config_leaves(image: MetadataImage) -> Leaves:
    return {
        ("config", *entity.path.split("/")): partial(_sorted, limits)
        for entity, limits in image.quotas.limits.items()
    }


def _scram_leaves(image: MetadataImage) -> Leaves:
    return {
        ("scram", mechanism.mechanism_name, sanitize(user)): partial(_scram_fields, credential)
        for (mechanism, user), credential in image.scram.credentials.items()
    }


def _scram_fields(credential: ScramCredential) -> Fields:
    return {"iterations": credential.iterations, **_end_field(credential.until_ms)}


def _token_leaves(image: MetadataImage) -> Leaves:
    tokens = image.tokens.by_id
    return {("token", sanitize(token.token_id)): partial(_token_fields, token) for token in tokens.values()}


def _token_fields(token: DelegationToken) -> Fields:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestamp": token.issue_timestamp_ms,
        "maxTimestamp": token.max_timestamp_ms,
        "expirationTimestamp": token.expiry_timestamp_ms,
    }


def _topic_leaves(image: MetadataImage) -> Leaves:
    return {("topic", name): partial(_topic_fields, topic) for name, topic in image.topics.by_name.items()}


def _topic_fields(topic: Topic) -> Fields:
    configs = {name: value for name, value in sorted(topic.configs.items()) if name != OWNER}
    # Penstock's own log has no partitions: the broker knows them.
    return {"id": topic.id, "owner": topic.owner, "partitions": topic.partitions or None, "configs": configs}


def _status_leaves(image: MetadataImage) -> Leaves:
    return {
        ("status",): lambda: {
            "offset": image.offset,
            "aclCount": image.acls.count,
            "quotaEntityCount": len(image.quotas.limits),
            "scramCredentialCount": len(image.scram.credentials),
            "delegationTokenCount": len(image.tokens.by_id),
            "topicCount": len(image.topics.by_name),
        }
    }


_ROOTS = (_acl_leaves, _config_leaves, _scram_leaves, _status_leaves, _token_leaves, _topic_leaves)

_DIRECTORIES: tuple[Path, ...] = (("acl",), ("acl", "id"), ("config",), ("scram",), ("token",), ("topic",))
"""These directories always exist, even if empty."""


def _sorted(limits: Mapping[str, float]) -> Fields:
    return dict(sorted(limits.items()))
