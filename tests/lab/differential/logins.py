"""What clients send in a login, before one and instead of one: each list of steps is played at both sides.

The listener has PLAIN with sessions that end soon, SCRAM-SHA-256 with sessions that end late and
SCRAM-SHA-512 with sessions without end.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any

from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.side_by_side.steps import (
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
)

_HEADER = Struct(">ihhih")


def _named(topic: str) -> Any:
    return t.MetadataRequest(topics=[t.MetadataRequest.MetadataRequestTopic(name=topic)])


def unwritten(api_key: int, version: int, body: bytes) -> Raw:
    """A request that no codec writes."""
    return Raw(_HEADER.pack(_HEADER.size - 4 + len(body), api_key, version, 1, -1) + body)


def _client(name: str) -> t.ApiVersionsRequest:
    return t.ApiVersionsRequest(client_software_name=name, client_software_version="1")


PLAIN_LOGIN = (Shake(), Token(plain()))
PLAIN_MS, SCRAM_256_MS = 2_000, 60_000
USERS = ("alice", "bob")
EXPIRED = Pause(PLAIN_MS / 1000 + 0.5)
A_SECOND = Pause(1.05)
VERSIONS, METADATA, LIST_GROUPS = (
    Ask(ApiKey.API_VERSIONS, 3, _client("a")),
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
    "SCRAM, a reserved extension": (Shake("SCRAM-SHA-256"), Token(b"n,,m=,=,=")),
    "SCRAM, another authzid": (Shake("SCRAM-SHA-256"), Token(b"n,a=bob,n=alice,r=abcdef")),
    "SCRAM, channel binding asked for": (Shake("SCRAM-SHA-256"), Token(b"p=tls-unique,,n=alice,r=abcdef")),
    "SCRAM, the final message is nonsense": (
        Shake("SCRAM-SHA-256"),
        Token(b"n,,n=alice,r=abcdef"),
        Token(b"nonsense"),
    ),
    # Handshakes.
    "unsupported mechanism": (Shake("GSSAPI"), Shake()),
    "unsupported mechanism, v0": (Shake("GSSAPI", 0), Shake()),
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
    "a length of 2 GiB": (Raw((2**31 - 1).to_bytes(4, "big")),),
    "a length of 100 MiB": (Raw((100 << 20).to_bytes(4, "big") + bytes(64)),),
    "a frame too short for a header": (Raw((3).to_bytes(4, "big") + b"\0\x12\0"),),
    "garbage": (Raw((16).to_bytes(4, "big") + bytes(range(200, 216))),),
    "TLS": (Raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)),),
    "a count beyond the frame": (unwritten(ApiKey.SASL_HANDSHAKE, 1, b"\x7f\xff"),),
    "HTTP": (Raw(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n"),),
    "an empty frame": (Raw(bytes(4)),),
    "an empty frame where a token is due": (Shake(), Raw(bytes(4))),
    "an empty frame where a bare token is due": (Shake(version=0), Raw(bytes(4))),
    "a frame that is no request": (Raw(FOUR + b"abcd"),),
    # ApiVersions and others in each place.
    **{f"ApiVersions v{version}": (Ask(ApiKey.API_VERSIONS, version, _client("a")),) for version in range(5)},
    "ApiVersions first": (VERSIONS, Shake(), Token(plain())),
    "ApiVersions twice": (VERSIONS, VERSIONS, Shake()),
    "ApiVersions of an unknown version": (Ask(ApiKey.API_VERSIONS, 99), VERSIONS, Shake(), Token(plain())),
    "ApiVersions of an unknown version after a known one": (VERSIONS, Ask(ApiKey.API_VERSIONS, 99)),
    "ApiVersions with a bad name": (
        Ask(ApiKey.API_VERSIONS, 3, t.ApiVersionsRequest(client_software_name="(bad)")),
        VERSIONS,
        Shake(),
    ),
    "ApiVersions without a name": (Ask(ApiKey.API_VERSIONS, 3, _client("")), VERSIONS),
    "ApiVersions with an odd name": (Ask(ApiKey.API_VERSIONS, 4, _client("-odd")), VERSIONS),
    "ApiVersions after the handshake": (Shake(), VERSIONS),
    "ApiVersions after a handshake of v0": (Shake(version=0), VERSIONS),
    "ApiVersions between the tokens of SCRAM": (
        Shake("SCRAM-SHA-256"),
        Token(b"n,,n=alice,r=abcdef"),
        VERSIONS,
    ),
    "ApiVersions after the login": (*login(), VERSIONS, METADATA),
    "ApiVersions of an unknown version after the login": (*login(), VERSIONS, Ask(ApiKey.API_VERSIONS, 99)),
    "another request first": (METADATA,),
    "an unknown API first": (unwritten(999, 0, b""),),
    "another request after ApiVersions": (VERSIONS, LIST_GROUPS),
    **{
        f"{ApiKey.name_of(ask.api_key)} v{ask.version} after the handshake": (Shake(), ask) for ask in REFUSED
    },
    "Metadata after a handshake of v0": (Shake(version=0), METADATA),
    # After the login.
    "an unknown API": (*login(), unwritten(999, 0, b"")),
    "an unknown version": (*login(), unwritten(ApiKey.METADATA, 99, b"\0")),
    "a version below the lowest": (*login(), unwritten(ApiKey.FETCH, 0, b"")),
    "a version offered to old clients only": (*login(), unwritten(ApiKey.PRODUCE, 0, bytes(10))),
    "an API of brokers": (*login(), unwritten(ApiKey.VOTE, 0, b"\0")),
    "an Envelope": (*login(), unwritten(ApiKey.ENVELOPE, 0, b"\0\1\0\1\0")),
    "a body cut short": (*login(), unwritten(ApiKey.METADATA, 4, b"\0\0\0\2\0")),
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
