"""An image as paths, for `penstock shell`: /acl/id/<uuid>, /config/..., /scram/..., /token/<id>, /status.

A path may have children, a JSON text, or both (/config/users/<user> has its own limits and may hold
clients). Names in paths are sanitised, the default is `<default>`. Shows no secret: of a SCRAM
credential only the iterations.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from proxy.metadata.acl import Acl
from proxy.metadata.image import MetadataImage
from proxy.metadata.sanitizer import sanitize
from proxy.metadata.tokens import DelegationToken

Path = tuple[str, ...]


def children(image: MetadataImage, path: str) -> list[str] | None:
    """The names below `path`, sorted; None when there is nothing to list there."""
    parts = _parts(path)
    if not parts:
        return sorted(_ROOTS)
    root = _ROOTS.get(parts[0])
    if root is None:
        return None
    depth = len(parts)
    known = (*root(image), *_DIRECTORIES)
    below = {path[depth] for path in known if len(path) > depth and path[:depth] == parts}
    return sorted(below) if below or parts in _DIRECTORIES else None


def cat(image: MetadataImage, path: str) -> str | None:
    """What stands at `path`, as JSON; None when it is not there or only a directory."""
    parts = _parts(path)
    root = _ROOTS.get(parts[0]) if parts else None
    leaf = None if root is None else root(image).get(parts)
    return None if leaf is None else json.dumps(leaf(), ensure_ascii=False)


def _parts(path: str) -> Path:
    return tuple(part for part in path.split("/") if part)


Leaves = dict[Path, Callable[[], dict[str, Any]]]


def _acl_leaves(image: MetadataImage) -> Leaves:
    return {("acl", "id", acl.id): partial(_acl_fields, acl) for acl in image.acls.by_id.values()}


def _acl_fields(acl: Acl) -> dict[str, Any]:
    return {
        "id": acl.id,
        "resourceType": acl.resource_type.name,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permissionType": acl.permission_type.name,
    }


def _config_leaves(image: MetadataImage) -> Leaves:
    return {
        ("config", *entity.path.split("/")): partial(_sorted, limits)
        for entity, limits in image.quotas.limits.items()
    }


def _scram_leaves(image: MetadataImage) -> Leaves:
    return {
        ("scram", mechanism.mechanism_name, sanitize(user)): partial(dict, iterations=credential.iterations)
        for (mechanism, user), credential in image.scram.credentials.items()
    }


def _token_leaves(image: MetadataImage) -> Leaves:
    tokens = image.tokens.by_id
    return {("token", sanitize(token.token_id)): partial(_token_fields, token) for token in tokens.values()}


def _token_fields(token: DelegationToken) -> dict[str, Any]:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestamp": token.issue_timestamp_ms,
        "maxTimestamp": token.max_timestamp_ms,
        "expirationTimestamp": token.expiry_timestamp_ms,
    }


def _status_leaves(image: MetadataImage) -> Leaves:
    return {
        ("status",): lambda: {
            "offset": image.offset,
            "aclCount": image.acls.count,
            "quotaEntityCount": len(image.quotas.limits),
            "scramCredentialCount": len(image.scram.credentials),
            "delegationTokenCount": len(image.tokens.by_id),
        }
    }


_ROOTS: dict[str, Callable[[MetadataImage], Leaves]] = {
    "acl": _acl_leaves,
    "config": _config_leaves,
    "scram": _scram_leaves,
    "status": _status_leaves,
    "token": _token_leaves,
}

_DIRECTORIES = (("acl",), ("acl", "id"), ("config",), ("scram",), ("token",))
"""These are always there, if only to be empty."""


def _sorted(limits: Mapping[str, float]) -> dict[str, Any]:
    return dict(sorted(limits.items()))
