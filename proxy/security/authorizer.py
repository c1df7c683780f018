"""The question "may they", as an interface that can be replaced by configuration (KIP-11).

Asked by sessions and the controller; each answer carries the rule and the ACL it rests on, so that
the audit can be checked against the log later. How a decision is made is the implementation's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, runtime_checkable

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.principal import Principal

SUPER_USERS = "super.users"
ACL = "acl"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
DEFAULT_DENY = "default.deny"
NOT_READY = "authorizer.not.ready"
ERROR = "authorizer.error"
NO_AUTHORIZER = "no.authorizer"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, from where, and at which state of the metadata.

    `host` is the client's address as proxy.security.host writes it. `forwarding_principal` is the
    sender of the Envelope that carried the request, None for a direct one. `image` is None until
    the metadata log has been read up to its high-water mark.
    """

    principal: Principal
    host: str
    listener: str
    client_id: str | None
    forwarding_principal: Principal | None = None
    image: MetadataImage | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """An operation on a resource of a literal name."""

    operation: Operation
    resource_type: ResourceType
    resource_name: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` is one of the constants above; `acl_id` is set when it is "acl"."""

    allowed: bool
    rule: str
    acl_id: str | None = None


@runtime_checkable
class Authorizer(Protocol):
    """Implementations are named by a dotted path in authorizer.class.name and made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError, naming the key, for a bad setting."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """One decision for each action, in order."""

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """May they do this to at least one resource of that type, whichever it is?"""

    def acl_count(self, image: MetadataImage) -> int:
        """How many ACLs are in force, for metrics; -1 when the authorizer does not tell."""
        return -1


class AllowAll:
    """`authorizer.class.name` left empty on purpose: nothing is checked."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        return [_UNCHECKED] * len(actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        return _UNCHECKED

    def acl_count(self, image: MetadataImage) -> int:
        return -1


_UNCHECKED = Decision(True, NO_AUTHORIZER)
_FAILED = Decision(False, ERROR)


class GuardedAuthorizer:
    """An authorizer that cannot fail open: what it raises, or answers too little of, is a denial."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.error_count = 0
        """How many calls ended in an error, for metrics."""
        self.last_error: str | None = None

    def configure(self, settings: Mapping[str, str]) -> None:
        self.authorizer.configure(settings)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        try:
            decisions = self.authorizer.authorize(context, actions)
            if len(decisions) == len(actions):
                return decisions
            self._count(f"{len(decisions)} decisions for {len(actions)} actions")
        except Exception as error:  # noqa: BLE001 - a foreign authorizer may raise anything (SPEC A1)
            self._count(repr(error))
        return [_FAILED] * len(actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        try:
            return self.authorizer.authorize_by_resource_type(context, operation, resource_type)
        except Exception as error:  # noqa: BLE001 - as above
            self._count(repr(error))
            return _FAILED

    def acl_count(self, image: MetadataImage) -> int:
        try:
            return self.authorizer.acl_count(image)
        except Exception as error:  # noqa: BLE001 - as above
            self._count(repr(error))
            return -1

    def _count(self, error: str) -> None:
        self.error_count += 1
        self.last_error = error


def load_authorizer(dotted_path: str, settings: Mapping[str, str]) -> Authorizer:
    """The configured, guarded authorizer that `authorizer.class.name` names; "" checks nothing.

    ValueError, naming the key, when there is no such class, it does not fit or refuses its settings.
    """
    if not dotted_path:
        return AllowAll()
    module_name, _, class_name = dotted_path.rpartition(".")
    try:
        authorizer = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"authorizer.class.name: cannot load {dotted_path!r}: {error}") from error
    if not isinstance(authorizer, Authorizer):
        raise ValueError(f"authorizer.class.name: {dotted_path!r} is not an authorizer")
    authorizer.configure(settings)
    return GuardedAuthorizer(authorizer)
