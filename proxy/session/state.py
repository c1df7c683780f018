"""Why a session takes no further request of its client right now.

Several reasons may apply at once: a client can be muted while the controller still has its request. So a
state is a set of flags, and OPEN is the empty set. proxy.session.machine owns it: nothing else writes the
flags, and the machine writes them by `after` alone, which executes a row of `TABLE`. An event that is not
possible in a state is a defect: it raises IllegalTransition, and the connection ends. docs/dev/flow.md has
the table.
"""

from dataclasses import dataclass
from enum import IntFlag

from proxy.session.effects import Effect

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


# Operations on plain numbers cost a tenth of those on flags, and these are made for every request.
MUTED, VERIFYING = int(State.MUTED), int(State.VERIFYING)
QUERYING_BROKER, AWAITING_CONTROLLER = int(State.QUERYING_BROKER), int(State.AWAITING_CONTROLLER)
LOOKING_UP_TOPICS, AWAITING_MEMORY = int(State.LOOKING_UP_TOPICS), int(State.AWAITING_MEMORY)
RESPONSES_PENDING, TURN_DUE = int(State.RESPONSES_PENDING), int(State.TURN_DUE)
CLOSING, UPSTREAM_LOGIN_LATE = int(State.CLOSING), int(State.UPSTREAM_LOGIN_LATE)
WAITING = QUERYING_BROKER | AWAITING_CONTROLLER | LOOKING_UP_TOPICS | AWAITING_MEMORY
"""One request waits for one of these: never two at a time."""


class IllegalTransition(RuntimeError):
    """An event that is not possible in this state: a defect of the session."""


@dataclass(frozen=True, slots=True)
class Transition:
    """An event: the flags that it sets and clears, and those with which it is possible."""

    event: str
    sets: int = 0
    clears: int = 0
    needs: int = 0
    """Flags all of which are set before."""
    excludes: int = 0
    """Flags none of which is set before."""


MUTE = Transition("a `MuteClient` step", sets=MUTED)
UNMUTE = Transition("`unmuted`, once for each `MuteClient`", clears=MUTED, needs=MUTED)
VERIFY = Transition("a `Verify` step", sets=VERIFYING, excludes=VERIFYING)
VERIFIED = Transition("`verified`", clears=VERIFYING, needs=VERIFYING)
QUERY_BROKER = Transition("a `BrokerQuery` in flight", sets=QUERYING_BROKER, excludes=WAITING)
BROKER_RESPONDED = Transition("the broker's response to it", clears=QUERYING_BROKER, needs=QUERYING_BROKER)
AWAIT_CONTROLLER = Transition("an `Awaited` in flight", sets=AWAITING_CONTROLLER, excludes=WAITING)
CONTROLLER_RESPONDED = Transition(
    "`controller_responded`", clears=AWAITING_CONTROLLER, needs=AWAITING_CONTROLLER
)
LOOK_UP_TOPICS = Transition("a `LookUp` step", sets=LOOKING_UP_TOPICS, excludes=WAITING)
TOPICS_LOOKED_UP = Transition(
    "`topics_looked_up`", sets=TURN_DUE, clears=LOOKING_UP_TOPICS, needs=LOOKING_UP_TOPICS
)
AWAIT_MEMORY = Transition(
    "no memory for a frame, or for more responses", sets=AWAITING_MEMORY, excludes=WAITING
)
MEMORY_GRANTED = Transition("`memory_granted`", sets=TURN_DUE, clears=AWAITING_MEMORY, needs=AWAITING_MEMORY)
FILL_PIPELINE = Transition(
    "eight requests in flight, one whose response may mute the client or is held, or 1 MiB of own responses"
    " that wait behind the broker's",
    sets=RESPONSES_PENDING,
)
EMPTY_PIPELINE = Transition("half as many in flight", clears=RESPONSES_PENDING, needs=RESPONSES_PENDING)
LEAVE_WORK = Transition("a slice of the event loop's time that was too short", sets=TURN_DUE)
TAKE_TURN = Transition("`take_turn`", clears=TURN_DUE)
CLOSE = Transition("an `End` or `CutOff` step", sets=CLOSING)
DISCONNECT = Transition("`closed`: the client has disconnected", clears=TURN_DUE | RESPONSES_PENDING)
LATE_LOGIN = Transition("`await_upstream_login`", sets=UPSTREAM_LOGIN_LATE)
LOG_IN = Transition("`log_in_upstream`", clears=UPSTREAM_LOGIN_LATE)

TABLE = (
    *(MUTE, UNMUTE, VERIFY, VERIFIED, QUERY_BROKER, BROKER_RESPONDED, AWAIT_CONTROLLER, CONTROLLER_RESPONDED),
    *(LOOK_UP_TOPICS, TOPICS_LOOKED_UP, AWAIT_MEMORY, MEMORY_GRANTED, FILL_PIPELINE, EMPTY_PIPELINE),
    *(LEAVE_WORK, TAKE_TURN, CLOSE, DISCONNECT, LATE_LOGIN, LOG_IN),
)
"""Every change of a state. Nothing clears CLOSING."""


def after(flags: int, transition: Transition) -> int:
    """Return the flags after an event. IllegalTransition if it is not possible now."""
    if flags & transition.needs != transition.needs or flags & transition.excludes:
        raise IllegalTransition(f"{transition.event}, while the state is {State(flags)!r}")
    return (flags & ~transition.clears) | transition.sets
