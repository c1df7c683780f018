"""SASL and re-authentication, step by step, against a real broker and against Penstock: both say the same.

The broker has PLAIN with sessions that end soon, SCRAM-SHA-256 with sessions that end late and SCRAM-SHA-512
with sessions without end; Penstock's listener has the same, before that broker.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.config import Listener as ListenerSettings
from proxy.demo.broker import Broker, BrokerSettings
from proxy.metadata.scram import ScramMechanism, credential_from_password
from proxy.net.logins.credentials import Credentials, sasl_listener
from proxy.net.logins.plain_users import PlainUsers
from proxy.security.passwords import hash_password
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import gate_with
from tests.support.edges import an_edge
from tests.support.images import image_of
from tests.support.metadata_log import scram_record
from tests.support.sasl_dialogue import (
    Ask,
    Bare,
    Pause,
    Pipelined,
    Raw,
    Scram,
    Shake,
    Step,
    Token,
    login,
    plain,
    played,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def _named(topic: str) -> Any:
    return t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name=topic)])


PLAIN_LOGIN = (Shake(), Token(plain()))
PLAIN_MS, SCRAM_256_MS = 2_000, 60_000
USERS = ("alice", "bob")
EXPIRED = Pause(PLAIN_MS / 1000 + 0.5)
A_SECOND = Pause(1.05)
VERSIONS, METADATA, LIST_GROUPS = (
    Ask(ApiKey.API_VERSIONS, 3, t.ApiVersionsRequest(client_software_name="a", client_software_version="1")),
    Ask(ApiKey.METADATA, 12, t.MetadataRequest(topics=[])),
    Ask(ApiKey.LIST_GROUPS, 4),
)
PRODUCED, FETCHED, ADDED = (
    t.ProduceRequest.TopicProduceData(
        name="orders", partition_data=[t.ProduceRequest.PartitionProduceData(index=3, records=b"")]
    ),
    t.FetchRequest.FetchTopic(topic="orders", partitions=[t.FetchRequest.FetchPartition(partition=3)]),
    t.CreateTopicsRequest.CreatableTopic(name="orders", num_partitions=1, replication_factor=1),
)
REFUSED = (
    Ask(ApiKey.API_VERSIONS, 3, VERSIONS.message, whole=True),
    Ask(ApiKey.METADATA, 12, _named("orders"), whole=True),
    Ask(ApiKey.LIST_GROUPS, 4, whole=True),
    Ask(ApiKey.PRODUCE, 9, t.ProduceRequest(acks=1, timeout_ms=1, topic_data=[PRODUCED]), whole=True),
    Ask(ApiKey.FETCH, 12, t.FetchRequest(topics=[FETCHED]), whole=True),
    Ask(ApiKey.CREATE_TOPICS, 7, t.CreateTopicsRequest(topics=[ADDED]), whole=True),
    Ask(ApiKey.FIND_COORDINATOR, 3, t.FindCoordinatorRequest(key="g"), whole=True),
    Ask(ApiKey.HEARTBEAT, 4, t.HeartbeatRequest(group_id="g", member_id="m"), whole=True),
    Ask(
        ApiKey.DESCRIBE_ACLS,
        3,
        t.DescribeAclsRequest(resource_type_filter=2, pattern_type_filter=3, operation=1, permission_type=1),
        whole=True,
    ),
    Ask(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"), whole=True),
)
"""Asked where a token is due."""
FOUR = (4).to_bytes(4, "big")

SCENARIOS: dict[str, Sequence[Step]] = {
    # Logins, in every version.
    **{f"PLAIN v{version}": (Shake(), Token(plain(), version), METADATA) for version in (0, 1, 2)},
    "PLAIN bare": (Shake(version=0), Bare(plain()), METADATA),
    "PLAIN with authzid": (Shake(), Token(plain(authzid="alice"))),
    "PLAIN with another authzid": (Shake(), Token(plain(authzid="bob"))),
    "PLAIN, wrong password": (Shake(), Token(plain("alice", "wrong"))),
    "PLAIN, wrong password, bare": (Shake(version=0), Bare(plain("alice", "wrong"))),
    "PLAIN, unknown user": (Shake(), Token(plain("nobody", "wrong"))),
    "PLAIN, no user": (Shake(), Token(b"\0\0secret")),
    "PLAIN, no password": (Shake(), Token(b"\0alice\0")),
    "PLAIN, empty token": (Shake(), Token(b"")),
    "PLAIN, two parts": (Shake(), Token(b"alice\0alice-secret")),
    "PLAIN, four parts": (Shake(), Token(plain() + b"\0")),
    "PLAIN, not UTF-8": (Shake(), Token(b"\0alice\0\xff\xfe")),
    **{
        f"SCRAM-SHA-256 {versions}": (Shake("SCRAM-SHA-256"), Scram(versions=versions), METADATA)
        for versions in ((0, 0), (1, 1), (2, 2), (0, 2), (2, 0))
    },
    "SCRAM-SHA-256 bare": (Shake("SCRAM-SHA-256", 0), Scram(versions=(None, None)), METADATA),
    "SCRAM-SHA-512": (Shake("SCRAM-SHA-512"), Scram(mechanism="SCRAM-SHA-512"), METADATA),
    "SCRAM, wrong password": (Shake("SCRAM-SHA-256"), Scram(password="wrong")),
    "SCRAM, unknown user": (Shake("SCRAM-SHA-256"), Scram("nobody")),
    "SCRAM, the first message of an unknown user": (
        Shake("SCRAM-SHA-256"),
        Token(b"n,,n=nobody,r=abcdef"),
    ),
    "SCRAM, empty token": (Shake("SCRAM-SHA-256"), Token(b"")),
    "SCRAM, nonsense": (Shake("SCRAM-SHA-256"), Token(b"nonsense")),
    "SCRAM, another authzid": (Shake("SCRAM-SHA-256"), Token(b"n,a=bob,n=alice,r=abcdef")),
    "SCRAM, channel binding asked for": (Shake("SCRAM-SHA-256"), Token(b"p=tls-unique,,n=alice,r=abcdef")),
    "SCRAM, the final message is nonsense": (
        Shake("SCRAM-SHA-256"),
        Token(b"n,,n=alice,r=abcdef"),
        Token(b"nonsense"),
    ),
    # Handshakes.
    "unsupported mechanism": (Shake("GSSAPI"),),
    "unsupported mechanism, v0": (Shake("GSSAPI", 0),),
    "mechanism in small letters": (Shake("plain"),),
    "mechanism without a name": (Shake(""),),
    "handshake of an unknown version": (Shake(version=9),),
    "token of an unknown version": (Shake(), Token(plain(), 9)),
    "handshake twice": (Shake(), Shake()),
    "handshake twice, v0": (Shake(version=0), Shake()),
    "handshake twice, mechanism changed": (Shake(), Shake("SCRAM-SHA-256"), Scram()),
    "token before the handshake": (Token(plain()),),
    "bare token before the handshake": (Bare(plain()),),
    "bare token where a request is due": (Shake(), Bare(plain())),
    "request where a bare token is due": (Shake(version=0), Token(plain())),
    "too large before the handshake": (Raw((1 << 30).to_bytes(4, "big")),),
    "too large where a token is due": (Shake(), Raw((1 << 20).to_bytes(4, "big"))),
    "too large a bare token": (Shake(version=0), Raw((1 << 20).to_bytes(4, "big"))),
    "a large token": (Shake(), Token(plain("alice", "x" * 100_000))),
    "a negative length": (Raw((-1).to_bytes(4, "big", signed=True)),),
    "an empty frame": (Raw(bytes(4)),),
    "an empty frame where a token is due": (Shake(), Raw(bytes(4))),
    "an empty frame where a bare token is due": (Shake(version=0), Raw(bytes(4))),
    "a frame that is no request": (Raw(FOUR + b"abcd"),),
    # ApiVersions and others in each place.
    "ApiVersions first": (VERSIONS, Shake(), Token(plain())),
    "ApiVersions twice": (VERSIONS, VERSIONS, Shake()),
    "ApiVersions of an unknown version": (Ask(ApiKey.API_VERSIONS, 99), VERSIONS, Shake(), Token(plain())),
    "ApiVersions of an unknown version after a known one": (VERSIONS, Ask(ApiKey.API_VERSIONS, 99)),
    "ApiVersions with a bad name": (
        Ask(ApiKey.API_VERSIONS, 3, t.ApiVersionsRequest(client_software_name="(bad)")),
        VERSIONS,
        Shake(),
    ),
    "ApiVersions after the handshake": (Shake(), VERSIONS),
    "ApiVersions after a handshake of v0": (Shake(version=0), VERSIONS),
    "ApiVersions between the tokens of SCRAM": (
        Shake("SCRAM-SHA-256"),
        Token(b"n,,n=alice,r=abcdef"),
        VERSIONS,
    ),
    "ApiVersions after the login": (*login(), VERSIONS, METADATA),
    "another request first": (METADATA,),
    "another request after ApiVersions": (VERSIONS, LIST_GROUPS),
    **{
        f"{ApiKey.name_of(ask.api_key)} v{ask.version} after the handshake": (Shake(), ask) for ask in REFUSED
    },
    "Metadata after a handshake of v0": (Shake(version=0), METADATA),
    # After the login.
    "a token without a handshake": (*login(), Token(plain()), METADATA),
    "a handshake where sessions have no end": (
        Shake("SCRAM-SHA-512"),
        Scram(mechanism="SCRAM-SHA-512"),
        Shake("SCRAM-SHA-512"),
        METADATA,
    ),
    # Re-authentication.
    **{f"again, v{version}": (*login(version), METADATA, *login(version), METADATA) for version in (0, 1, 2)},
    "again, bare": (Shake(version=0), Bare(plain()), Shake(version=0), Bare(plain()), METADATA),
    "again with a newer version": (*login(0), Shake(), Token(plain()), METADATA),
    "again at once and again": (*login(), *login(), Shake(), METADATA),
    "again after a second": (*login(), *login(), A_SECOND, *login(), METADATA),
    "again by SCRAM": (
        Shake("SCRAM-SHA-256"),
        Scram(),
        Shake("SCRAM-SHA-256"),
        Scram(),
        METADATA,
    ),
    "again with a wrong password": (*login(), Shake(), Token(plain("alice", "wrong"))),
    "again with a wrong password by SCRAM": (
        Shake("SCRAM-SHA-256"),
        Scram(),
        Shake("SCRAM-SHA-256"),
        Scram(password="wrong"),
    ),
    "again as somebody else": (*login(), Shake(), Token(plain("bob"))),
    "again as somebody else, bare": (*login(), Shake(version=0), Bare(plain("bob"))),
    "again with another mechanism": (*login(), Shake("SCRAM-SHA-256"), Token(b"n,,n=alice,r=abcdef")),
    "again with another mechanism, bare": (*login(), Shake("SCRAM-SHA-256", 0), Bare(b"n,,n=alice,r=abcdef")),
    "again with a mechanism that is not enabled": (*login(), Shake("GSSAPI")),
    "again, an unknown version": (*login(), Shake(version=9)),
    "again, another request after the handshake": (*login(), Shake(), METADATA),
    "again, ApiVersions after the handshake": (*login(), Shake(), VERSIONS),
    "again, ApiVersions before the handshake": (*login(), VERSIONS, *login(), METADATA),
    "again, another request after the handshake with another mechanism": (
        *login(),
        Shake("SCRAM-SHA-256"),
        METADATA,
    ),
    "again, two handshakes": (*login(), Shake(), Shake()),
    "again, too large a token": (*login(), Shake(), Raw((1 << 20).to_bytes(4, "big"))),
    "again, behind other requests": (
        *login(),
        Pipelined((METADATA, VERSIONS, LIST_GROUPS, *PLAIN_LOGIN, METADATA)),
        Pipelined((METADATA, Shake(), METADATA)),
    ),
    "again and wrong, behind other requests": (
        *login(),
        Pipelined((METADATA, LIST_GROUPS, Shake(), Token(plain("alice", "wrong")))),
    ),
    "a login and requests behind it": (Pipelined((VERSIONS, *PLAIN_LOGIN, METADATA, LIST_GROUPS)),),
    # Past the end.
    **{
        f"past the end, {ApiKey.name_of(ask.api_key)}": (*login(), EXPIRED, ask)
        for ask in (METADATA, *(ask for ask in REFUSED if ask.api_key != ApiKey.SASL_HANDSHAKE))
    },
    "past the end, again, and a request behind it": (
        *login(),
        EXPIRED,
        Pipelined((*PLAIN_LOGIN, METADATA)),
    ),
    "past the end, v0": (*login(0), EXPIRED, METADATA),
    "past the end, bare": (Shake(version=0), Bare(plain()), EXPIRED, METADATA),
    "past the end, a token": (*login(), EXPIRED, Token(plain())),
    "past the end, a request of an unknown version": (*login(), EXPIRED, Ask(ApiKey.METADATA, 99)),
    "past the end, again": (*login(), EXPIRED, *login(), METADATA),
    "past the end, again as somebody else": (*login(), EXPIRED, Shake(), Token(plain("bob"))),
    "past the end, ApiVersions after the handshake": (*login(), EXPIRED, Shake(), VERSIONS),
    "past the new end": (*login(), *login(), EXPIRED, METADATA),
    "within the new session": (*login(), Pause(1.2), *login(), Pause(1.2), METADATA),
}


DIFFERENT = {
    "SCRAM, the first message of an unknown user": "SCRAM, unknown user or delegation token",
    "FindCoordinator v3 after the handshake": "Another request where a SASL token is due",
}
"""Scenario -> its row in docs/differences.md."""


@pytest.fixture(scope="module")
def sasl_broker(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    listener = "listener.name.sasl_plaintext"
    properties = {
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{listener}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        f"{listener}.plain.connections.max.reauth.ms": str(PLAIN_MS),
        f"{listener}.scram-sha-256.connections.max.reauth.ms": str(SCRAM_256_MS),
    }
    broker = Broker(
        kafka_libs,
        BrokerSettings(
            directory=tmp_path_factory.mktemp("sasl-kafka"),
            properties=properties,
            scram_users={name: f"{name}-secret" for name in USERS},
        ),
    )
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@asynccontextmanager
async def penstock(broker: str) -> AsyncIterator[int]:
    """The port of a listener with the same users and limits."""
    settings = ListenerSettings.model_validate(
        {
            "name": "SASL_PLAINTEXT",
            "bind": "127.0.0.1:0",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
            "sasl.mechanism.connections.max.reauth.ms": {"PLAIN": PLAIN_MS, "SCRAM-SHA-256": SCRAM_256_MS},
        }
    )
    image = image_of(
        *(
            scram_record(mechanism, user, credential_from_password(mechanism, f"{user}-secret", b"salt" * 4))
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
            for user in USERS
        )
    )
    gate = gate_with(image)
    gate.limits = type(gate.limits)(100 << 20, 16 << 20, 512 * 1024)
    users = PlainUsers({user: hash_password(f"{user}-secret", bytes(16)) for user in USERS})
    credentials = Credentials(users, lambda: image)
    async with an_edge(gate, broker, sasl_listener(settings, credentials)) as edge:
        yield edge.port


async def both_played(broker: Broker) -> dict[str, tuple[list[Any], list[Any]]]:
    """Scenario -> what the broker said, what Penstock said."""
    host, _, port = broker.sasl_plaintext.rpartition(":")
    room = asyncio.Semaphore(16)

    async def one(at: tuple[str, int], steps: Sequence[Step]) -> list[Any]:
        async with room:
            return await played(*at, steps)

    async with penstock(broker.plaintext) as own_port, asyncio.TaskGroup() as tasks:
        said = {
            name: [tasks.create_task(one(at, steps)) for at in ((host, int(port)), ("127.0.0.1", own_port))]
            for name, steps in SCENARIOS.items()
        }
        for pair in said.values():
            await asyncio.wait(pair)
    return {name: (broker_said.result(), own.result()) for name, (broker_said, own) in said.items()}


def _comparable(said: list[Any]) -> list[Any]:
    """Without what is random: nonces, salts and signatures of SCRAM."""
    return [
        {key: (value[:2] if key in ("token", "bare") else value) for key, value in each.items()}
        if isinstance(each, dict)
        else each
        for each in said
    ]


@pytest.mark.spec("R1", "R2", "R3", "R4", "R5", "R6", "R9")
def test_each_step_of_each_scenario_has_the_brokers_answer(sasl_broker: Broker) -> None:
    heard = asyncio.run(both_played(sasl_broker))

    different = {
        name: f"\n  Kafka    {_comparable(kafka)}\n  Penstock {_comparable(own)}"
        for name, (kafka, own) in heard.items()
        if _comparable(kafka) != _comparable(own)
    }
    rows = (Path(__file__).parents[2] / "docs" / "differences.md").read_text(encoding="utf-8")
    assert [row for row in DIFFERENT.values() if f"| {row} |" not in rows] == []
    assert set(different) == set(DIFFERENT), "".join(f"\n{name}: {text}" for name, text in different.items())
