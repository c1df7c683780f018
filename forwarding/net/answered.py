"""The answers of the last forwards, so that a proxy that asks again is told what it would have been told.

A lost connection leaves a proxy not knowing whether its request was carried out; it repeats it with the
same forward id. Kept by forwarding.net.writer. Bounded: the oldest answers go first.
"""

from __future__ import annotations

from collections import OrderedDict

from forwarding.envelope import Forwarded, Sender
from proxy.wire import types

MAX_ANSWERS = 2_000

Key = tuple[str, str]
"""Who forwarded, and its id for the forward: no proxy can ask for the answers of another."""


def forward_key(sender: Sender, forwarded: Forwarded) -> Key | None:
    """None for a sender that gives no ids (Kafka's brokers): its requests are never recognised."""
    if forwarded.forward_id is None:
        return None
    return str(sender.principal), forwarded.forward_id


class Answered:
    """Forward -> its EnvelopeResponse."""

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self._answers: OrderedDict[Key, types.EnvelopeResponse] = OrderedDict()
        self._max_answers = max_answers

    def get(self, key: Key | None) -> types.EnvelopeResponse | None:
        """What was answered before; None if nothing was."""
        return None if key is None else self._answers.get(key)

    def put(self, key: Key | None, answer: types.EnvelopeResponse) -> None:
        """Remember a final answer."""
        if key is None:
            return
        self._answers[key] = answer
        while len(self._answers) > self._max_answers:
            self._answers.popitem(last=False)
