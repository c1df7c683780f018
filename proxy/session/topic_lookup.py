"""Topic ids that have no name here yet: the broker is asked for it before the request is decided (KIP-516).

Part of proxy.session.session. A request that names such ids waits until proxy.net.topic_lookups has asked the
broker, and no later request of the client is taken meanwhile, so responses keep their order. Then either the
decision goes on (APIs with a verdict), or the frame is treated again from its beginning (Produce and Fetch,
whose usual ways are too short to be left in the middle). An id that has no name even then is unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from proxy.session.effects import Effect, LookUpTopics
from proxy.session.gate import Gate
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import paced

if TYPE_CHECKING:
    from proxy.session.session import Session

_FIRST_WITH_TOPIC_IDS = 12
"""Of Metadata: older brokers cannot be asked for the name of an id."""

_ID_BYTES = 16

NONE: frozenset[bytes] = frozenset()


class TopicLookup:
    """Stands for what a session waits for: the names of these topic ids, packed."""

    __slots__ = ("_then", "_topic_ids")

    def __init__(self, topic_ids: bytes, then: Callable[[list[Effect]], None] | None) -> None:
        """`then` continues with the request; None: its frame is treated again."""
        self._topic_ids = topic_ids
        self._then = then

    def ended(self, session: "Session") -> tuple[Callable[[], None], list[Effect]]:
        """What to do now, and where the effects of it are."""
        own: list[Effect] = []
        return partial(self._note, session) if self._then is None else partial(self._then, own), own

    def _note(self, session: "Session") -> None:
        name, packed = session.gate.topic_names.name, self._topic_ids
        topic_ids = (packed[start : start + _ID_BYTES] for start in paced(range(0, len(packed), _ID_BYTES)))
        session.looked_up = frozenset(topic_id for topic_id in topic_ids if name(topic_id) is None)


def unnamed(gate: Gate, topic_ids: Iterable[bytes], now_ms: int) -> list[bytes]:
    """Those of the ids, each once, whose names the broker should be asked for."""
    low, high = gate.versions.get(ApiKey.METADATA, (0, -1))
    if high < max(low, _FIRST_WITH_TOPIC_IDS):
        return []
    names = gate.topic_names
    return [
        topic_id
        for topic_id in paced(list(dict.fromkeys(topic_ids)))
        if names.name(topic_id) is None and any(topic_id) and not names.is_missing(topic_id, now_ms)
    ]


def begin(
    session: "Session",
    topic_ids: Sequence[bytes],
    then: Callable[[list[Effect]], None] | None,
    effects: list[Effect],
) -> None:
    """Nothing more is taken from the client until these ids are looked up."""
    packed = b"".join(topic_ids)
    session.waits_for = TopicLookup(packed, then)
    effects.append(LookUpTopics(packed))


def holds_back(
    session: "Session", topic_ids: Iterable[bytes], frame: memoryview, now_ms: int, effects: list[Effect]
) -> bool:
    """Whether the whole frame, in which these ids have no name, waits for a lookup: then it is treated again.

    An id is looked up once for a frame, however long that takes, and however soon the answer is forgotten.
    """
    asked = [id_ for id_ in unnamed(session.gate, topic_ids, now_ms) if id_ not in session.looked_up]
    if not asked:
        session.looked_up = NONE
        return False
    api_key = int.from_bytes(frame[4:6], "big")
    session.listener.counts.requests[api_key] -= 1  # It is counted again.
    session.hold_back(frame)
    begin(session, asked, None, effects)
    return True


def holds_back_head(session: "Session", topic_id: bytes, now_ms: int, effects: list[Effect]) -> bool:
    """The same for a frame of which the head is looked at, and which stays in the input."""
    if topic_id in session.looked_up or not unnamed(session.gate, (topic_id,), now_ms):
        return False
    begin(session, (topic_id,), None, effects)
    return True
