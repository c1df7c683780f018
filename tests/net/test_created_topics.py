"""The ids of topics that were just created, which a broker does not know at once."""

import pytest

from forwarding.net import broker as requests
from forwarding.net.broker import Broker
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import endpoint_of
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("O11")

IDS = {"orders": b"o" * 16, "payments": b"p" * 16}


class LateBroker:
    """Knows the topics that exist from the third request for metadata on."""

    def __init__(self, *existing: str) -> None:
        self._existing = existing
        self._requests = 0

    def metadata(self, request: Request) -> t.MetadataResponse:
        self._requests += 1
        known = self._existing if self._requests > 2 else ()
        topic = t.MetadataResponse.MetadataResponseTopic
        return t.MetadataResponse(
            topics=[
                topic(name=each.name, topic_id=IDS[each.name])
                if each.name in known
                else topic(name=each.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for each in request.message.topics
            ]
        )


async def ids_of(late: LateBroker, versions: tuple[int, int] = (0, 12)) -> dict[str, bytes]:
    speaks: dict[int, tuple[int, int]] = {ApiKey.API_VERSIONS: (0, 3), ApiKey.METADATA: versions}
    async with FakeBroker({ApiKey.METADATA: late.metadata}, speaks) as fake:
        broker = Broker(endpoint_of(fake.address))
        try:
            return await broker.created_ids(["orders", "payments"])
        finally:
            await broker.close()


async def test_a_new_topic_is_looked_up_until_the_broker_knows_it() -> None:
    assert await ids_of(LateBroker("orders", "payments")) == IDS


async def test_the_others_have_their_ids_if_a_topic_is_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "CREATION_KNOWN_S", 0.5)

    assert await ids_of(LateBroker("orders")) == {"orders": IDS["orders"]}


async def test_a_broker_that_returns_no_ids_is_not_waited_for() -> None:
    assert await ids_of(LateBroker("orders", "payments"), (0, 9)) == {}
