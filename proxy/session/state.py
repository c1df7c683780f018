"""Why a session takes no further request of its client right now, and its work that is unfinished.

Several reasons may apply at once: a client can be muted while the controller still has its request. So a
state is a set of flags, and OPEN is the empty set. `Session` alone changes it. docs/flow.md shows `TABLE`.

Work on requests and responses is done a slice at a time (SPEC O8). While a piece of work is unfinished,
nothing else of the session happens: it takes neither requests nor responses. proxy.net.clients.turns
continues it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag

from proxy.session.effects import Effect
from proxy.wire.work import Pace, Work

Effects = list[Effect]


class State(IntFlag):
    """The reasons that apply; OPEN: the next request is taken."""

    OPEN = 0
    MUTED = 1  # A response made the client wait (KIP-219).
    VERIFYING = 2  # A password or a token is being verified in a thread.
    QUERYING_BROKER = 4  # The broker has a request of the proxy's own, which a client's request depends on.
    AWAITING_CONTROLLER = 8  # The controller has an administrative request (KIP-590).
    LOOKING_UP_TOPICS = 16  # The broker is queried for names of topic ids (KIP-516).
    AWAITING_MEMORY = 32  # There is no memory for the request that has begun, or for more responses.
    RESPONSES_PENDING = 64  # Too many requests are in flight, or too many responses wait to leave.
    TURN_DUE = 128  # Work is left for a later turn of the event loop (SPEC O8).
    CLOSING = 256  # The connection is about to end.
    UPSTREAM_LOGIN_LATE = 512  # The proxy's session at the broker is about to end, and no new login is there.


@dataclass(frozen=True, slots=True)
class Transition:
    """Describes what sets a flag and what clears it."""

    set_by: str
    cleared_by: str


TABLE = {
    State.MUTED: Transition("a `MuteClient` effect", "`unmuted`, once for each `MuteClient`"),
    State.VERIFYING: Transition("a `Verify` effect", "`verified`"),
    State.QUERYING_BROKER: Transition("a `BrokerQuery` in flight", "the broker's response to it"),
    State.AWAITING_CONTROLLER: Transition("an `Awaited` request in flight", "`controller_responded`"),
    State.LOOKING_UP_TOPICS: Transition("a `LookUpTopics` effect", "`topics_looked_up`"),
    State.AWAITING_MEMORY: Transition(
        "a frame or a response for which there is no memory", "`memory_granted`"
    ),
    State.RESPONSES_PENDING: Transition(
        "eight requests in flight, one whose response may mute the client, or 1 MiB of own responses that"
        " wait behind the broker's",
        "responses that leave, until half as many are in flight",
    ),
    State.TURN_DUE: Transition("a slice of the event loop's time that was too short", "`take_turn`"),
    State.CLOSING: Transition("an `End` or `CutOff` step", "nothing"),
    State.UPSTREAM_LOGIN_LATE: Transition("`await_upstream_login`", "`log_in_upstream`"),
}

# Operations on plain numbers cost a tenth of those on flags, and these are made for every request.
MUTED, VERIFYING = int(State.MUTED), int(State.VERIFYING)
QUERYING_BROKER, AWAITING_CONTROLLER = int(State.QUERYING_BROKER), int(State.AWAITING_CONTROLLER)
LOOKING_UP_TOPICS, AWAITING_MEMORY = int(State.LOOKING_UP_TOPICS), int(State.AWAITING_MEMORY)
RESPONSES_PENDING, TURN_DUE = int(State.RESPONSES_PENDING), int(State.TURN_DUE)
CLOSING, UPSTREAM_LOGIN_LATE = int(State.CLOSING), int(State.UPSTREAM_LOGIN_LATE)
WAITING = QUERYING_BROKER | AWAITING_CONTROLLER | LOOKING_UP_TOPICS | AWAITING_MEMORY


class Slices:
    """At most one piece of work is unfinished."""

    __slots__ = ("_pace", "_work")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._work: Work | None = None

    @property
    def unfinished(self) -> bool:
        return self._work is not None

    def run(self, function: Callable[[], Effects], max_elements: int | None = None) -> Effects | None:
        """The result of `function`; None if the slice ended first: then `resume` returns it later.

        `max_elements`: see Work. What `function` raises, `run` or `resume` raises.
        """
        assert self._work is None, "one piece of work at a time"
        work = Work(function, self._pace, max_elements)
        if work.go_on():
            return self._result(work)
        self._work = work
        return None

    def resume(self) -> Effects:
        """Work for another slice; the effects of what is finished."""
        work = self._work
        if work is None:
            return []
        try:
            is_done = work.go_on()
        except BaseException:
            self.drop()
            raise
        if not is_done:
            return []
        self.drop()
        return self._result(work)

    def drop(self) -> None:
        """Forget what is unfinished."""
        self._work = None

    @staticmethod
    def _result(work: Work) -> Effects:
        effects: Effects = work.result
        return effects
