"""One constructor for each audit event, with exactly the fields that it states: `events.stopped()`.

A function below declares an event: its name is the event's name, its keywords are the fields, and beside it
stands the class that decides what becomes of the event when the trail has no room. A field that an event does
not have is an error of mypy. What says where an event comes from (connection, listener, host, principal,
client id, metadata offset, settings generation) is not among the fields where the session adds it to whatever
it records. Used by whoever makes events; `class_of` by proxy.net.audit.audit_log and proxy.audit.noise.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypedDict

from proxy.audit.classes import ADMIN, AUTHENTICATION, DENIAL, PROCESS, READS, SUMMARY
from proxy.audit.record import EVENT_FIELDS, AuditEvent

Fields = ParamSpec("Fields")

_CLASS_OF: dict[str, str] = {
    # Made of other events (proxy.audit.noise, proxy.session.accounting.denials), with their fields.
    "authentication_collapsed": AUTHENTICATION,
    "request_collapsed": DENIAL,
    "authorization_collapsed": DENIAL,
}
FIELDS_OF: dict[str, tuple[str, ...]] = {}
"""Event -> the fields that its constructor takes."""


class Requester(TypedDict):
    """Who asked the controller for what, through which proxy, and by which forward."""

    listener: str
    host: str
    principal: str
    forwarding_principal: str
    client_id: str | None
    method: str
    api_version: int
    correlation_id: int
    forward_id: str | None


def _event(event_class: str) -> Callable[[Callable[Fields, None]], Callable[Fields, AuditEvent]]:
    """Turns a declaration into the constructor of the event."""

    def constructor(declared: Callable[Fields, None]) -> Callable[Fields, AuditEvent]:
        name, signature = declared.__name__, inspect.signature(declared)
        if unknown := signature.parameters.keys() - set(EVENT_FIELDS):
            raise TypeError(f"{name}: an audit record has no field {', '.join(sorted(unknown))}")
        _CLASS_OF[name] = event_class
        FIELDS_OF[name] = tuple(signature.parameters)
        namespace: dict[str, Callable[Fields, AuditEvent]] = {}
        scope = {"AuditEvent": AuditEvent, "new": object.__new__}
        # Written from the declarations below. A third of what the constructor of the dataclass costs, which
        # has 39 keywords to match: denials and summaries are made by the thousand.
        exec(compile(_source(name, signature), f"<event {name}>", "exec"), scope, namespace)  # noqa: S102
        made = namespace[name]
        made.__doc__ = declared.__doc__
        return made

    return constructor


def _source(name: str, signature: inspect.Signature) -> str:
    parameters = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
        for parameter in signature.parameters.values()
    ]
    values = {field: field if field in signature.parameters else "None" for field in EVENT_FIELDS}
    values["event"] = repr(name)
    return "\n".join(
        [
            f"def {name}({', '.join(['*', *parameters]) if parameters else ''}):",
            "    event = new(AuditEvent)",
            *(f"    event.{field} = {value}" for field, value in values.items()),
            "    return event",
        ]
    )


# A process


@_event(PROCESS)
def started(*, settings: Mapping[str, str]) -> None:
    """A process begins; `settings`: what its decisions will depend on."""


@_event(PROCESS)
def settings_changed(*, settings: Mapping[str, str], settings_generation: int) -> None:
    """From here on decisions depend on these settings."""


@_event(PROCESS)
def stopped() -> None:
    """A process ends."""


@_event(PROCESS)
def records_dropped(*, count: int, message: str) -> None:
    """So many records were lost, and why."""


@_event(SUMMARY)
def high_water(*, count: int) -> None:
    """How far the sequence is, so that a lost tail shows."""


@_event(ADMIN)
def configuration_changed(*, settings: Mapping[str, str], message: str | None) -> None:
    """A file was read again; `message`: why it could not be."""


# Logins


@_event(AUTHENTICATION)
def authentication(
    *,
    method: str | None = None,
    api_version: int | None = None,
    principal: str | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    session_lifetime_ms: int | None = None,
    interval_start_ms: int | None = None,
    interval_end_ms: int | None = None,
) -> None:
    """A login."""


@_event(AUTHENTICATION)
def reauthentication(
    *,
    method: str | None = None,
    api_version: int | None = None,
    principal: str | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    session_lifetime_ms: int | None = None,
    interval_start_ms: int | None = None,
    interval_end_ms: int | None = None,
) -> None:
    """A login on a connection that has one already (KIP-368)."""


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
    """A login that was rejected, or a client whose certificate proves too little."""


@_event(AUTHENTICATION)
def reauthentication_failed(
    *, method: str | None, principal: str | None, mechanism: str | None, error_code: int, message: str
) -> None:
    """A second login that was rejected."""


@_event(AUTHENTICATION)
def authentication_incomplete(
    *,
    listener: str,
    host: str | None,
    count: int,
    interval_start_ms: int,
    interval_end_ms: int,
    message: str,
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
    """A connection past the end of its session was idle, and is closed."""


@_event(AUTHENTICATION)
def session_revoked(
    *,
    principal: str | None = None,
    mechanism: str | None = None,
    error_code: int | None = None,
    message: str | None = None,
) -> None:
    """A connection is closed because its credential was changed or removed."""


# Decisions and requests


@_event(DENIAL)  # An allowed one: see class_of.
def authorization(
    *,
    listener: str | None = None,
    host: str | None = None,
    principal: str,
    forwarding_principal: str | None = None,
    client_id: str | None = None,
    method: str,
    api_version: int | None = None,
    correlation_id: int | None = None,
    forward_id: str | None = None,
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
) -> None:
    """An action is denied, or belongs to an administrative request; `granted` says which."""


@_event(SUMMARY)
def authorization_summary(
    *,
    method: str,
    resource_type: str,
    resource_name: str,
    pattern_type: str,
    operation: str,
    granted: bool,
    rule: str | None,
    acl_id: str | None,
    count: int,
    request_bytes: int,
    response_bytes: int,
    interval_start_ms: int,
    interval_end_ms: int,
) -> None:
    """Allowed data traffic of one connection, API, resource and operation."""


@_event(SUMMARY)
def request_summary(
    *, method: str, count: int, request_bytes: int, interval_start_ms: int, interval_end_ms: int
) -> None:
    """Traffic of one connection and API that asks for no right."""


@_event(DENIAL)
def request_refused(
    *,
    listener: str | None = None,
    host: str | None = None,
    principal: str | None = None,
    forwarding_principal: str | None = None,
    client_id: str | None = None,
    method: str | None = None,
    api_version: int | None = None,
    correlation_id: int | None = None,
    forward_id: str | None = None,
    granted: bool | None = None,
    metadata_offset: int | None = None,
    error_code: int | None = None,
    message: str,
) -> None:
    """A request that is not even decided: malformed, of an unknown API, of a principal that may send none."""


@_event(ADMIN)  # One that was rejected: see class_of.
def admin_request(*, method: str, api_version: int, correlation_id: int, error_code: int | None) -> None:
    """An administrative request that asks for no right. `error_code`: None before there is a response."""


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
) -> None:
    """The proxy has sent an administrative request to the controller, and has its response."""


@_event(ADMIN)
def forwarded_received(
    *,
    listener: str,
    host: str,
    principal: str,
    forwarding_principal: str,
    client_id: str | None,
    method: str,
    api_version: int,
    correlation_id: int,
    forward_id: str | None,
    error_code: int,
    first_offset: int | None,
    last_offset: int | None,
    metadata_offset: int | None,
    message: str | None,
) -> None:
    """The controller has responded to it."""


# What the controller has changed, and quotas


@_event(ADMIN)
def quota_changed(
    *, entity_path: str, message: str, metadata_offset: int | None = None, last_offset: int | None = None
) -> None:
    """The quotas of an entity were changed; `message`: KIP-55's notification."""


@_event(ADMIN)
def tokens_expired(
    *, method: str, count: int, first_offset: int | None, last_offset: int, metadata_offset: int
) -> None:
    """The controller has removed delegation tokens that had expired."""


@_event(ADMIN)
def topics_gone(
    *, method: str, count: int, first_offset: int | None, last_offset: int, metadata_offset: int
) -> None:
    """The controller has found topics that were deleted at a broker."""


@_event(SUMMARY)
def throttled(
    *,
    listener: str | None = None,
    host: str | None = None,
    principal: str | None = None,
    forwarding_principal: str | None = None,
    client_id: str | None = None,
    method: str | None = None,
    api_version: int | None = None,
    correlation_id: int | None = None,
    forward_id: str | None = None,
    quota_key: str,
    quota_id: str,
    quota_limit: float,
    metadata_offset: int,
    settings_generation: int | None = None,
    rule: str | None,
    count: int,
    throttle_time_ms: int,
    interval_start_ms: int | None = None,
    interval_end_ms: int | None = None,
) -> None:
    """A client was muted, or with `quota.mode: observe` would have been."""


@_event(SUMMARY)
def quota_used(
    *,
    listener: str | None = None,
    host: str | None = None,
    principal: str | None = None,
    forwarding_principal: str | None = None,
    client_id: str | None = None,
    method: str | None = None,
    api_version: int | None = None,
    correlation_id: int | None = None,
    forward_id: str | None = None,
    quota_key: str,
    quota_id: str,
    quota_limit: float,
    metadata_offset: int,
    settings_generation: int | None = None,
    rule: str | None,
    count: int,
    interval_start_ms: int,
    interval_end_ms: int,
) -> None:
    """What was taken of a quota, where no other record tells it."""


EVENTS = tuple(_CLASS_OF)
"""All there are."""


def class_of(event: AuditEvent) -> str:
    """The class of an event; one that is not declared above is kept like an administrator's."""
    if event.event in ("authorization", "authorization_collapsed"):
        if not event.granted:
            return DENIAL
        # Granted ones are recorded one by one where the request is an administrative one.
        return SUMMARY if event.method in READS else ADMIN
    if event.event == "admin_request" and event.error_code:
        return DENIAL
    return _CLASS_OF.get(event.event, ADMIN)
