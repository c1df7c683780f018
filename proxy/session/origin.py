"""Where an audit record comes from: who, by which connection, at which image and by which settings.

Used by proxy.session.session for each client state and for each record that a session makes.
"""

from typing import TYPE_CHECKING

from proxy.audit.record import AuditEvent
from proxy.security.authorizer import RequestContext

if TYPE_CHECKING:
    from proxy.session.session import Session


def context(session: "Session", client_id: str | None) -> RequestContext:
    """That of a client's requests from now on, until the gate's basis or who they are changes."""
    basis = session.gate.basis
    return RequestContext(
        session.authentication.principal,
        session.peer.host,
        session.listener.name,
        client_id,
        image=basis.image,
        settings_generation=basis.settings_generation,
    )


def complete(session: "Session", event: AuditEvent, context: RequestContext) -> AuditEvent:
    """The event with that filled in; `context`: of the client whose request it is about."""
    event.connection_id = session.peer.connection_id
    event.listener = session.listener.name
    event.host = session.peer.host
    event.client_id = event.client_id or context.client_id
    if event.principal is None and session.authentication.known:
        event.principal = str(context.principal)
    if event.metadata_offset is None and context.image is not None:
        event.metadata_offset = context.image.offset
    if event.settings_generation is None:
        event.settings_generation = context.settings_generation
    event.settings_generation = event.settings_generation or None
    return event
