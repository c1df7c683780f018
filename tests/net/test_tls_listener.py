"""Clients' certificates at a real TLS listener: who they are, who is turned away, and new files meanwhile."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry

from proxy.net.files.tls import (
    Certificates,
    ClientTls,
    KeyPair,
    ServerTls,
    ServerTlsSettings,
    TlsError,
    client_context,
)
from proxy.net.files.watched_file import FileReloads
from proxy.security.principal import Principal
from proxy.security.principal_builder import (
    ALTERNATIVE_NAME_RULES,
    FROM,
    GROUPS_FROM,
    GROUPS_RULES,
    MAPPING_RULES,
    AuthenticationContext,
    DefaultPrincipalBuilder,
    load_principal_builder,
)
from proxy.session.gate import ListenerPolicy
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import produce
from tests.support.edges import an_edge_and_its_broker, on_uvloop

pytestmark = pytest.mark.spec("R9", "O3")

PRODUCE = ApiKey.PRODUCE
REQUIRED, REQUESTED = "required", "requested"
TO_FIRST_NAME = "RULE:^CN=([^,]*),.*$/$1/"


@dataclass
class Authority:
    """A CA with its files in a directory, for both sides."""

    directory: Path
    name: str = "ca"
    issuer: "Authority | None" = None
    sends_chain: bool = True
    """Whether those with its certificates also send the CA's own, if it has an issuer."""

    def __post_init__(self) -> None:
        self.ca: trustme.CA = trustme.CA() if self.issuer is None else self.issuer.ca.create_child_ca()
        self.ca.cert_pem.write_to_path(self.file)

    @property
    def file(self) -> Path:
        return self.directory / f"{self.name}.pem"

    def key_pair(self, host: str = "localhost", name: str = "server") -> KeyPair:
        """Of a server; written over when it is there."""
        return self._written(self.ca.issue_cert(host), name)

    def _written(self, issued: trustme.LeafCert, name: str) -> KeyPair:
        pair = KeyPair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        chain = issued.cert_chain_pems if self.sends_chain else issued.cert_chain_pems[:1]
        pair.certificate.write_bytes(b"".join(each.bytes() for each in chain))
        issued.private_key_pem.write_to_path(pair.key)
        return pair

    def client(
        self,
        common_name: str | None = "alice",
        trusts: "Authority | None" = None,
        expires: datetime | None = None,
    ) -> ssl.SSLContext:
        """What a client brings: its certificate, if it has one, and whom it trusts."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        (trusts or self).ca.configure_trust(context)
        if common_name is not None:
            # trustme puts a unit of its own into the subject, which the rules of these tests leave out.
            issued = self.ca.issue_cert(
                "x@acme.org",
                common_name=common_name,
                organization_name="acme",
                not_before=None if expires is None else expires - timedelta(days=1),
                not_after=expires,
            )
            pair = self._written(issued, f"{self.name}-{common_name}")
            context.load_cert_chain(pair.certificate, pair.key)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls_of(authority: Authority, **changes: Any) -> ServerTls:
    return ServerTls(ServerTlsSettings(key_pair=authority.key_pair(), ca=authority.file, **changes))


def policy_with(settings: Mapping[str, str]) -> ListenerPolicy:
    builder = DefaultPrincipalBuilder()
    builder.configure(settings)
    return ListenerPolicy("SSL", None, security_protocol="SSL", principal_builder=builder)


def a_tls_edge(tls: ServerTls, rules: str = TO_FIRST_NAME) -> Any:
    return an_edge_and_its_broker(tls=tls, policy=policy_with({MAPPING_RULES: rules}))


async def principal_of(edge: Any, client_tls: ssl.SSLContext) -> str:
    return str(await whole_principal_of(edge, client_tls))


async def whole_principal_of(edge: Any, client_tls: ssl.SSLContext) -> Principal:
    client = await edge.client(client_tls)
    client.asks(PRODUCE, 9, produce("orders"))
    await client.hears(PRODUCE, 9)
    session = edge.connection.session
    client.leaves()
    await edge.all_gone()
    principal: Principal = session.authentication.principal
    return principal


async def is_turned_away(edge: Any, client_tls: ssl.SSLContext) -> None:
    """It gets no answer; under TLS 1.3 it learns of a rejected certificate only behind its own handshake."""
    answered = b""
    with suppress(OSError):
        client = await edge.client(client_tls)
        client.asks(PRODUCE, 9, produce("orders"))
        answered = await client.reader.read()
    assert answered == b""


@pytest.mark.parametrize(
    ("client_auth", "names"),
    [
        (REQUIRED, {"alice": "User:alice", "bob": "User:bob"}),
        (REQUESTED, {None: "User:ANONYMOUS", "alice": "User:alice"}),
    ],
)
@on_uvloop
async def test_a_client_is_who_its_certificate_says_after_the_mapping_rules(
    tmp_path: Path, client_auth: str, names: dict[str | None, str]
) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth=client_auth)) as (edge, _):
        for name, principal in names.items():
            assert await principal_of(edge, authority.client(name)) == principal


@pytest.mark.spec("A8", "A9")
@on_uvloop
async def test_a_client_is_its_alternative_name_and_in_the_groups_of_its_units(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {
        FROM: "SAN:URI,SAN:EMAIL",
        ALTERNATIVE_NAME_RULES: r"RULE:^SAN:EMAIL:(.*)@acme\.org$/mail-$1/",
        GROUPS_FROM: "OU,SAN:EMAIL",
        GROUPS_RULES: "RULE:^OU=(Testing) cert.*$/$1/L,RULE:^SAN:EMAIL:.*@(.*)$/$1/",
    }
    tls = tls_of(authority, client_auth=REQUIRED)
    async with an_edge_and_its_broker(tls=tls, policy=policy_with(settings)) as (edge, _):
        principal = await whole_principal_of(edge, authority.client("alice"))

    assert (str(principal), principal.groups) == ("User:mail-x", ("acme.org", "testing"))


@on_uvloop
async def test_without_rules_it_is_the_whole_distinguished_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED), "DEFAULT") as (edge, _):
        principal = await principal_of(edge, authority.client("alice"))

    assert principal.startswith("User:CN=alice,OU=")
    assert principal.endswith(",O=acme")


@on_uvloop
async def test_who_is_turned_away_in_the_handshake_is_in_the_trail(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED)) as (edge, broker):
        await is_turned_away(edge, authority.client(None))
        await is_turned_away(edge, stranger.client("alice", trusts=authority))
        await edge.until(lambda: len(edge.events) == 2)

        told = [(event.event, event.listener, event.host, event.mechanism) for event in edge.events]
        assert told == [("authentication_failed", "SSL", "127.0.0.1", "SSL")] * 2
        nothing, untrusted = [event.message for event in edge.events]
        assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in nothing
        assert "client certificate:" in untrusted
        assert broker.received(PRODUCE) == []


@pytest.mark.parametrize("sends_chain", [False, True])
@on_uvloop
async def test_a_trusted_issuing_ca_is_enough_to_trust_its_clients(tmp_path: Path, sends_chain: bool) -> None:
    root = Authority(tmp_path, "root")
    issuing = Authority(tmp_path, "issuing", root, sends_chain)
    tls = ServerTls(ServerTlsSettings(key_pair=root.key_pair(), ca=issuing.file, client_auth=REQUIRED))
    async with a_tls_edge(tls) as (edge, broker):
        others = [
            root,
            Authority(tmp_path, "another of the root", root, sends_chain),
            Authority(tmp_path, "below", issuing, sends_chain=False),
            Authority(tmp_path, "stranger"),
        ]
        for other in others:
            await is_turned_away(edge, other.client("alice", trusts=root))
        assert broker.received(PRODUCE) == []
        assert await principal_of(edge, issuing.client("alice", trusts=root)) == "User:alice"


@pytest.mark.parametrize("sends_chain", [False, True])
@on_uvloop
async def test_a_trusted_issuing_ca_is_enough_for_our_own_connections(
    tmp_path: Path, sends_chain: bool
) -> None:
    root = Authority(tmp_path, "root")
    issuing = Authority(tmp_path, "issuing", root, sends_chain)
    others = [Authority(tmp_path, "another of the root", root, sends_chain), Authority(tmp_path, "stranger")]
    async with a_tls_edge(ServerTls(ServerTlsSettings(key_pair=issuing.key_pair()))) as (edge, _):
        for other in others:
            with pytest.raises(ssl.SSLCertVerificationError):
                await edge.client(client_context(other.file))
        trusting = client_context(issuing.file)
        assert await principal_of(edge, trusting) == "User:ANONYMOUS"


@on_uvloop
async def test_a_certificate_that_no_rule_applies_to_lets_nobody_in(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = tls_of(authority, client_auth=REQUIRED)
    async with a_tls_edge(tls, "RULE:^CN=service-(.*)$/$1/") as (edge, broker):
        await is_turned_away(edge, authority.client("alice"))
        await edge.until(lambda: bool(edge.events))

        assert "principal builder: no rule of" in edge.events[0].message
        assert broker.received(PRODUCE) == []


@on_uvloop
async def test_whoever_only_looks_whether_the_port_is_open_is_no_failure(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED)) as (edge, _):
        _, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.close()
        assert await principal_of(edge, authority.client("alice")) == "User:alice"

        assert [event for event in edge.events if event.event == "authentication_failed"] == []


@on_uvloop
async def test_new_certificates_hold_for_the_next_handshake_and_no_one_is_cut(
    tmp_path: Path,
) -> None:
    old = Authority(tmp_path)
    tls = tls_of(old, client_auth=REQUIRED)
    async with a_tls_edge(tls) as (edge, _):
        staying = await edge.client(old.client("alice"))
        staying.asks(PRODUCE, 9, produce("orders"))
        await staying.hears(PRODUCE, 9)

        new = Authority(tmp_path)  # In the place of the old one's files.
        new.key_pair()
        tls.reload()

        staying.asks(PRODUCE, 9, produce("orders"))
        await staying.hears(PRODUCE, 9)
        staying.leaves()
        await edge.all_gone()
        assert await principal_of(edge, new.client("bob")) == "User:bob"
        await is_turned_away(edge, old.client("alice", trusts=new))


@on_uvloop
async def test_a_client_gets_the_certificate_of_the_name_that_it_asks_for(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    tls = tls_of(authority, server_names={"Kafka.Acme.org": other.key_pair("kafka.acme.org", "named")})
    async with a_tls_edge(tls) as (edge, _):
        for name, trusted in (("localhost", authority), ("kafka.acme.org", other)):
            streams = await asyncio.open_connection(
                "127.0.0.1", edge.port, ssl=trusted.client(None), server_hostname=name
            )
            streams[1].close()


@on_uvloop
async def test_a_tls_version_that_is_not_enabled_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, protocols=("TLSv1.3",))) as (edge, _):
        old_fashioned = authority.client(None)
        old_fashioned.maximum_version = ssl.TLSVersion.TLSv1_2
        await is_turned_away(edge, old_fashioned)
        assert await principal_of(edge, authority.client(None)) == "User:ANONYMOUS"


def test_files_that_cannot_be_used_leave_the_last_good_context_in_force(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = tls_of(authority)
    pair = authority.key_pair()
    Certificates([tls, None], FileReloads(CollectorRegistry()))

    pair.key.write_text("no key at all")
    with pytest.raises(TlsError, match=r"server\.pem with key .*server\.key"):
        tls.reload()
    with pytest.raises(TlsError, match=r"server\.pem with key .*server\.key"):
        Certificates([tls], FileReloads(CollectorRegistry()))


def test_an_encrypted_key_is_an_error_and_no_question_at_the_terminal(tmp_path: Path) -> None:
    pair = Authority(tmp_path).key_pair()
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    pair.key.write_bytes(locked)

    with pytest.raises(TlsError, match=r"server\.key"):
        ServerTls(ServerTlsSettings(key_pair=pair))


def test_our_own_certificate_is_read_again_for_the_next_connection(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.key_pair(name="client")
    tls = ClientTls(authority.file, pair.certificate, pair.key, True)

    authority.key_pair(name="client")
    tls.reload()
    pair.certificate.write_text("nothing")

    with pytest.raises(TlsError, match=r"client\.pem"):
        tls.reload()


class ByListener:
    """A builder of one's own: everyone is the listener."""

    def configure(self, settings: Mapping[str, str]) -> None:
        self.prefix = settings["prefix"]

    def build(self, context: AuthenticationContext) -> Principal:
        return Principal("Service", f"{self.prefix}{context.listener}")


def test_a_principal_builder_of_ones_own_is_named_by_its_path() -> None:
    builder = load_principal_builder(f"{__name__}.ByListener", {"prefix": "at-"})
    context = AuthenticationContext(listener="SSL", security_protocol="SSL", host="::1")

    assert str(builder.build(context)) == "Service:at-SSL"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("no.such.module.Builder", "principal.builder.class: cannot load"),
        (f"{__name__}.Authority", "principal.builder.class: cannot load"),
        (f"{__name__}.ByListener", "principal.builder.class: ByListener rejects its settings"),
        ("builtins.dict", "principal.builder.class: 'builtins.dict' is not a principal builder"),
    ],
)
def test_a_builder_that_cannot_be_used_is_an_error_at_the_start(path: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"principal\.builder\.class") as refused:
        load_principal_builder(path, {})
    assert str(refused.value).startswith(told)


@on_uvloop
async def test_a_client_with_a_certificate_resumes_no_session_of_tls_1_2(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client_tls = authority.client()
    client_tls.maximum_version = ssl.TLSVersion.TLSv1_2

    def connect(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
        with (
            socket.create_connection(("127.0.0.1", edge.port)) as plain,
            client_tls.wrap_socket(plain, server_hostname="localhost", session=session) as encrypted,
        ):
            outcome = encrypted.session, encrypted.session_reused
            encrypted.unwrap()  # Without this the server forgets the session.
            return outcome

    async with a_tls_edge(tls_of(authority, client_auth=REQUIRED)) as (edge, _):
        session, _ = await asyncio.to_thread(connect, None)
        assert session is not None
        _, is_resumed = await asyncio.to_thread(connect, session)

    assert is_resumed is False
