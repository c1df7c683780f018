"""A broker that ends the proxy's sessions sooner than the proxy can renew them: no client notices."""

import asyncio
from typing import Any

import pytest

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError
from tests.session.conversation import produce, produced
from tests.support.controllers import login
from tests.support.edges import a_gate, an_edge, on_uvloop
from tests.support.fake_broker import FakeBroker, Request

PRODUCE, AUTHENTICATE = ApiKey.PRODUCE, ApiKey.SASL_AUTHENTICATE
LIFETIME_MS = 900
"""Shorter than the time after which a broker takes another login. Sessions are as short as that if the broker
does not know yet that the token was renewed."""
RENEWALS = 2


class EndingSessions:
    """The answers of a broker that closes the connection at the first request after the session's end."""

    def __init__(self) -> None:
        self._ends_s = 0.0

    def answers(self) -> dict[int, Any]:
        return {
            ApiKey.SASL_HANDSHAKE: lambda _request: t.SaslHandshakeResponse(mechanisms=["PLAIN"]),
            AUTHENTICATE: self._authenticated,
            PRODUCE: self._produced,
        }

    def _authenticated(self, _request: Request) -> Any:
        self._ends_s = asyncio.get_running_loop().time() + LIFETIME_MS / 1000
        return t.SaslAuthenticateResponse(session_lifetime_ms=LIFETIME_MS)

    def _produced(self, _request: Request) -> Any:
        if asyncio.get_running_loop().time() > self._ends_s:
            raise WireError("the session has expired")
        return produced("orders")


@pytest.mark.slow
@pytest.mark.spec("R10", "O7")
@on_uvloop
async def test_a_client_is_not_cut_off_when_its_session_at_the_broker_ends_before_it_is_renewed() -> None:
    async with (
        FakeBroker(EndingSessions().answers()) as broker,
        an_edge(a_gate(), broker.address, login=login("penstock", "secret")) as edge,
    ):
        client = await edge.client()
        while len(broker.received(AUTHENTICATE)) <= RENEWALS:
            client.asks(PRODUCE, 9, produce("orders"))
            await client.hears(PRODUCE, 9)
            await asyncio.sleep(0.005)

        assert (broker.connections, edge.reasons) == (1, [])
