"""Whose connection ends before the answer to a login is there has tried all the same: the trail has it, once.

That is a drain which takes too long, or under TLS a client's farewell.
"""

import threading

import pytest

from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Deferred, Exchange, Rejected
from proxy.session.authentication import SaslListener
from proxy.session.state import State
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import produce
from tests.support.edges import a_gate, an_edge, on_uvloop
from tests.support.fake_broker import FakeBroker


class SlowCheck(Exchange):
    """Whose outcome is there once it is let go."""

    def __init__(self, outcome: Accepted | Rejected) -> None:
        self.outcome = outcome
        self.goes_on = threading.Event()

    def respond(self, token: bytes, now_ms: int) -> Deferred:
        def work() -> Accepted | Rejected:
            assert self.goes_on.wait(60)
            return self.outcome

        return Deferred(work)


@pytest.mark.spec("D1")
@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Rejected("no", "a wrong password", user="mallory"), "authentication_failed"),
        (Accepted(Principal("User", "alice"), b""), "authentication"),
    ],
)
@on_uvloop
async def test_a_login_is_told_though_its_connection_ended_before_the_answer(
    outcome: Accepted | Rejected, told: str
) -> None:
    check = SlowCheck(outcome)
    sasl = SaslListener("SASL", ("PLAIN",), lambda _mechanism: 0, lambda _mechanism: check)
    async with FakeBroker({}) as broker, an_edge(a_gate(), broker.address, sasl) as edge:
        client = await edge.client()
        await client.begins_login(b"a token")
        client.asks(ApiKey.PRODUCE, 9, produce("orders", acks=0))
        await edge.until(lambda: State.VERIFYING in edge.connection.session.state)
        edge.connection.abort("drain_timeout")
        assert await edge.all_gone() == ["drain_timeout"]

        check.goes_on.set()
        await edge.until(lambda: bool(edge.events))

        (event,) = edge.events
        assert (event.event, event.mechanism, event.host) == (told, "PLAIN", "127.0.0.1")
        assert broker.open_connections == 0
