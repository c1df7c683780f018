"""Recognizes files of another kind than the expected one: a controller's, users, Helm values, .properties.

proxy.config.reading calls it before it reads a file, because the errors about each key would hide the only
one that matters.
"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from proxy.config.parts import Part


@dataclass(frozen=True, slots=True)
class _Kind:
    """`keys`: those at the top of such a file that a file of no other kind has."""

    name: str
    keys: AbstractSet[str]
    advice: str


KINDS = {
    "proxy": _Kind(
        "the file of a proxy",
        {"proxy.id", "listeners", "upstream"},
        "to start a proxy with it, write: penstock proxy -c {path}",
    ),
    "controller": _Kind(
        "the file of a controller",
        {"controller.id", "listener", "broker"},
        "to start a controller with it, write: penstock controller -c {path}",
    ),
    "users": _Kind("a users file", {"users"}, "write: penstock check --users {path}"),
    "acls": _Kind(
        "a file of ACLs", {"acls"}, "write its name at authorizer: {{broker.acl.file.path: {path}}}"
    ),
    "helm": _Kind(
        "a file of values for the Helm chart",
        {"image", "brokers", "secretName", "imagePullSecrets", "networkPolicy", "monitoring"},
        "check the files that helm template renders from it",
    ),
    "compose": _Kind("a compose file", {"services"}, "check the files that it mounts"),
    "manifest": _Kind("a Kubernetes manifest", {"apiVersion", "kind"}, "check the files in its data"),
}
_TEXTS = (
    (
        re.compile(r"\S*kafka-(acls|configs)(\.sh)?\s.*"),
        "a list of commands; write: penstock check --proposal {path}",
    ),
    (
        re.compile(r"[\w.-]+\s*=.*"),
        "a .properties file; write the keys in YAML, key: value, as docs/configuration.md describes them",
    ),
    (re.compile(r"-----BEGIN [A-Z ]+-----"), "a PEM file; write its name at ssl in a configuration"),
)


def another_kind(path: object, keys: AbstractSet[str], part: type[Part]) -> str | None:
    """The error if a file with these keys is of another kind than `part`."""
    expected = KINDS.get(part.kind)
    if expected is None or keys & expected.keys:
        return None
    likely = max(KINDS.values(), key=lambda kind: len(keys & kind.keys))
    return f"this is {likely.name}; {likely.advice.format(path=path)}" if keys & likely.keys else None


def another_text(path: object, content: bytes) -> str | None:
    """The error if a file that has no keys of YAML is of a kind that is known."""
    lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
    first = next((line for line in lines if line and not line.startswith(("#", "!"))), "")
    for pattern, text in _TEXTS:
        if pattern.fullmatch(first):
            return f"this is {text.format(path=path)}"
    return None
