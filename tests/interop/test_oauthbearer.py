"""Tokens of one identity provider, taken by the gate and by a real broker that knows the same keys.

The proxy itself logs in to that broker with a token. Clients' tokens last some seconds, their sessions fewer,
so that both are renewed while they work.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import User
from tests.lab.side_by_side.steps import Shake, Step, Token, both, played
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import EVERYBODY_COMES_FROM_HERE
from tests.support.identity_provider import AUDIENCE, ISSUER, jwks, rsa, token
from tests.support.running_provider import RunningProvider
from tests.support.steady_clients import SteadyClients
from tests.support.token_cases import cases, first

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SESSION_MS = 3_000
TOKEN_S = 12
"""A client that gets its new token at 80 % of this, and late, still has it before the old one's last second:
sessions that short could not be renewed, as there is a second at least between two logins (KIP-368)."""
LOAD_S = 17.0
"""Five sessions and more."""
OWN_TOKEN_S = 20
CLIENT_TOKEN = "client.token"
ALICE = User("alice-with-a-token", "OAUTHBEARER", "")
MODULE = "org.apache.kafka.common.security.oauthbearer"
LISTENER = "listener.name.sasl_plaintext"


class Stage:
    """A broker and a proxy that take tokens, and where to reach their listeners for them."""

    def __init__(self, stack: Stack, provider: RunningProvider, proxy: str, short: str) -> None:
        self.stack = stack
        self.provider = provider
        self.proxy = proxy
        self.short = short
        """The listener whose sessions end after SESSION_MS."""
        self.broker = stack.broker.sasl_plaintext
        self.cluster = ClusterAdmin(stack)

    def topic(self, name: str) -> str:
        self.cluster.allow_produce(ALICE, self.cluster.topic(name))
        self.cluster.allow_consume(ALICE, name, name)
        return name


@pytest.fixture(scope="module")
def stage(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("tokens")
    keys, own_token = directory / "jwks.json", directory / "penstock.token"
    keys.write_bytes(jwks(rsa()))
    provider, own = RunningProvider(TOKEN_S), RunningProvider(OWN_TOKEN_S)
    proxy, short = free_addresses(2)
    allowed = ",".join(f"file:{path}" for path in (keys, directory / CLIENT_TOKEN))
    with pytest.MonkeyPatch.context() as patch, provider.running(), own.kept_fresh(own_token, "penstock"):
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        stack = Stack(
            StackSettings(
                directory=directory,
                libs=kafka_libs,
                broker_properties=_broker_properties(keys),
                proxy_changes={"login.backoff": EVERYBODY_COMES_FROM_HERE},
            )
        )
        _take_tokens(stack.proxy_file, {"TOKENS": proxy, "SHORT": short}, provider.url, own_token)
        with stack.running():
            yield Stage(stack, provider, proxy, short)


def _broker_properties(keys: Path) -> dict[str, str]:
    return {
        f"{LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{MODULE}.OAuthBearerLoginModule required;",
        f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": (
            f"{MODULE}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{LISTENER}.sasl.oauthbearer.jwks.endpoint.url": f"file:{keys}",
        f"{LISTENER}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{LISTENER}.sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def _take_tokens(path: Path, addresses: dict[str, str], url: str, own_token: Path) -> None:
    document = yaml.safe_load(path.read_text())
    document["listeners"] += [
        {
            "name": name,
            "bind": address,
            "connections.max.reauth.ms": SESSION_MS if name == "SHORT" else 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["OAUTHBEARER"],
            "sasl.oauthbearer.jwks.endpoint.url": f"{url}/certs",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": [AUDIENCE],
        }
        for name, address in addresses.items()
    ]
    # These tests fail to log in far more often than anybody but a guesser does.
    document["login.backoff"] = {"failures": 0}
    document["upstream"]["sasl"] = {
        "mechanism": "OAUTHBEARER",
        "oauthbearer.token.endpoint.url": f"file:{own_token}",
    }
    path.write_text(yaml.safe_dump(document))


def exchange(*messages: bytes) -> tuple[Step, ...]:
    """A login. After an error a client sends one more message, which says that it has read the reason."""
    return Shake("OAUTHBEARER"), *map(Token, messages)


def comparable(heard: list[Any]) -> list[Any]:
    """Without when sessions end, and without the mechanisms that either listener has besides."""
    others = {"lifetime_ms": None, "mechanisms": None}
    return [said | others if isinstance(said, dict) else said for said in heard]


def is_taken(heard: list[Any]) -> bool:
    """Whether the first message was enough: it failed if its response has a reason in it."""
    return (heard[1]["error"], heard[1]["token"]) == (0, b"")


@pytest.mark.spec("R2", "R9")
def test_every_token_has_the_outcome_that_it_has_at_a_broker(stage: Stage) -> None:
    now_s = now_ms() // 1000
    found = both(stage.broker, stage.proxy, {name: exchange(*each) for name, each in cases(now_s).items()})

    compared = {name: [comparable(said) for said in pair] for name, pair in found.items()}
    assert {name: pair for name, pair in compared.items() if pair[0] != pair[1]} == {}
    for kafkas, ours in found.values():
        # Sessions end with the tokens, at the same moment: the one that begins later lasts less.
        assert abs(kafkas[1]["lifetime_ms"] - ours[1]["lifetime_ms"]) < 10_000
    taken = {name for name, (_, ours) in found.items() if is_taken(ours)}
    assert {"good", "acting as itself", "extensions", "PS256", "over, within the skew"} <= taken
    assert len(found) - len(taken) > 25


@pytest.mark.spec("R5", "R9")
def test_a_session_is_renewed_by_a_new_token_of_the_same_principal_alone(stage: Stage) -> None:
    alice, again, bob = (first(token(sub=name)) for name in ("alice", "alice", "bob"))
    twice = {"alice": (*exchange(alice), *exchange(again)), "bob": (*exchange(alice), *exchange(bob))}

    found = both(stage.broker, stage.proxy, twice)
    for kafkas, ours in found.values():
        assert comparable(kafkas) == comparable(ours)
    assert [ours[3]["error"] for _, ours in found.values()] == [0, 58]


@pytest.mark.spec("R9")
def test_a_token_of_a_key_that_was_published_just_now_is_taken_at_once(stage: Stage) -> None:
    provider, new, since_ms = stage.provider, rsa("rsa-2"), now_ms()
    provider.published = (rsa(), new)
    asked, heard = len(provider.asked), list[Any]()

    # For five seconds after an unknown key the keys are not fetched for another one.
    while len(provider.asked) == asked:
        assert now_ms() - since_ms < 10_000, heard
        heard = played(stage.proxy, exchange(first(token(key=new))))

    assert is_taken(heard)
    assert len(provider.asked) == asked + 1


def clients_with_tokens(stage: Stage, topic: str) -> SteadyClients:
    """A producer and a consumer that get tokens in different ways."""
    login = {
        "bootstrap.servers": stage.short,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }
    endpoint = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": ALICE.name,
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": f"{stage.provider.url}/token",
    }

    def made(_: str) -> tuple[str, float]:
        # Whole seconds, as in the token. With a later end it would be renewed too late.
        expires_at_s = now_ms() // 1000 + TOKEN_S
        return stage.provider.token(ALICE.name), float(expires_at_s)

    return SteadyClients(login, topic, group=topic, producer=endpoint, consumer={"oauth_cb": made})


def java_client(stage: Stage, path: Path) -> KafkaTools:
    """Kafka's tools with the token of a file, asked for anew well before it is over."""
    properties = path.with_suffix(".properties")
    properties.write_text(
        f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.login.callback.handler.class={MODULE}.OAuthBearerLoginCallbackHandler
sasl.oauthbearer.token.endpoint.url=file:{path}
sasl.jaas.config={MODULE}.OAuthBearerLoginModule required;
sasl.login.refresh.min.period.seconds=1
sasl.login.refresh.buffer.seconds=0
sasl.login.refresh.window.factor=0.5
sasl.login.refresh.window.jitter=0.0
"""
    )
    return KafkaTools(stage.stack.libs, stage.short, properties)


@pytest.mark.long
@pytest.mark.spec("R2", "R5", "R9")
def test_sessions_outlive_their_tokens_many_times_under_load_and_no_request_fails(stage: Stage) -> None:
    topic, javas = stage.topic("librdkafka-with-tokens"), stage.topic("java-with-tokens")
    path = stage.stack.directory / CLIENT_TOKEN
    load = clients_with_tokens(stage, topic)
    records = int(LOAD_S * 100)
    before = counted(stage.stack)
    with stage.provider.kept_fresh(path, ALICE.name), load.at_work():
        run = java_client(stage, path).run(
            "kafka-producer-perf-test",
            *("--topic", javas, "--num-records", str(records), "--record-size", "100"),
            *("--throughput", "100"),
        )

    assert (load.trouble, load.refused) == ([], [])
    assert sorted(load.acknowledged) == sorted(load.read) == list(range(load.sent))
    assert f"{records} records sent" in run.stdout, run.said
    assert "Exception" not in run.said
    renewed, failed, killed = (now - then for now, then in zip(counted(stage.stack), before, strict=True))
    # Five times and more by the producer, the consumer and Java's producer.
    assert renewed >= 3 * 5
    assert (failed, killed) == (0, 0)


def counted(stack: Stack, mechanism: str = "OAUTHBEARER") -> tuple[float, float, float]:
    """Sessions at the listener that were renewed, that failed to be, and that were ended unrenewed."""
    series = stack.metrics()
    labels = f'listener="SHORT",mechanism="{mechanism}"'
    renewed, failed = (
        series.get(f'penstock_reauthentication_total{{{labels},outcome="{outcome}"}}', 0.0)
        for outcome in ("successful", "failed")
    )
    return renewed, failed, series.get('penstock_expired_connections_killed_total{listener="SHORT"}', 0.0)


class Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    """For aiokafka."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


@pytest.mark.spec("R9")
async def test_aiokafka_logs_in_with_a_token(stage: Stage) -> None:
    topic = stage.topic("aiokafka-with-a-token")
    producer = AIOKafkaProducer(
        bootstrap_servers=stage.proxy,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(stage.provider.token(ALICE.name, 60)),
    )
    await producer.start()
    try:
        assert (await producer.send_and_wait(topic, b"one")).offset == 0
    finally:
        await producer.stop()


@pytest.mark.spec("R9")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_logs_in_with_a_token(stage: Stage) -> None:
    kafka = importlib.import_module("kafka")
    providers = importlib.import_module("kafka.net.sasl.oauth")
    topic = stage.topic("kafka-python-with-a-token")
    text = stage.provider.token(ALICE.name, 60)
    source = type("Source", (providers.AbstractTokenProvider,), {"token": lambda _self: text})
    producer = kafka.KafkaProducer(
        bootstrap_servers=stage.proxy,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=source(),
    )
    assert producer.send(topic, b"one").get(timeout=20).offset == 0
    producer.close()
