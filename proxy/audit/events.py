"""One constructor for each audit event, with exactly its fields: `events.stopped()`.

Each function below declares an event: its name is the event's name, its keywords are the fields, and its
decorator names the class that decides what happens to the event when the trail has no room. mypy reports a
field that an event does not have. The session adds the origin of an event (connection, listener, host,
principal, client id, metadata offset, settings generation) to everything that it records, so the declarations
of its events leave these fields out. Events with the same fields share a declaration. `class_of` serves
proxy.net.audit.audit_log and proxy.audit.noise.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypedDict, Unpack, get_args

from proxy.audit.classes import ADMIN, AUTHENTICATION, BY_CLIENTS, DENIAL, PROCESS, READS, SUMMARY
from proxy.audit.record import EVENT_FIELDS, AuditEvent

Fields = ParamSpec("Fields")
Objects = Sequence[Mapping[str, object]] | None
"""What an administrative request is about (proxy.admin.objects)."""

_CLASS_OF: dict[str, str] = {
    # proxy.audit.noise and proxy.session.accounting.summaries make these of other events, with their fields.
    "authentication_collapsed": AUTHENTICATION,
    "request_collapsed": DENIAL,
    "authorization_collapsed": DENIAL,
}
FIELDS_OF: dict[str, tuple[str, ...]] = {}
"""Event -> the parameters of its constructor."""


class Requester(TypedDict):
    """The fields that identify a forwarded request: its client, its proxy, the request and the forward id."""

    listener: str
    host: str
    principal: str
    forwarding_principal: str
    client_id: str | None
    method: str
    api_version: int
    correlation_id: int
    forward_id: str | None


class Origin(TypedDict, total=False):
    """The same without the method, as far as it is known and the session does not add it."""

    listener: str | None
    host: str | None
    principal: str | None
    forwarding_principal: str | None
    client_id: str | None
    api_version: int | None
    correlation_id: int | None
    forward_id: str | None


class Counted(TypedDict):
    """What happened so often within an interval."""

    count: int
    interval_start_ms: int
    interval_end_ms: int


class QuotaUse(Origin):
    """What a quota has counted of one client."""

    quota_key: str
    quota_id: str
    quota_limit: float
    metadata_offset: int
    rule: str | None
    count: int


def _event(
    event_class: str, named: str | None = None
) -> Callable[[Callable[Fields, None]], Callable[Fields, AuditEvent]]:
    """Return a decorator that turns a declaration into the constructor of the event.

    `named`: its name, if several events share the declaration.
    """

    def constructor(declared: Callable[Fields, None]) -> Callable[Fields, AuditEvent]:
        name, parameters = named or declared.__name__, _parameters(declared)
        if unknown := parameters.keys() - set(EVENT_FIELDS):
            raise TypeError(f"{name}: an audit record has no field {', '.join(sorted(unknown))}")
        _CLASS_OF[name] = event_class
        FIELDS_OF[name] = tuple(parameters)
        namespace: dict[str, Callable[Fields, AuditEvent]] = {}
        scope = {"AuditEvent": AuditEvent, "new": object.__new__}
        # Written from the declarations below. A third of what the constructor of the dataclass costs, which
        # has 39 keywords to match: denials and summaries are made by the thousand.
        exec(compile(_source(name, parameters), f"<event {name}>", "exec"), scope, namespace)  # noqa: S102
        made = namespace[name]
        made.__doc__ = declared.__doc__
        return made

    return constructor


def _parameters(declared: Callable[..., None]) -> dict[str, str]:
    """Return the source of each parameter, by its name; those that are `Unpack`ed come last."""
    found: dict[str, str] = {}
    for name, parameter in inspect.signature(declared).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            (shared,) = get_args(parameter.annotation)
            required = shared.__required_keys__
            found |= {each: each if each in required else f"{each}=None" for each in shared.__annotations__}
        else:
            found[name] = name if parameter.default is parameter.empty else f"{name}={parameter.default!r}"
    return found


def _source(name: str, parameters: Mapping[str, str]) -> str:
    values = {field: field if field in parameters else "None" for field in EVENT_FIELDS}
    values["event"] = repr(name)
    return "\n".join(
        [
            f"def {name}({', '.join(['*', *parameters.values()]) if parameters else ''}):",
            "    event = new(AuditEvent)",
            *(f"    event.{field} = {value}" for field, value in values.items()),
            "    return event",
        ]
    )


# A process


@_event(PROCESS)
def started(*, settings: Mapping[str, str]) -> None:
    """A process starts. `settings`: the settings that its decisions depend on."""


@_event(PROCESS)
def settings_changed(*, settings: Mapping[str, str], settings_generation: int) -> None:
    """Decisions depend on these settings from here on."""


@_event(PROCESS)
def stopped() -> None:
    """A process ends."""


@_event(PROCESS)
def records_dropped(*, count: int, message: str) -> None:
    """Records were lost: how many, and why."""


@_event(PROCESS)
def log_not_understood(*, metadata_offset: int | None, message: str) -> None:
    """A part of the metadata log is not understood, and fails closed. `message`: the record, and what."""


@_event(PROCESS)
def log_not_signed(*, metadata_offset: int, message: str) -> None:
    """The metadata log has records that no controller has signed. `message`: which, why, and their effect."""


@_event(PROCESS)
def same_id_twice(*, message: str) -> None:
    """Another process runs under this one's proxy.id. `message`: its boot, and its host if that is known."""


@_event(SUMMARY)
def high_water(*, count: int) -> None:
    """The current sequence number, so that a lost tail is detected."""


@_event(PROCESS)
def checkpoint(*, metadata_offset: int | None, message: str) -> None:
    """The process signs its trail up to here, and its state. `message`: the note."""


@_event(SUMMARY)
def witnessed(
    *,
    listener: str | None = None,
    host: str | None = None,
    principal: str | None = None,
    client_id: str | None = None,
    message: str,
) -> None:
    """Another process was there, and had written so many records. `message`: the end of its trail, which is a
    cosigned checkpoint if both have keys."""


@_event(ADMIN)
def own_topic(*, resource_name: str, message: str) -> None:
    """One of Penstock's own topics has a fault, is in order again, or was given settings."""


@_event(ADMIN)
def configuration_changed(*, settings: Mapping[str, str], message: str | None) -> None:
    """A file was read again. `message`: why it was rejected."""


# Logins


def _login(
    *,
    method: str | None = None,
    api_version: int | None = None,
    principal: str | None = None,
    groups: Sequence[str] | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    session_lifetime_ms: int | None = None,
    interval_start_ms: int | None = None,
    interval_end_ms: int | None = None,
) -> None:
    """A successful login."""


authentication = _event(AUTHENTICATION, "authentication")(_login)
reauthentication = _event(AUTHENTICATION, "reauthentication")(_login)
"""A re-authentication (KIP-368)."""


@_event(AUTHENTICATION)
def authentication_failed(
    *,
    connection_id: str | None = None,
    listener: str | None = None,
    host: str | None = None,
    principal: str | None = None,
    method: str | None = None,
    mechanism: str | None,
    error_code: int | None = None,
    message: str,
) -> None:
    """A rejected login, or a client certificate that the principal builder rejects."""


@_event(AUTHENTICATION)
def reauthentication_failed(
    *, method: str | None, principal: str | None, mechanism: str | None, error_code: int, message: str
) -> None:
    """A rejected re-authentication."""


@_event(AUTHENTICATION)
def authentication_incomplete(
    *, listener: str, host: str | None, message: str, **counted: Unpack[Counted]
) -> None:
    """Logins that ended without an outcome, counted by address and reason."""


@_event(AUTHENTICATION)
def session_expired(
    *,
    principal: str | None = None,
    client_id: str | None = None,
    method: str | None = None,
    api_version: int | None = None,
    correlation_id: int | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    message: str | None = None,
) -> None:
    """A connection is closed because it did not re-authenticate."""


@_event(AUTHENTICATION)
def session_expired_idle(
    *, principal: str | None, mechanism: str | None, error_code: int, message: str
) -> None:
    """An idle connection is closed because its session has expired."""


@_event(AUTHENTICATION)
def session_revoked(
    *,
    principal: str | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    message: str | None = None,
) -> None:
    """A connection is closed because its credential was changed or removed."""


@_event(ADMIN)
def session_disconnected(*, mechanism: str | None, message: str) -> None:
    """An administrator ends a connection. `message`: why, who, and from where."""


# Decisions and requests


@_event(DENIAL)  # For allowed actions, class_of returns another class.
def authorization(
    *,
    groups: Sequence[str] | None = None,
    method: str,
    resource_type: str,
    resource_name: str | None,
    pattern_type: str | None,
    operation: str,
    granted: bool,
    rule: str | None,
    acl_id: str | None,
    metadata_offset: int | None = None,
    settings_generation: int | None = None,
    error_code: int | None = None,
    message: str | None = None,
    objects: Objects = None,
    **origin: Unpack[Origin],
) -> None:
    """An action was denied, or belongs to an administrative request; `granted` is the difference."""


@_event(SUMMARY)
def candidate_compared(*, message: str, **counted: Unpack[Counted]) -> None:
    """Decisions that a candidate decided too (SPEC D19). `message`: the digest of its file, and errors."""


@_event(SUMMARY)
def candidate_differs(
    *,
    host: str | None = None,
    principal: str | None = None,
    groups: Sequence[str] | None = None,
    resource_type: str | None = None,
    resource_name: str | None = None,
    pattern_type: str | None = None,
    operation: str | None = None,
    granted: bool | None = None,
    rule: str | None = None,
    acl_id: str | None = None,
    message: str,
    **counted: Unpack[Counted],
) -> None:
    """Decisions that a candidate would have made otherwise. The fields are those of the decision in effect,
    `message` is the candidate's. Without a principal: further differences of the interval."""


@_event(SUMMARY)
def authorization_summary(
    *,
    method: str,
    api_version: int,
    resource_type: str,
    resource_name: str | None,
    pattern_type: str | None,
    operation: str,
    granted: bool,
    rule: str | None,
    acl_id: str | None,
    request_bytes: int,
    response_bytes: int,
    resource_count: int | None = None,
    **counted: Unpack[Counted],
) -> None:
    """Allowed data traffic of one connection, API and version, resource and operation; of many resources in
    one."""


@_event(SUMMARY)
def request_summary(*, method: str, api_version: int, request_bytes: int, **counted: Unpack[Counted]) -> None:
    """Traffic of one connection, API and version that needs no right."""


@_event(DENIAL)
def request_refused(
    *,
    method: str | None = None,
    granted: bool | None = None,
    metadata_offset: int | None = None,
    error_code: int | None = None,
    message: str,
    **origin: Unpack[Origin],
) -> None:
    """A request was rejected before any decision: malformed, unknown API, or a sender that may send none."""


def _request(
    *,
    method: str,
    api_version: int,
    correlation_id: int,
    error_code: int | None,
    objects: Objects = None,
) -> None:
    """An administrative request that needs no right, or that goes to the broker.

    `error_code`: None before there is a response.
    """


admin_request = _event(ADMIN, "admin_request")(_request)  # For rejected requests, class_of returns another.
broker_responded = _event(ADMIN, "broker_responded")(_request)
"""The broker has responded to an administrative request that it carries out, or creates topics. For requests
of data traffic, class_of returns another class."""


@_event(ADMIN)
def forwarded(
    *,
    method: str,
    api_version: int,
    correlation_id: int,
    forward_id: str | None,
    envelope_error_code: int,
    error_code: int | None = None,
    first_offset: int | None,
    last_offset: int | None,
    request_bytes: int | None,
    response_bytes: int | None = None,
    throttle_time_ms: int | None = None,
    interval_end_ms: int,
    count: int | None = None,
    changes: Sequence[Sequence[str | None]] | None = None,
    objects: Objects = None,
) -> None:
    """The proxy forwarded an administrative request to the controller and received the response."""


@_event(ADMIN)
def forwarded_received(
    *,
    error_code: int,
    first_offset: int | None,
    last_offset: int | None,
    metadata_offset: int | None,
    message: str | None,
    objects: Objects = None,
    **requester: Unpack[Requester],
) -> None:
    """The controller responded to a forwarded request."""


# What the controller has changed, and quotas


@_event(ADMIN)
def quota_changed(
    *, entity_path: str, message: str, metadata_offset: int | None = None, last_offset: int | None = None
) -> None:
    """The quotas of an entity changed. `message`: the notification of KIP-55."""


def _unrequested(
    *,
    method: str,
    count: int,
    first_offset: int | None,
    last_offset: int,
    metadata_offset: int,
    objects: Objects,
) -> None:
    """The controller changed something that nobody requested."""


tokens_expired = _event(ADMIN, "tokens_expired")(_unrequested)
"""It removed expired delegation tokens."""
acls_ended = _event(ADMIN, "acls_ended")(_unrequested)
"""It removed ACLs that had ended."""
topics_gone = _event(ADMIN, "topics_gone")(_unrequested)
"""It found topics that were deleted at a broker."""


@_event(ADMIN)
def log_written_again(
    *, method: str, count: int, first_offset: int | None, last_offset: int, metadata_offset: int
) -> None:
    """The controller wrote records again that change nothing, because they were hidden or not signed."""


@_event(SUMMARY)
def throttled(
    *,
    method: str | None = None,
    settings_generation: int | None = None,
    groups: Sequence[str] | None = None,
    throttle_time_ms: int,
    interval_start_ms: int | None = None,
    interval_end_ms: int | None = None,
    **use: Unpack[QuotaUse],
) -> None:
    """A client was muted, or with `quota.mode: observe` would have been."""


@_event(SUMMARY)
def quota_used(
    *,
    method: str | None = None,
    settings_generation: int | None = None,
    groups: Sequence[str] | None = None,
    interval_start_ms: int,
    interval_end_ms: int,
    **use: Unpack[QuotaUse],
) -> None:
    """The use of a quota that no other record reports."""


@_event(SUMMARY)
def quota_share(
    *,
    quota_key: str,
    quota_id: str,
    quota_limit: float,
    quota_share: float,
    rule: str | None,
    **counted: Unpack[Counted],
) -> None:
    """What this process let through of a quota for the whole cluster, and its mean share of the limit.

    `count`: bytes, or microseconds of an event loop, or connections.
    """


EVENTS = tuple(_CLASS_OF)
"""The names of all events."""


def class_of(event: AuditEvent) -> str:
    """Return the class of an event; ADMIN for one that is not declared above."""
    if event.event in ("authorization", "authorization_collapsed"):
        if not event.granted:
            return DENIAL
        # Allowed actions are recorded one by one only for administrative requests.
        return SUMMARY if event.method in READS else ADMIN
    if event.event == "admin_request" and event.error_code:
        return DENIAL
    if event.event == "broker_responded" and event.method in BY_CLIENTS:
        return SUMMARY
    return _CLASS_OF.get(event.event, ADMIN)
