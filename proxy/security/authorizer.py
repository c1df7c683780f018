"""The question "may they", as an interface that can be replaced by configuration (KIP-11).

Asked by sessions and the controller; each answer carries the rule and the ACL it rests on, so that
the audit can be checked against the log later. How a decision is made is the implementation's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exception
from typing import Protocol, runtime_checkable

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.plugin import plugin
from proxy.security.principal import Principal

SUPER_USERS = "super.users"
ACL = "acl"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
DEFAULT_DENY = "default.deny"
NOT_READY = "authorizer.not.ready"
ERROR = "authorizer.error"
NO_AUTHORIZER = "no.authorizer"
FILE_ACL = "acl.file"
TOPIC_OWNER = "topic.owner"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, from where, and at which state of the metadata.

    `host` is the client's address as proxy.security.host writes it. `forwarding_principal` is the
    sender of the Envelope that carried the request, None for a direct one. `image` is None until
    the metadata log has been read up to its high-water mark. `settings_generation`: which of the process's
    settings decide, as its audit records number them; 0: those it started with.
    """

    principal: Principal
    host: str
    listener: str
    client_id: str | None
    forwarding_principal: Principal | None = None
    image: MetadataImage | None = None
    settings_generation: int = 0


@dataclass(frozen=True, slots=True)
class Action:
    """An operation on a resource of a literal name."""

    operation: Operation
    resource_type: ResourceType
    resource_name: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` is one of the constants above or a plug-in's own word; `acl_id` is set when it is "acl".

    With "acl.file" `acl_id` is the place in the file.
    """

    allowed: bool
    rule: str
    acl_id: str | None = None


@runtime_checkable
class Authorizer(Protocol):
    """Implementations are named by a dotted path in authorizer.class.name and made without arguments.

    A session remembers what it was told until the context's image is another one: an authorizer that also
    decides by something else is a `DecidesByFiles` or a `DecidesForATime` besides.
    """

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


@runtime_checkable
class DecidesByFiles(Protocol):
    """Besides: rests on files, which the process reads for it, at the start and whenever they change."""

    def files(self) -> Sequence[Path]:
        """Which files; asked once, after `configure`."""

    def load_file(self, path: Path, content: bytes) -> None:
        """Decide by this content from now on. ValueError, naming the place, leaves what was before."""


@runtime_checkable
class DecidesForATime(Protocol):
    """Besides: rests on what no image tells, such as the hour."""

    def decisions_last_ms(self) -> int:
        """How long a session may remember a decision; asked once, after `configure`. At least 100."""


class AllowAll:
    """`authorizer.class.name` left empty on purpose: nothing is checked."""

    acls_in_log = False

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
    """An authorizer that cannot fail open: what it raises, or answers too little of, is a denial.

    It is configured once, and whatever is asked of it before is such an error too.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.error_count = 0
        """How many calls ended in an error, for metrics."""
        self.last_error: str | None = None
        """Of the last one, with its traceback, for the log."""
        self._configured = False

    def configure(self, settings: Mapping[str, str]) -> None:
        if self._configured:
            raise RuntimeError("an authorizer is configured once")
        self.authorizer.configure(settings)
        self._configured = True

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        try:
            decisions = self._ready().authorize(context, actions)
            if len(decisions) == len(actions) and all(isinstance(each, Decision) for each in decisions):
                return decisions
            self._count(f"for {len(actions)} actions: {decisions!r}")
        except Exception as error:  # noqa: BLE001 - a foreign authorizer may raise anything (SPEC A1)
            self._count(_told(error))
        return [_FAILED] * len(actions)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        try:
            decision = self._ready().authorize_by_resource_type(context, operation, resource_type)
            if isinstance(decision, Decision):
                return decision
            self._count(f"for a resource type: {decision!r}")
        except Exception as error:  # noqa: BLE001 - as above
            self._count(_told(error))
        return _FAILED

    def acl_count(self, image: MetadataImage) -> int:
        try:
            return self._ready().acl_count(image)
        except Exception as error:  # noqa: BLE001 - as above
            self._count(_told(error))
            return -1

    def _ready(self) -> Authorizer:
        if not self._configured:
            raise RuntimeError("asked before it was configured")
        return self.authorizer

    def _count(self, error: str) -> None:
        self.error_count += 1
        self.last_error = error


def _told(error: Exception) -> str:
    return "".join(format_exception(error)).rstrip()


def load_authorizer(dotted_path: str, settings: Mapping[str, str]) -> Authorizer:
    """The configured, guarded authorizer that `authorizer.class.name` names; "" checks nothing.

    ValueError, naming the key, when there is no such class, it does not fit or rejects its settings.
    """
    if not dotted_path:
        return AllowAll()
    guarded = GuardedAuthorizer(plugin("authorizer.class.name", dotted_path, Authorizer, "an authorizer"))  # type: ignore[type-abstract]
    try:
        guarded.configure(settings)
    except Exception as error:
        raise ValueError(
            f"authorizer.class.name: {dotted_path!r} rejects its settings: {error or repr(error)}"
        ) from error
    return guarded
