"""The broker sees the end user: its own ACLs decide on produce and fetch, though the proxy connects."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka import KafkaError, Producer

from proxy.net.kafka.channel import Channel, EndpointSettings, LoginRejected, SaslLogin
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.release import Feature, Release
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.users import User, librdkafka_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.controllers import endpoint_of
from tests.support.steady_clients import SteadyClients

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.needs(Feature.TOKENS_FOR_OTHERS),
    pytest.mark.spec("O7"),
]

TIMEOUT_S = 30
TOKEN_MS, TOKEN_MAX_MS = 10_000, 16_000
"""On a busy machine the broker may learn seconds late that a token was renewed. If that takes longer than
half of the lifetime, the token has expired for the broker, and it closes the connection at the next
request."""
LOAD_S = 26.0
"""Renewals of a token, the end of its time, and another one in its place."""


@pytest.fixture(scope="module")
def stack(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    properties = {
        "authorizer.class.name": Release.chosen().authorizer,
        "super.users": "User:penstock;User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": "a-secret-of-the-brokers",
        "delegation.token.expiry.time.ms": str(TOKEN_MS),
        "delegation.token.max.lifetime.ms": str(TOKEN_MAX_MS),
    }
    directory = tmp_path_factory.mktemp("identity")
    stack = Stack(StackSettings(directory=directory, libs=kafka_libs, broker_properties=properties))
    document = yaml.safe_load(stack.proxy_file.read_text())
    document["upstream"] |= {"identity": "user"}
    stack.proxy_file.write_text(yaml.safe_dump(document))
    with stack.running():
        yield stack


@pytest.fixture(scope="module")
def alice(stack: Stack) -> User:
    """She may do everything at the proxy; at the broker she may use her two topics and her group."""
    cluster = ClusterAdmin(stack)
    alice = cluster.user("alice-herself")
    for topic in ("hers", "hers-all-day", "not-hers"):
        cluster.topic(topic)
        cluster.allow_produce(alice, topic)
        cluster.allow_consume(alice, topic, "her-group")
    at_the_broker = ClusterAdmin(stack, broker=stack.broker.plaintext)
    for topic in ("hers", "hers-all-day"):
        at_the_broker.allow(alice, "WRITE", "READ", topic=topic)
    at_the_broker.allow(alice, "READ", group="her-group")
    return alice


def produced_to(stack: Stack, user: User, topic: str, within_ms: int = 10_000) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    settings = {"message.timeout.ms": within_ms, "acks": "all"}
    producer = Producer({**librdkafka_settings(user, stack.entrance()), **settings})
    producer.produce(topic, b"a record", on_delivery=lambda error, _message: outcome.append(error))
    producer.flush(TIMEOUT_S)
    (error,) = outcome
    return error


@pytest.mark.long
def test_the_brokers_own_acls_decide_on_what_the_user_writes(stack: Stack, alice: User) -> None:
    assert produced_to(stack, alice, "hers") is None

    refused = produced_to(stack, alice, "not-hers")

    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_broker_knows_the_user_for_as_long_as_she_is_there(stack: Stack, alice: User) -> None:
    clients = SteadyClients(librdkafka_settings(alice, stack.entrance()), "hers-all-day", group="her-group")

    with clients.at_work():
        clients.work_for(LOAD_S)

    assert (clients.trouble, clients.refused) == ([], [])
    assert sorted(clients.acknowledged) == sorted(clients.read) == list(range(clients.sent))


async def expire(stack: Stack, owner: User) -> None:
    """Expire the owner's tokens, as the renewer that the proxy is, until the broker rejects them."""
    own = stack.wiring.broker_login
    login = SaslLogin(mechanism=own.mechanism, username=own.name, password=lambda: own.password)
    at_broker = endpoint_of(stack.broker.sasl_plaintext, sasl=login)
    described = types.DescribeDelegationTokenRequest
    wanted = described.DescribeDelegationTokenOwner(principal_type="User", principal_name=owner.name)
    async with await Channel.open(at_broker) as channel:
        found = await channel.request(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, described(owners=[wanted]))
        for token in found.tokens:
            expiry = types.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
            await channel.request(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, expiry)
    async with asyncio.timeout(TIMEOUT_S):
        for token in found.tokens:
            hmac = b64encode(bytes(token.hmac)).decode()
            by_token = replace(login, username=token.token_id, password=partial(str, hmac), token_auth=True)
            while await accepts(replace(at_broker, sasl=by_token)):
                pass  # The broker learns of it from its log.


async def accepts(login: EndpointSettings) -> bool:
    try:
        await (await Channel.open(login)).close()
    except LoginRejected:
        return False
    return True


async def test_a_token_that_was_expired_is_replaced(stack: Stack, alice: User) -> None:
    assert await asyncio.to_thread(produced_to, stack, alice, "hers") is None
    await expire(stack, alice)

    # Half of its lifetime would be 5 s.
    assert await asyncio.to_thread(produced_to, stack, alice, "hers", 4_000) is None


def test_the_tokens_are_the_users_and_go_when_the_proxy_goes(stack: Stack, alice: User) -> None:
    assert produced_to(stack, alice, "hers") is None
    log = stack.logs / "proxy.log"
    assert f'"principal": "User:{alice.name}"' in log.read_text()
    assert "delegation token created" in log.read_text()

    assert stack.proxy.stop(), "it did not stop by itself"

    assert "Failed to expire delegation token" not in log.read_text()
    stack.start_proxy()
