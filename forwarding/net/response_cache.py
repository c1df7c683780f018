"""The responses to the last forwards, for proxies that retry.

After a lost connection a proxy does not know whether its request was carried out; it retries with the same
forward id. The cache is bounded, the oldest responses are dropped first.
"""

from __future__ import annotations

from collections import OrderedDict

from forwarding.envelope import ForwardedRequest, Sender
from proxy.wire import types

MAX_RESPONSES = 2_000

ForwardKey = tuple[str, str]
"""The sender and its forward id: a proxy cannot get the responses to another's forwards."""


def forward_key(sender: Sender, forwarded: ForwardedRequest) -> ForwardKey | None:
    """Return the key of a forward; None from senders without ids (Kafka's brokers): they are not cached."""
    if forwarded.forward_id is None:
        return None
    return str(sender.principal), forwarded.forward_id


class ResponseCache:
    """Forward -> its EnvelopeResponse."""

    def __init__(self, max_responses: int = MAX_RESPONSES) -> None:
        self._responses: OrderedDict[ForwardKey, types.EnvelopeResponse] = OrderedDict()
        self._max_responses = max_responses

    def get(self, key: ForwardKey | None) -> types.EnvelopeResponse | None:
        """Return the response to an earlier attempt, or None."""
        return None if key is None else self._responses.get(key)

    def put(self, key: ForwardKey | None, response: types.EnvelopeResponse) -> None:
        """Remember a final response."""
        if key is None:
            return
        self._responses[key] = response
        while len(self._responses) > self._max_responses:
            self._responses.popitem(last=False)
