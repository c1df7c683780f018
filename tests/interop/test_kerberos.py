"""Tickets of one KDC, taken by the gate and by a real broker that has the same service's key.

The clients are Kafka's own with a keytab, and kcat; tokens made by hand are answered alike by both.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.interop.test_oauthbearer import counted
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.run import run
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import User
from tests.support import kdc as kerberos
from tests.support.cluster_admin import ClusterAdmin
from tests.support.kdc import REALM, Kdc
from tests.support.kerberos_client import KerberosClient, KerberosLogin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USERS = ("alice", "bob", "alice/admin", "carol/x/y")
LISTENER = "listener.name.sasl_plaintext"
LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
SESSION_MS, SHORT_MS = 3_600_000, 2_000
RULES = ["RULE:[2:$1-$2](alice-.*)/L", "DEFAULT"]


class Stage:
    """A broker and a proxy that take tickets, and where to reach their listeners for them."""

    def __init__(self, stack: Stack, kdc: Kdc, listeners: dict[str, str]) -> None:
        self.stack = stack
        self.kdc = kdc
        self.proxy, self.short = listeners["KERBEROS"], listeners["SHORT"]
        self.broker = stack.broker.sasl_plaintext
        self.cluster = ClusterAdmin(stack)

    def topic(self, name: str) -> str:
        alice = User("alice", "GSSAPI", "")
        self.cluster.allow_produce(alice, self.cluster.topic(name))
        self.cluster.allow_consume(alice, name, name)
        return name

    def client(self, name: str) -> KerberosClient:
        return KerberosClient(f"{name}@{REALM}", self.kdc.directory / "users.keytab")

    def java(self, user: str, at: str) -> KafkaTools:
        """Kafka's tools with that user's key."""
        path = self.stack.directory / f"{user.replace('/', '-')}.properties"
        key = self.kdc.directory / "users.keytab"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
            f'sasl.jaas.config={LOGIN_MODULE} keyTab="{key}" principal="{user}@{REALM}";\n'
        )
        return KafkaTools(self.stack.libs, at, path)


@pytest.fixture(scope="module")
def stage(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    kerberos.require()
    directory = tmp_path_factory.mktemp("kerberos")
    with Kdc.running(directory / "kdc") as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5CCNAME", f"FILE:{kdc.directory}/kcat.tickets")
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.krb5_conf}")
        key = kdc.directory / "kafka.keytab"
        kdc.principal("kafka/localhost", keytab=key)
        for user in USERS:
            kdc.principal(user, keytab=kdc.directory / "users.keytab")
        properties = _broker_properties(key)
        stack = Stack(StackSettings(directory=directory, libs=kafka_libs, broker_properties=properties))
        listeners = _take_tickets(stack.proxy_file, key)
        with stack.running():
            yield Stage(stack, kdc, listeners)


def _broker_properties(key: Path) -> dict[str, str]:
    principal = f"kafka/localhost@{REALM}"
    return {
        f"{LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,GSSAPI",
        f"{LISTENER}.sasl.kerberos.service.name": "kafka",
        f"{LISTENER}.sasl.kerberos.principal.to.local.rules": ",".join(RULES),
        f"{LISTENER}.gssapi.connections.max.reauth.ms": str(SESSION_MS),
        f"{LISTENER}.gssapi.sasl.jaas.config": f'{LOGIN_MODULE} keyTab="{key}" principal="{principal}";',
    }


def _take_tickets(path: Path, key: Path) -> dict[str, str]:
    """Two listeners more, and where they are."""
    document = yaml.safe_load(path.read_text())
    found = {}
    for name, limit_ms in (("KERBEROS", SESSION_MS), ("SHORT", SHORT_MS)):
        (address,) = free_addresses(1)
        found[name] = address.replace("127.0.0.1", "localhost")
        document["listeners"].append(
            {
                "name": name,
                "bind": address,
                "advertised": found[name],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": ["GSSAPI"],
                "sasl.kerberos.keytab": str(key),
                "sasl.kerberos.principal.to.local.rules": RULES,
                "connections.max.reauth.ms": limit_ms,
            }
        )
    path.write_text(yaml.safe_dump(document))
    return found


Move = Callable[[KerberosLogin, bytes], bytes]
"""From the server's last token to the client's next."""


def _ticket(login: KerberosLogin, _: bytes) -> bytes:
    return login.ticket()


def _empty(login: KerberosLogin, answer: bytes) -> bytes:
    login.takes(answer)
    return b""


def _choosing(choice: bytes = b"\x01\0\0\0", wanted: str = "") -> Move:
    def move(login: KerberosLogin, offer: bytes) -> bytes:
        assert login.offered(offer) == b"\x01\x01\0\0"
        return login.choice(choice, wanted)

    return move


def _mangled(move: Move) -> Move:
    return lambda login, token: move(login, token)[:-1]


def _bytes(token: bytes) -> Move:
    return lambda _login, _token: token


def _before(*moves: Move) -> tuple[Move, ...]:
    """After all that goes before it in a good login."""
    return _ticket, _empty, *moves


SCENARIOS: dict[str, tuple[str, tuple[Move, ...]]] = {
    "good": ("alice", _before(_choosing())),
    "as itself": ("alice", _before(_choosing(wanted=f"alice@{REALM}"))),
    "a size that nobody needs": ("alice", _before(_choosing(b"\x01\xff\xff\xff"))),
    "two parts": ("alice/admin", _before(_choosing())),
    "a layer that is not offered": ("alice", _before(_choosing(b"\x02\0\0\0"))),
    "no layer at all": ("alice", _before(_choosing(b"\0\0\0\0"))),
    "a mangled choice": ("alice", _before(_mangled(_choosing()))),
    "a choice that is not wrapped": ("alice", _before(_bytes(b"\x01\0\0\0"))),
    "no choice": ("alice", _before(_bytes(b""))),
    "data where none is due": ("alice", (_ticket, _bytes(b"x"))),
    "the ticket twice": ("alice", (_ticket, _ticket)),
    "no ticket": ("alice", (_bytes(b""),)),
    "nonsense": ("alice", (_bytes(b"nonsense"),)),
    "a mangled ticket": ("alice", (_mangled(_ticket),)),
    "PLAIN's message": ("alice", (_bytes(b"\0alice\0secret"),)),
}


async def played(address: str, login: KerberosLogin, moves: tuple[Move, ...]) -> list[Any]:
    """What the server says to each: error, message, session lifetime, and whether there is a token."""
    host, port = address.split(":")
    heard: list[Any] = []
    token = b""
    async with await Channel.open(EndpointSettings(host=host, port=int(port))) as channel:
        handshake = types.SaslHandshakeRequest(mechanism="GSSAPI")
        assert (await channel.request(ApiKey.SASL_HANDSHAKE, 1, handshake)).error_code == 0
        for move in moves:
            try:
                request = types.SaslAuthenticateRequest(auth_bytes=move(login, token))
                answer = await channel.request(ApiKey.SASL_AUTHENTICATE, 2, request)
            except (ChannelError, OSError):
                return [*heard, "closed"]
            token = bytes(answer.auth_bytes)
            heard.append((answer.error_code, answer.error_message, answer.session_lifetime_ms, bool(token)))
    return heard


@pytest.mark.spec("R2", "R9")
async def test_the_gate_answers_every_token_as_a_broker_does(stage: Stage) -> None:
    found = {}
    for name, (user, moves) in SCENARIOS.items():
        found[name] = [
            await played(address, stage.client(user).login(), moves)
            for address in (stage.proxy, stage.broker)
        ]

    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}
    taken = {name for name, (ours, _) in found.items() if ours[-1][0] == 0 and ours[-1][2] == SESSION_MS}
    assert taken == {"good", "as itself", "a size that nobody needs", "two parts"}


@pytest.mark.spec("R9")
async def test_a_replayed_ticket_is_answered_as_by_a_broker(stage: Stage) -> None:
    heard = []
    for address in (stage.proxy, stage.broker):
        login = stage.client("alice").login()
        assert (await played(address, login, (_ticket,)))[0][0] == 0
        heard.append(await played(address, login, (_ticket,)))

    assert heard[0] == heard[1]
    assert [code for code, *_ in heard[0]] == [58]


@pytest.mark.spec("R9")
async def test_what_is_refused_here_and_taken_by_a_broker_has_its_row(stage: Stage) -> None:
    rows = (stage.stack.checkout / "docs" / "differences.md").read_text(encoding="utf-8")
    row = (
        "GSSAPI, a login for another authorization id, with several security layers, or of a name without a"
        " mapping rule"
    )
    assert f"| {row} |" in rows
    different = [
        ("alice", _choosing(wanted=f"bob@{REALM}")),
        ("alice", _choosing(b"\x03\0\0\0")),
        ("carol/x/y", _choosing()),
    ]
    for user, choosing in different:
        ours, kafkas = [
            (await played(address, stage.client(user).login(), _before(choosing)))[-1]
            for address in (stage.proxy, stage.broker)
        ]
        assert (user, ours[:3:2], kafkas[:3:2]) == (user, (58, 0), (0, SESSION_MS))


@pytest.mark.spec("R5", "R9")
async def test_a_session_is_renewed_by_a_ticket_of_the_same_user_alone(stage: Stage) -> None:
    ours, kafkas = [
        [
            await again(address, stage.client("alice").login(), stage.client(user).login())
            for user in ("alice", "bob")
        ]
        for address in (stage.proxy, stage.broker)
    ]

    assert ours == kafkas
    assert [code for code, _ in ours] == [0, 58]


async def again(address: str, *logins: KerberosLogin) -> tuple[int, str | None]:
    """What the last of them hears on the connection of those before."""
    host, port = address.split(":")
    async with await Channel.open(EndpointSettings(host=host, port=int(port))) as channel:
        for login in logins:
            token = b""
            handshake = types.SaslHandshakeRequest(mechanism="GSSAPI")
            assert (await channel.request(ApiKey.SASL_HANDSHAKE, 1, handshake)).error_code == 0
            for move in _before(_choosing()):
                request = types.SaslAuthenticateRequest(auth_bytes=move(login, token))
                answer = await channel.request(ApiKey.SASL_AUTHENTICATE, 2, request)
                token = bytes(answer.auth_bytes)
    return answer.error_code, answer.error_message


@pytest.mark.spec("R2", "R5", "R9")
def test_javas_producer_renews_its_session_under_load_and_no_request_fails(stage: Stage) -> None:
    topic = stage.topic("java-with-tickets")
    before = counted(stage.stack, "GSSAPI")
    run = stage.java("alice", stage.short).run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "900", "--record-size", "100", "--throughput", "100"),
    )

    assert "900 records sent" in run.stdout, run.said
    assert "Exception" not in run.said
    after = counted(stage.stack, "GSSAPI")
    renewed, failed, killed = (now - then for now, then in zip(after, before, strict=True))
    assert renewed >= 3
    assert (failed, killed) == (0, 0)


@pytest.mark.spec("R9")
def test_acls_go_by_the_name_that_the_rules_give(stage: Stage) -> None:
    topic = stage.topic("kerberos-acls")
    stage.cluster.allow_produce(User("alice-admin", "GSSAPI", ""), topic)

    said = {
        user: stage.java(user, stage.proxy).run("kafka-console-producer", "--topic", topic, stdin="x\n").said
        for user in ("alice", "alice/admin", "bob")
    }

    denied = {user for user, text in said.items() if "TopicAuthorizationException" in text}
    assert denied == {"bob"}
    assert "Exception" not in said["alice"] + said["alice/admin"]
    consumed = stage.java("alice", stage.proxy).run(
        "kafka-console-consumer",
        *("--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "2"),
    )
    assert consumed.stdout.split() == ["x", "x"], consumed.said


@pytest.mark.spec("R9")
def test_a_java_client_with_a_ticket_for_an_old_key_is_refused(stage: Stage) -> None:
    stage.kdc.rekey("kafka/localhost")
    run = stage.java("alice", stage.proxy).run("kafka-topics", "--list", timeout_ms=30_000)
    stage.kdc.export("kafka/localhost", stage.kdc.directory / "kafka.keytab")

    assert "SaslAuthenticationException" in run.said
    assert "due to invalid credentials with SASL mechanism GSSAPI" in run.said
    assert stage.java("alice", stage.proxy).run("kafka-topics", "--list").returncode == 0


@pytest.mark.spec("R9")
def test_kcat_logs_in_with_a_keytab(stage: Stage) -> None:
    program = shutil.which("kcat")
    if program is None or "sasl_gssapi" not in run([program, "-V"], timeout_ms=10_000).stdout:
        pytest.skip("no kcat with GSSAPI here")
    topic = stage.topic("kcat-with-a-ticket")
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.keytab": str(stage.kdc.directory / "users.keytab"),
        "sasl.kerberos.principal": f"alice@{REALM}",
    }
    login = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    kcat = [program, "-b", stage.proxy, "-t", topic, *login]

    sent = run([*kcat, "-P"], stdin="one\ntwo\n", timeout_ms=60_000)
    read = run([*kcat, "-C", "-e", "-q"], timeout_ms=60_000)

    assert (sent.returncode, read.stdout.split()) == (0, ["one", "two"]), sent.stderr + read.stderr
