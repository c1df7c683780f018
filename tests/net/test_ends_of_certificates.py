"""Clients that log in with certificates: their records, the ends of their sessions, revoked certificates."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from structlog.testing import capture_logs

from proxy.audit.classes import AUTHENTICATION
from proxy.net.files.tls import REPORT, KeyPair, ServerTls, ServerTlsSettings, TlsError
from proxy.security.sasl.plain import PlainExchange
from proxy.session.authentication import SaslListener
from proxy.session.gate import ListenerPolicy
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.net.test_answers_wait import a_stage, an_audit_log, hang
from tests.session.apis.asking import image_with
from tests.session.conversation import gate_with, produce
from tests.support.edges import Edge, an_edge_and_its_broker, is_served, on_uvloop

pytestmark = pytest.mark.spec("R11")


NO_ONE: Any = None
"""No password is checked."""


def policy_of(**changes: Any) -> ListenerPolicy:
    return ListenerPolicy("SSL", None, security_protocol="SSL", **changes)


class Office:
    """A CA that issues certificates and revokes them, with its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(directory / "ca.pem")
        self.crl = directory / "crl.pem"
        self.server = KeyPair(directory / "server.pem", directory / "server.key")
        issued = self.ca.issue_cert("localhost")
        issued.private_key_and_cert_chain_pem.write_to_path(self.server.certificate)
        issued.private_key_pem.write_to_path(self.server.key)

    def tls(self, **changes: Any) -> ServerTls:
        return ServerTls(
            ServerTlsSettings(
                key_pair=self.server, ca=self.directory / "ca.pem", client_auth="required", **changes
            )
        )

    def client(self, name: str, lasts: timedelta = timedelta(days=1)) -> tuple[ssl.SSLContext, int]:
        """What a client brings, and the serial number of its certificate."""
        ends = datetime.now(UTC) + lasts
        issued = self.ca.issue_cert(
            "x@acme.org", common_name=name, not_before=ends - timedelta(days=2), not_after=ends
        )
        file = self.directory / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.ca.configure_trust(context)
        context.load_cert_chain(file)
        pem = issued.cert_chain_pems[0].bytes()
        return context, x509.load_pem_x509_certificate(pem).serial_number

    def revokes(
        self,
        serials: Sequence[int],
        next_update: timedelta = timedelta(days=1),
        extension: x509.ExtensionType | None = None,
    ) -> None:
        """Write the list, with this critical extension."""
        now = datetime.now(UTC)
        certificate = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        builder = x509.CertificateRevocationListBuilder(
            issuer_name=certificate.subject,
            last_update=now - timedelta(days=2),
            next_update=now + next_update,
        )
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder(serial, now - timedelta(hours=1)).build()
            )
        if extension is not None:
            builder = builder.add_extension(extension, critical=True)
        key = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        signed = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
        self.crl.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


async def is_rejected(edge: Edge, tls: ssl.SSLContext) -> str:
    """The reason in the record."""
    known = len(edge.events)
    with suppress(OSError):
        client = await edge.client(tls)
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        assert await client.reader.read() == b""
    await edge.until(lambda: len(edge.events) > known)
    assert edge.events[-1].event == "authentication_failed"
    return str(edge.events[-1].message)


def of(edge: Edge, name: str) -> list[Any]:
    return [event for event in edge.events if event.event == name]


@on_uvloop
async def test_a_login_with_a_certificate_is_recorded(tmp_path: Path) -> None:
    office = Office(tmp_path)
    policy = policy_of()
    async with an_edge_and_its_broker(policy=policy, tls=office.tls()) as (edge, _):
        await is_served(await edge.client(office.client("alice")[0]))

        (login,) = of(edge, "authentication")
        assert login.principal.startswith("User:CN=alice,")
        assert (login.mechanism, login.host, login.listener) == ("SSL", "127.0.0.1", "SSL")
        assert login.session_lifetime_ms == 0
        assert login.connection_id == edge.connection.session.peer.connection_id


@pytest.mark.spec("D3")
@on_uvloop
async def test_with_fsync_authentication_nobody_is_served_before_the_login_is_on_the_disk(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    audit, spool = an_audit_log(tmp_path / "spool", synced=frozenset({AUTHENTICATION}))
    gate = gate_with(image_with())
    gate.authorizer.configure({"allow.everyone.if.no.acl.found": "true"})
    async with a_stage(audit, gate, tls=office.tls(), policy=policy_of()) as (edge, broker):
        disk = hang(audit, spool)
        client = await edge.client(office.client("alice")[0])
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        await edge.until(lambda: bool(edge.events) and edge.connection.awaits == "audit_records")
        assert (len(edge.connection.session.pipeline), broker.requests) == (0, [])

        disk.answers()
        await client.hears(ApiKey.PRODUCE, 9)


@pytest.mark.spec("D3")
@on_uvloop
async def test_while_no_login_can_be_recorded_nobody_logs_in_with_a_certificate(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with an_edge_and_its_broker(policy=policy_of(), tls=office.tls()) as (edge, broker):
        edge.gate.unrecorded = frozenset({AUTHENTICATION})
        with suppress(OSError):
            client = await edge.client(office.client("alice")[0])
            client.asks(ApiKey.PRODUCE, 9, produce("orders"))
            assert await client.reader.read() == b""
        await edge.until(lambda: edge.reasons == ["audit_unavailable"])

        assert edge.events == []
        assert broker.received(ApiKey.PRODUCE) == []
        edge.gate.unrecorded = frozenset()
        await is_served(await edge.client(office.client("alice")[0]))


@on_uvloop
async def test_a_session_ends_with_its_certificate(tmp_path: Path) -> None:
    office = Office(tmp_path)
    policy = policy_of(ends_with_certificate=True)
    async with an_edge_and_its_broker(policy=policy, tls=office.tls()) as (edge, broker):
        client = await edge.client(office.client("alice", timedelta(seconds=3))[0])
        await is_served(client)
        (login,) = of(edge, "authentication")
        assert 0 < login.session_lifetime_ms <= 3_000
        await asyncio.sleep(login.session_lifetime_ms / 1000)
        served = len(broker.received(ApiKey.PRODUCE))
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        assert await client.is_cut_off() == b""

        assert len(broker.received(ApiKey.PRODUCE)) == served
        assert [event.principal for event in of(edge, "session_expired")] == [login.principal]


@on_uvloop
async def test_a_session_lasts_for_its_greatest_age(tmp_path: Path) -> None:
    office = Office(tmp_path)
    policy = policy_of(max_age_ms=1_000, ends_with_certificate=True)
    async with an_edge_and_its_broker(policy=policy, tls=office.tls()) as (edge, _):
        client = await edge.client(office.client("alice")[0])
        await is_served(client)
        assert [login.session_lifetime_ms for login in of(edge, "authentication")] == [1_000]
        await asyncio.sleep(1.0)
        client.asks(ApiKey.PRODUCE, 9, produce("orders"))
        assert await client.is_cut_off() == b""

        await is_served(await edge.client(office.client("alice")[0]))
        assert len(of(edge, "session_expired")) == 1


@on_uvloop
async def test_a_revoked_certificate_lets_nobody_in_once_the_list_is_read(tmp_path: Path) -> None:
    office = Office(tmp_path)
    (alice, serial), (bob, _) = office.client("alice"), office.client("bob")
    office.revokes([])
    tls = office.tls(crl=office.crl)
    policy = policy_of()
    async with an_edge_and_its_broker(policy=policy, tls=tls) as (edge, _):
        await is_served(await edge.client(alice))
        office.revokes([serial])
        assert office.crl in tls.files
        tls.reload()

        assert await is_rejected(edge, alice) == "client certificate: certificate revoked"
        await is_served(await edge.client(bob))


@on_uvloop
async def test_a_list_past_its_next_update_lets_nobody_in(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.revokes([], next_update=timedelta(days=-1))
    tls = office.tls(crl=office.crl)
    assert tls.expiries[office.crl] < datetime.now(UTC).timestamp()
    async with an_edge_and_its_broker(policy=policy_of(), tls=tls) as (edge, _):
        assert await is_rejected(edge, office.client("alice")[0]) == "client certificate: CRL has expired"


@on_uvloop
async def test_an_open_session_ends_once_its_certificate_is_revoked(tmp_path: Path) -> None:
    office = Office(tmp_path)
    (alice, serial), (bob, _) = office.client("alice"), office.client("bob")
    office.revokes([])
    tls = office.tls(crl=office.crl)
    async with an_edge_and_its_broker(policy=policy_of(), tls=tls) as (edge, _):
        revoked = await edge.client(alice)
        await is_served(revoked)
        (connection,) = edge.listener.connections
        connection.end_if_revoked()
        await is_served(revoked)
        other = await edge.client(bob)
        await is_served(other)
        office.revokes([serial])
        tls.reload()
        for each in list(edge.listener.connections):
            each.end_if_revoked()

        assert await revoked.is_cut_off() == b""
        (record,) = of(edge, "session_revoked")
        assert record.message == "the client's certificate was revoked"
        assert record.principal.startswith("User:CN=alice,")
        await is_served(other)


@pytest.mark.spec("R5")
@on_uvloop
async def test_a_new_list_ends_sessions_after_a_sasl_login_with_a_revoked_certificate_too(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    alice, serial = office.client("alice")
    office.revokes([])
    tls = office.tls(crl=office.crl)
    sasl = SaslListener("SASL", ("PLAIN",), lambda _: 0, lambda _: PlainExchange(NO_ONE))
    async with an_edge_and_its_broker(sasl=sasl, tls=tls) as (edge, _):
        client = await edge.client(alice)
        client.asks(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
        await client.hears(ApiKey.SASL_HANDSHAKE, 1)
        office.revokes([serial])
        tls.reload()
        edge.connection.end_if_revoked()

        assert await client.is_cut_off() == b""
        assert [event.message for event in of(edge, "session_revoked")] == [
            "the client's certificate was revoked"
        ]


@pytest.mark.spec("O8")
@on_uvloop
async def test_a_list_past_its_next_update_may_only_be_reported(tmp_path: Path) -> None:
    office = Office(tmp_path)
    (alice, serial), (bob, _) = office.client("alice"), office.client("bob")
    office.revokes([serial], next_update=timedelta(days=-1))
    tls = office.tls(crl=office.crl, crl_expired=REPORT)
    async with an_edge_and_its_broker(policy=policy_of(), tls=tls) as (edge, _):
        with capture_logs() as lines:
            await is_served(await edge.client(bob))
            await is_served(await edge.client(bob))
            assert await is_rejected(edge, alice) == "client certificate: certificate revoked"
        (line,) = [each for each in lines if "past their next update" in each["event"]]
        assert (line["log_level"], line["file"]) == ("warning", str(office.crl))

        office.revokes([serial])
        tls.reload()
        await is_served(await edge.client(bob))
        assert await is_rejected(edge, alice) == "client certificate: certificate revoked"


@on_uvloop
async def test_without_the_list_of_its_ca_a_client_is_rejected(tmp_path: Path) -> None:
    office = Office(tmp_path)
    (tmp_path / "other").mkdir()
    other = Office(tmp_path / "other")
    other.revokes([])
    tls = office.tls(crl=other.crl)
    async with an_edge_and_its_broker(policy=policy_of(), tls=tls) as (edge, _):
        assert "unable to get certificate CRL" in await is_rejected(edge, office.client("alice")[0])


@pytest.mark.parametrize(
    "content", ["", "no list", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"]
)
def test_a_file_without_lists_is_an_error_that_names_it(office: Office, content: str) -> None:
    office.crl.write_text(content)
    with pytest.raises(TlsError, match=r"crl .*crl\.pem: not PEM with revocation lists"):
        office.tls(crl=office.crl)


def only(**changes: Any) -> x509.IssuingDistributionPoint:
    """Which certificates a list is for."""
    usual: dict[str, Any] = dict.fromkeys(("full_name", "relative_name", "only_some_reasons"))
    kinds = ("user_certs", "ca_certs", "attribute_certs")
    usual |= dict.fromkeys([f"only_contains_{kind}" for kind in kinds], False)
    return x509.IssuingDistributionPoint(**(usual | {"indirect_crl": False} | changes))


UNKNOWN = x509.ObjectIdentifier("1.2.3.4")


@pytest.mark.parametrize(
    ("extension", "reason"),
    [
        (x509.DeltaCRLIndicator(1), "a delta list, which names changes only"),
        (only(indirect_crl=True), "an indirect list"),
        (only(only_some_reasons=frozenset({x509.ReasonFlags.key_compromise})), "for some reasons only"),
        (
            x509.UnrecognizedExtension(UNKNOWN, b"\x05\x00"),
            "the critical extension 1.2.3.4, which is unknown",
        ),
    ],
    ids=["delta", "indirect", "some reasons", "unknown"],
)
async def test_a_list_that_does_not_say_all_of_a_ca_is_an_error_and_a_reload_keeps_the_one_before(
    tmp_path: Path, extension: x509.ExtensionType, reason: str
) -> None:
    office = Office(tmp_path)
    alice, serial = office.client("alice")
    office.revokes([serial])
    tls = office.tls(crl=office.crl)
    office.revokes([], extension=extension)

    with pytest.raises(TlsError, match=f"crl.pem: .*{reason}"):
        office.tls(crl=office.crl)
    with pytest.raises(TlsError):
        tls.reload()

    async with an_edge_and_its_broker(policy=policy_of(), tls=tls) as (edge, _):
        assert await is_rejected(edge, alice) == "client certificate: certificate revoked"
