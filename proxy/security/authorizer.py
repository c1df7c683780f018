"""The authorizer's interface, whose implementation is configured (KIP-11), and what several of them need.

Sessions and the controller call it. Each decision names its rule and its ACL, so that the audit trail can be
checked against the metadata log later. Client addresses have the text of Java's getHostAddress, which ACLs
are compared with exactly: an IPv6 address is written with all its eight groups ("0:0:0:0:0:0:0:1"), and an
IPv4 address of an IPv6 socket is written as IPv4.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from traceback import format_exception
from typing import NamedTuple, Protocol, runtime_checkable

from proxy.error_text import text_of
from proxy.metadata.acl import Operation, ResourceType, address_text
from proxy.metadata.image import MetadataImage
from proxy.security.plugin import plugin
from proxy.security.principal import GROUP_TYPE, Principal, written_principal

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
    """The principal of a request, its address, and the metadata image to decide on.

    `host` is the client's address in the form of `host_address`. `forwarding_principal` is the sender of
    the Envelope, None for a direct request. `image` is None until the metadata log was read up to its
    high-water mark. `settings_generation` is the number of the process's settings in its audit records; 0:
    those at start.
    """

    principal: Principal
    host: str
    listener: str
    client_id: str | None
    forwarding_principal: Principal | None = None
    image: MetadataImage | None = None
    settings_generation: int = 0
    groups: tuple[str, ...] | None = None
    """Those of the principal's groups that decide (`DecidesByGroups`), sorted; None: any of them may."""

    @property
    def group_principals(self) -> tuple[str, ...]:
        """The groups that decide, as ACLs name them."""
        groups = self.principal.groups if self.groups is None else self.groups
        return tuple([f"{GROUP_TYPE}:{name}" for name in groups]) if groups else ()

    @property
    def quota_groups(self) -> tuple[str, ...]:
        """Those of the principal's groups that have quotas."""
        return () if self.image is None else self.image.quotas.limited(self.principal.groups)


class Action(NamedTuple):
    """An operation on a resource with a literal name."""

    # A tuple, because sessions look up several for each request, and dataclasses compare in Python code.

    operation: Operation
    resource_type: ResourceType
    resource_name: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` is one of the constants above or a plug-in's own word; `acl_id` is set if it is "acl".

    For "acl.file" `acl_id` is the place in the file.
    """

    allowed: bool
    rule: str
    acl_id: str | None = None


@runtime_checkable
class Authorizer(Protocol):
    """The class is named in authorizer.class.name by its dotted path, and instantiated without arguments.

    Sessions remember decisions until the image has other ACLs, quotas or owners of topics, also for other
    connections with the same context. If the principal carries anything besides the fields of `Principal`,
    they remember them for their own connection only, and until its next login. An authorizer whose decisions
    depend on anything else has to be a `DecidesByFiles` or a `DecidesForATime` too.
    """

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError names the key of a bad setting."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        """Return one decision for each action, in order."""

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Decide whether the principal may do this to at least one resource of that type."""

    def acl_count(self, image: MetadataImage) -> int:
        """Return the number of ACLs in effect, for metrics; -1 if unknown."""
        return -1


@runtime_checkable
class DecidesByFiles(Protocol):
    """An authorizer that depends on files; the process reads them at start and whenever they change."""

    def files(self) -> Sequence[Path]:
        """Return the files; called once, after `configure`."""

    def load_file(self, path: Path, content: bytes) -> None:
        """Use this content from now on.

        ValueError names the place of an error; the old content stays in effect.
        """


@runtime_checkable
class DecidesByGroups(Protocol):
    """An authorizer that knows which groups it decides by.

    Sessions ask once for each image and client id. Decisions are then made and recorded with these groups
    only: a session may have a thousand.
    """

    def deciding_groups(self, context: RequestContext) -> tuple[str, ...]:
        """Return those of the principal's groups on which a decision may depend, in order."""


@runtime_checkable
class DecidesForATime(Protocol):
    """An authorizer that depends on something other than the image, such as the time of day."""

    def decisions_last_ms(self) -> int:
        """Return how long a session may remember a decision; called once, after `configure`. At least 100."""


class AllowAll:
    """Used for an empty `authorizer.class.name`: nothing is checked."""

    acls_in_log = False

    def configure(self, settings: Mapping[str, str]) -> None:
        """Ignore the settings."""

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
    """An authorizer that fails closed: an exception, or a result of the wrong form, becomes a denial.

    A call before `configure` is such an error too.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.error_count = 0
        """The number of calls that failed, for metrics."""
        self.last_error: str | None = None
        """The last error with its traceback, for the log."""
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
            self._count(formatted(error))
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
            self._count(formatted(error))
        return _FAILED

    def deciding_groups(self, context: RequestContext) -> tuple[str, ...] | None:
        """Return those of the principal's groups on which a decision may depend; None: on any of them."""
        inner = self.authorizer
        if not context.principal.groups or not isinstance(inner, DecidesByGroups):
            return None
        try:
            groups = inner.deciding_groups(context)
            if isinstance(groups, tuple) and set(groups) <= set(context.principal.groups):
                return groups
            self._count(f"for the groups that decide: {groups!r}")
        except Exception as error:  # noqa: BLE001 - as above
            self._count(formatted(error))
        return None

    def acl_count(self, image: MetadataImage) -> int:
        try:
            return self._ready().acl_count(image)
        except Exception as error:  # noqa: BLE001 - as above
            self._count(formatted(error))
            return -1

    def _ready(self) -> Authorizer:
        if not self._configured:
            raise RuntimeError("called before it was configured")
        return self.authorizer

    def _count(self, error: str) -> None:
        self.error_count += 1
        self.last_error = error


def formatted(error: Exception) -> str:
    """Return the error with its traceback, for the log."""
    return "".join(format_exception(error)).rstrip()


def load_authorizer(dotted_path: str, settings: Mapping[str, str]) -> Authorizer:
    """Return the configured, guarded authorizer of `authorizer.class.name`; "" checks nothing.

    ValueError names the key if the class is missing, is no authorizer or rejects its settings.
    """
    if not dotted_path:
        return AllowAll()
    guarded = GuardedAuthorizer(plugin("authorizer.class.name", dotted_path, Authorizer, "an authorizer"))  # type: ignore[type-abstract]
    try:
        guarded.configure(settings)
    except Exception as error:
        raise ValueError(
            f"authorizer.class.name: {dotted_path!r} rejects its settings: {text_of(error)}"
        ) from error
    return guarded


def super_users(settings: Mapping[str, str]) -> frozenset[str]:
    """Parse `super.users`: "User:a;Group:b"."""
    users = [user.strip() for user in (settings.get(SUPER_USERS) or "").split(";") if user.strip()]
    for user in users:
        try:
            written_principal(user)
        except ValueError as error:
            raise ValueError(f"{SUPER_USERS}: {error}") from error
    return frozenset(users)


def is_super_user(context: RequestContext, principal: str, users: frozenset[str]) -> bool:
    """Whether `super.users` names the principal, whose text is `principal`, or a group of the session."""
    has_groups = bool(context.principal.groups)
    return principal in users or (has_groups and not users.isdisjoint(context.group_principals))


def named_groups(
    context: RequestContext, users: frozenset[str], with_acls: Container[str]
) -> tuple[str, ...]:
    """Return those of the session's groups that `super.users` or an ACL names."""
    return tuple(
        [name for name in context.principal.groups if name in with_acls or f"{GROUP_TYPE}:{name}" in users]
    )


def parse_boolean(settings: Mapping[str, str], key: str, *, default: bool) -> bool:
    """Parse true or false, in any case; the default if it is not set.

    Anything else is an error, unlike in Kafka.
    """
    text = str(settings.get(key) or default).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{key}: expected true or false, got {text!r}")
    return text == "true"


def network_of(host: str) -> str:
    """Return the /64 network of an IPv6 address, whose owner has all of it, or the IPv4 address itself.

    `host` is in the form of `host_address`.
    """
    return ":".join(host.split(":")[:4])


def host_address(address: str | bytes) -> str:
    """Convert a socket's address (with its zone after %) or 4 or 16 raw bytes; ValueError otherwise."""
    if isinstance(address, str):
        text, percent, zone = address.partition("%")
    elif len(address) in (4, 16):
        text, percent, zone = str(ip_address(bytes(address))), "", ""
    else:
        raise ValueError(f"an address of {len(address)} bytes, neither 4 nor 16")
    found = address_text(text)
    if found is None:
        raise ValueError(f"{text!r} is no address")
    return found + percent + zone
