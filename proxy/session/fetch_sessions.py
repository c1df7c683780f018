"""The fetch sessions (KIP-227) that one connection has opened.

A fetch session names its partitions once, so what was allowed then has to be allowed still: a session is
known to the connection that opened it, under the ACLs and the authorizer it was opened under. Any other use
of it gets FETCH_SESSION_ID_NOT_FOUND, upon which a client opens a new one.
"""

from collections import OrderedDict
from dataclasses import dataclass

from proxy.session.gate import Rights

_MAX_SESSIONS = 1_000


@dataclass(frozen=True, slots=True)
class _Session:
    rights: Rights
    first_topic: str


class FetchSessions:
    """Bounded: beyond 1,000 sessions the oldest is forgotten."""

    __slots__ = ("_sessions",)

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, _Session] = OrderedDict()

    def opened(self, session_id: int, rights: Rights, first_topic: str) -> None:
        """The broker gave this id to a request whose topics were all allowed under `rights`."""
        if session_id:
            self._sessions[session_id] = _Session(rights, first_topic)
            if len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)

    def first_topic(self, session_id: int, rights: Rights) -> str | None:
        """The topic at which the session's traffic is counted; None when it must not be used any more."""
        session = self._sessions.get(session_id)
        if session is None or session.rights[0] != rights[0] or session.rights[1] is not rights[1]:
            return None
        return session.first_topic

    def clear(self) -> None:
        """The client is another principal now."""
        self._sessions.clear()
