"""Questions of our own to the broker, on the client's connection: what it answers never reaches the client.

Part of proxy.session.session. While a question is open no further request of the client is taken, so it is
the last in flight, and whatever waits for its answer goes on before anything else happens.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proxy.session import outcome, topic_lookup, unasked
from proxy.session.call import Answer, Ask, Call, LookUp, Verdict
from proxy.session.effects import Effect, ToBroker
from proxy.session.pipeline import InFlight, Reply
from proxy.wire import codecs
from proxy.wire.header import encode_request

if TYPE_CHECKING:
    from proxy.session.session import Session

CORRELATION_ID = -590
"""Of all our questions. A client may use the same: answers are told apart by their order alone."""

CLIENT_ID = "penstock"

Then = Callable[[Any, int, list[Effect]], None]
"""Decoded answer, now_ms, and where what comes of it goes."""

Act = Callable[["Session", Call, Any, Verdict, bool, list[Effect]], bool]
"""proxy.session.verdicts.act, which stands on this module."""


class Question:
    """One request of ours that the broker has."""

    __slots__ = ("reply", "then")

    def __init__(self, then: Then) -> None:
        self.then = then
        self.reply: Any = None
        """The decoded answer; None while it is not there."""

    def answered(self, reply: Any) -> None:
        self.reply = reply


def ask(
    session: "Session", api_key: int, version: int, message: Any, then: Then, effects: list[Effect]
) -> None:
    """Send a request of ours behind those in flight; `then` gets the answer."""
    question = Question(then)
    session.pipeline.push(InFlight(Reply.OWN, api_key, version, CORRELATION_ID, handler=question.answered))
    session.waits_for = question
    body = codecs.request(api_key, version).encode(message)
    effects.append(ToBroker(encode_request(api_key, version, CORRELATION_ID, CLIENT_ID, body)))


def go_on(session: "Session", question: Question, now_ms: int, effects: list[Effect]) -> None:
    """The answer is there: what waited for it happens now."""
    session.waits_for = None
    if not session.closing:
        question.then(question.reply, now_ms, effects)


def ask_first(
    session: "Session",
    call: Call,
    message: Any,
    verdict: Ask,
    act: Act,
    effects: list[Effect],
) -> None:
    """Put an API's question; its verdict on the request is made of the answer, and carried out by `act`."""

    def then(reply: Any, _now_ms: int, out: list[Effect]) -> None:
        act_on(session, call, message, verdict.then(reply), act, out)

    ask(session, verdict.api_key, verdict.version, verdict.message, then, effects)


def look_up_first(
    session: "Session",
    call: Call,
    message: Any,
    verdict: LookUp,
    act: Act,
    effects: list[Effect],
) -> None:
    """Wait until topics have names; the verdict that is made with them is carried out by `act`."""

    def then(out: list[Effect]) -> None:
        if not session.closing:
            act_on(session, call, message, verdict.then(), act, out)

    topic_lookup.begin(session, verdict.topic_ids, then, effects)


def act_on(
    session: "Session",
    call: Call,
    message: Any,
    decided: Verdict,
    act: Act,
    effects: list[Effect],
) -> None:
    """Carry out what was decided once a question was answered."""
    if call.events and isinstance(decided, Answer):
        outcome.tell(call.events, decided.message)
    unasked.tell(call, decided, session.client)
    session.note(call, effects)
    # The client's own bytes are gone by now: what is sent on is encoded again.
    act(session, call, message, decided, True, effects)
