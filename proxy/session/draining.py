"""The end of a session whose proxy stops (SIGTERM): what was sent on is answered, nothing more is taken.

Called by proxy.net.connection while the process drains (docs/decisions/0049). What the client has sent and
was not begun is dropped: the broker never sees it, so a client that retries it doubles nothing.
"""

from typing import TYPE_CHECKING

from proxy.session.apis import table
from proxy.session.effects import Close, Effect
from proxy.session.pipeline import InFlight
from proxy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from proxy.session.session import Session

DRAINED = "drained"

REPEATABLE = table.REPEATABLE | {ApiKey.FETCH, ApiKey.API_VERSIONS}
"""Requests that a client repeats on its next connection as if nothing had been: they need not be answered.

The broker may hold some for as long as the client allows (Fetch, JoinGroup); others may wait behind one of
those on the same connection. Every other one is waited for, since its client could not know whether it was
carried out.
"""


def drain(session: "Session") -> list[Effect]:
    """Take no further request; the session's Close comes once what is in flight is answered.

    The rest of a produce request that is on its way to the broker in pieces is still taken, and a login that
    is being verified is answered first.
    """
    effects: list[Effect] = []
    session.draining = True
    end_if_due(session, effects)
    return effects


def end_if_due(session: "Session", effects: list[Effect]) -> None:
    """Close a draining session which has neither the rest of a request to take nor a login to answer."""
    due = session.draining and session.streams_to is None and session.verifying is None
    if due and not session.closing:
        session.close(Close(DRAINED), effects)


def takes_rest(session: "Session") -> bool:
    """Whether a draining session still takes the rest of a request that the broker has begun."""
    return session.draining and session.streams_to is not None


def needs_no_answer(session: "Session") -> bool:
    """Whether nothing is lost if the connection ends now, but the client's time.

    That is, nothing is in flight except repeatable requests whose response has not begun, and a produce
    request that the broker does not have all of, so that it will not carry it out.
    """
    return not session.responding and all(
        entry.api_key in REPEATABLE or entry is session.incomplete for entry in session.pipeline.queue
    )


def begun(session: "Session", correlation_id: int) -> InFlight | None:
    """The request in flight whose last bytes are to come; None where its client wants no answer."""
    last = session.pipeline.last()
    if last is None or last.api_key != ApiKey.PRODUCE or last.correlation_id != correlation_id:
        return None
    return last
