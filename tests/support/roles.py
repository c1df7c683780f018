"""Principals with roles, as a principal builder of a site makes them, and an authorizer that decides by role.

| role | WRITE on `orders` | READ on `orders` | everything else |
|---|---|---|---|
| `writer` | yes | no | no |
| `reader` | no | yes | no |
| none | no | no | no |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.security.authorizer import Action, AllowAll, Decision, RequestContext
from proxy.security.principal import Principal

MAY = {"writer": Operation.WRITE, "reader": Operation.READ}
"""Role -> what it may do with the topic `orders`."""


class WithConstructor(Principal):
    """A class with a constructor of its own."""

    def __init__(self, name: str, roles: Sequence[str]) -> None:
        super().__init__("User", name)
        self.roles = tuple(roles)


@dataclass(frozen=True)
class WithComparedRoles(Principal):
    """A dataclass as one would write it: its roles are compared."""

    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unhashable(Principal):
    """Its roles are a list, which has no hash, and its text has them."""

    roles: Any = ()

    def __str__(self) -> str:
        return f"{self.name} with {self.roles}"


def with_dictionary(name: str, roles: Sequence[str]) -> Principal:
    """A principal of our own class, to which a builder has attached something."""
    principal = Principal("User", name)
    vars(principal)["roles"] = tuple(roles)
    return principal


MAKERS = (
    WithConstructor,
    lambda name, roles: WithComparedRoles("User", name, roles=tuple(roles)),
    lambda name, roles: Unhashable("User", name, roles=list(roles)),
    with_dictionary,
)


class ByRole(AllowAll):
    """Decides by the table above."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        roles = getattr(context.principal, "roles", ())
        allowed = [Action(MAY[role], ResourceType.TOPIC, "orders") for role in roles]
        return [Decision(action in allowed, "role") for action in actions]
