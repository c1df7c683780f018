"""Controllers of the real code over a topic in memory, one after another without sockets or time.

A `Follower` reads the topic as proxy.net.metadata.topic_feed does: step by step at its end, in one piece when
it had fallen behind. A `Node` is a follower that decides, writes and responds:
forwarding.net.request_processor and below.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, cast

from prometheus_client import CollectorRegistry

from forwarding.controller.api import TokenSettings
from forwarding.controller.controller import Controller
from forwarding.envelope import Sender
from forwarding.net.duplicate_forwards import CommittedForwards
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.request_processor import LogAccess, RequestProcessor
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.metadata.feed import FeedTimeout
from proxy.net.metadata.transactions import Committed, TransactionReader
from proxy.quota.mutation import MutationQuotas
from proxy.security.authorizer import load_authorizer
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal import Principal, deserialize
from tests.support.controllers import ADMIN, STANDARD, FakeTrail
from tests.support.decisions import envelope_of, enveloped_response
from tests.support.fake_log import FakeLog, FakeTopic

SECRET = TokenSecret(b"of the cluster")
SENDER = Sender(Principal("User", "proxy-1"), "10.0.0.9", "CONTROLLER", "penstock")


class Follower:
    """One reader of the topic."""

    def __init__(self, topic: FakeTopic, on_read: Callable[[Committed], None] = lambda _step: None) -> None:
        self._topic = topic
        self._on_read = on_read
        self._reader = TransactionReader(0)
        self.shown: list[MetadataImage] = []
        self.loader = Loader(lambda image, _changed: self.shown.append(image))
        self.catch_up()

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    def follow(self, batches: int) -> None:
        """So many batches more, each step applied by itself."""
        for raw in self._topic.read(self._reader.position)[:batches]:
            self._apply(self._steps(raw))

    def catch_up(self) -> None:
        """To the log's end, in one piece."""
        self.loader.load_until(self._topic.stable_offset)
        self._catch_up()

    def read_again(self) -> None:
        """From the beginning, as one that finds another log than it knew."""
        self._reader = TransactionReader(0)
        self.loader.reload_until(self._topic.stable_offset)
        self._catch_up()

    async def stable_offset(self) -> int:
        return self._topic.stable_offset

    async def wait_for(self, offset: int, timeout_ms: int) -> None:
        """As TopicFeed's."""
        self.catch_up()
        if self.image.offset < offset:
            raise FeedTimeout(f"{offset} after {timeout_ms} ms")

    def _catch_up(self) -> None:
        steps = [step for raw in self._topic.read(self._reader.position) for step in self._steps(raw)]
        last = max([self._reader.settled_offset, *(step.last_offset for step in steps)])
        self._apply([Committed(last, tuple(value for step in steps for value in step.values))])

    def _steps(self, raw: bytes) -> list[Committed]:
        steps = self._reader.feed(raw)
        for step in steps:
            self._on_read(step)
        return steps

    def _apply(self, steps: Iterable[Committed]) -> None:
        for step in steps:
            self.loader.batch(step.last_offset, step.values)


class Node(Follower):
    """One controller."""

    def __init__(
        self, topic: FakeTopic, new_id: Callable[[], bytes], now_ms: Callable[[], int], broker: Any = None
    ) -> None:
        """`broker`: as forwarding.net.broker's; without one no request may be about topics."""
        committed_forwards = CommittedForwards(lambda: self.loader.image)
        super().__init__(topic, committed_forwards.note)
        self.log = FakeLog(topic)
        self.events: list[Any] = []
        authorizer = load_authorizer(STANDARD, {"super.users": "User:admin;User:proxy-1"})
        self.processor = RequestProcessor(
            Controller(authorizer, deserialize, new_id, tokens=TokenSettings(SECRET)),
            LogAccess(cast(Any, self.log), cast(Any, self), self.loader, committed_forwards),
            broker,
            FakeTrail(self.events.append),
            ControllerMetrics(CollectorRegistry()),
            now_ms,
            MutationQuotas(11, 1),
        )
        self._forwards = count(1)

    def envelope(self, request: Any, principal: Principal = ADMIN) -> Any:
        """A request as the proxy forwards it, with an id that no other has."""
        return envelope_of(
            request.api_key, request, principal, forward_id=f"proxy/boot/{next(self._forwards)}"
        )

    async def send(self, request: Any, principal: Principal = ADMIN) -> Any:
        answer = await self.processor.serve(self.envelope(request, principal), 1, SENDER)
        return enveloped_response(request.api_key, answer)
