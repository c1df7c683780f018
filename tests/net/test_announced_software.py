"""What the broker sees of the client's software, on the connection that serves it."""

from dataclasses import replace

import pytest

from proxy.net.kafka.channel import SaslLogin
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import produce
from tests.support.edges import a_broker, a_gate, an_edge, on_uvloop
from tests.support.fake_broker import Answer, FakeBroker

pytestmark = pytest.mark.spec("O13")

LIBRDKAFKA = t.ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0")
LOGIN = SaslLogin(mechanism="PLAIN", username="proxy-1", password=lambda: "secret")


def announced(broker: FakeBroker) -> list[tuple[str, str]]:
    asked = broker.received(ApiKey.API_VERSIONS)
    return [(each.message.client_software_name, each.message.client_software_version) for each in asked]


@on_uvloop
@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (LIBRDKAFKA, 3, [("librdkafka", "2.3.0")]),
        (t.ApiVersionsRequest(), 2, []),  # Without a login at the broker nothing else is sent before.
        (
            t.ApiVersionsRequest(client_software_name="a" * 63 + "-b", client_software_version="1"),
            3,
            [("a" * 63, "1")],
        ),
    ],
)
async def test_the_broker_gets_the_software_of_the_client(
    request_: t.ApiVersionsRequest, version: int, expected: list[tuple[str, str]]
) -> None:
    async with a_broker() as broker, an_edge(a_gate(), broker.address) as edge:
        client = await edge.client()
        client.asks(ApiKey.API_VERSIONS, version, request_)
        await client.hears(ApiKey.API_VERSIONS, version)
        for _ in range(2):
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))
            await client.hears(ApiKey.PRODUCE, 9)

        assert announced(broker) == expected
        assert len(broker.received(ApiKey.PRODUCE)) == 2


@on_uvloop
@pytest.mark.parametrize(
    ("says", "expected"), [(True, ("librdkafka", "2.3.0")), (False, ("penstock", "0.1"))]
)
async def test_with_a_login_at_the_broker_it_comes_before_the_login(
    says: bool, expected: tuple[str, str]
) -> None:
    answers: dict[int, Answer] = {
        ApiKey.PRODUCE: lambda _: None,
        ApiKey.SASL_HANDSHAKE: lambda _: t.SaslHandshakeResponse(mechanisms=["PLAIN"]),
        ApiKey.SASL_AUTHENTICATE: lambda _: t.SaslAuthenticateResponse(),
    }
    async with FakeBroker(answers) as broker, an_edge(a_gate(), broker.address, login=LOGIN) as edge:
        client = await edge.client()
        if says:
            client.asks(ApiKey.API_VERSIONS, 3, LIBRDKAFKA)
            await client.hears(ApiKey.API_VERSIONS, 3)
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        await broker.wait_for(ApiKey.PRODUCE)

        assert announced(broker) == [expected]
        assert [each.header.api_key for each in broker.requests] == [
            ApiKey.API_VERSIONS,
            ApiKey.SASL_HANDSHAKE,
            ApiKey.SASL_AUTHENTICATE,
            ApiKey.PRODUCE,
        ]


@on_uvloop
async def test_the_setting_keeps_the_software_from_the_broker() -> None:
    async with a_broker() as broker, an_edge(a_gate(), broker.address) as edge:
        services = edge.listener._services
        edge.listener._services = replace(services, announces_software=False)
        client = await edge.client()
        client.asks(ApiKey.API_VERSIONS, 3, LIBRDKAFKA)
        await client.hears(ApiKey.API_VERSIONS, 3)
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        await client.hears(ApiKey.PRODUCE, 9)

        assert announced(broker) == []
