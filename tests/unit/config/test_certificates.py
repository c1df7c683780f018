"""What `penstock check` and a starting process say about certificates that load, and that peers refuse."""

import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from structlog.testing import capture_logs

from proxy.__main__ import main
from proxy.commands.check import check, checked
from proxy.config import ProxyConfig, load
from proxy.config.certificates import Fact, facts, report_certificates
from tests.unit.config.test_ten_mistakes import FILE, written

pytestmark = [pytest.mark.spec("O5"), pytest.mark.spec("O12")]

TODAY = datetime(2026, 6, 1, tzinfo=UTC)
NOW_S = TODAY.timestamp()
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Authority:
    """A CA that issues whatever it is told to."""

    def __init__(self, name: str, issuer: "Authority | None" = None, **changes: Any) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (issuer or self).sign(self.name, self.key.public_key(), ca=True, **changes)

    def sign(
        self,
        name: x509.Name,
        key: Any,
        *,
        names: tuple[str, ...] = (),
        begins: int = -10,
        ends: int = 365,
        ca: bool = False,
        usage: x509.ObjectIdentifier | None = None,
    ) -> x509.Certificate:
        """`begins` and `ends`: days from TODAY."""
        builder = x509.CertificateBuilder(
            self.name,
            name,
            key,
            x509.random_serial_number(),
            TODAY + timedelta(begins),
            TODAY + timedelta(ends),
        ).add_extension(x509.BasicConstraints(ca, None), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(each) for each in names]), False
            )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, directory: Path, name: str, *above: "Authority", key: Any = None, **changes: Any) -> None:
        """Write name.crt, with the certificates of those above, and name.key."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        chain = [self.sign(subject, key.public_key(), **changes), *(each.certificate for each in above)]
        (directory / f"{name}.crt").write_bytes(b"".join(map(pem, chain)))
        (directory / f"{name}.key").write_bytes(private(key))


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def private(key: Any) -> bytes:
    written_key: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return written_key


ROOT = Authority("Root", ends=3650)
INTERMEDIATE = Authority("Intermediate", ROOT, ends=3650)


def found(directory: Path, *changes: tuple[str, str]) -> list[Fact]:
    """The facts about a proxy with proxy.crt, at noon of TODAY."""
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    kept = {path: path.read_bytes() for path in directory.iterdir() if path.suffix != ".yaml"}
    path = written(directory, text)
    for each, content in kept.items():
        each.write_bytes(content)
    return facts(load(path, ProxyConfig), NOW_S)


@pytest.mark.parametrize(
    ("begins", "ends", "told", "error"),
    [
        (-10, 31, None, False),
        (-10, 29, "expires in 29 days, at 2026-06-30 00:00 UTC; renew it", False),
        (-10, 0, "expires in 0 days, at 2026-06-01 00:00 UTC; renew it", False),
        (-10, -1, "expired at 2026-05-31 00:00 UTC; renew it", True),
        (1, 90, "is not valid before 2026-06-02 00:00 UTC; wait, issue it again, or correct the clock", True),
    ],
)
def test_dates_are_compared_with_the_clock(
    tmp_path: Path, begins: int, ends: int, told: str | None, error: bool
) -> None:
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",), begins=begins, ends=ends)

    at = ("listeners", 0, "ssl", "certificate")
    expected = [] if told is None else [Fact(at, f"{tmp_path}/proxy.crt: CN=proxy {told}", error)]
    assert found(tmp_path) == expected


PLACES = [
    ("ssl: {certificate: proxy.crt, key: proxy.key}", "ssl: {certificate: old.crt, key: old.key}"),
    (
        "key: proxy.key}",
        "key: proxy.key, server.names: {other: {certificate: old.crt, key: old.key}}}",
    ),
    ("key: proxy.key}", "key: proxy.key, client.auth: required, ca: old-ca.pem}"),
    (
        'http: {bind: "127.0.0.1:9190"',
        'http: {bind: "127.0.0.1:9190", ssl: {certificate: old.crt, key: old.key}',
    ),
    (
        '"127.0.0.1:9092"}',
        '"127.0.0.1:9092", security.protocol: SSL, ssl: {certificate: old.crt, key: old.key}}',
    ),
    ('"127.0.0.1:9092"}', '"127.0.0.1:9092", security.protocol: SSL, ssl: {ca: old-ca.pem}}'),
    ('["127.0.0.1:9094"]}', '["127.0.0.1:9094"], security.protocol: SSL, ssl: {ca: old-ca.pem}}'),
    (
        "audit: {",
        "telemetry: {otlp: {endpoint: 'https://here:4318', ssl: {certificate: old.crt, key: old.key}}}\n"
        "audit: {",
    ),
    (
        "[PLAIN]",
        "[PLAIN, OAUTHBEARER]\n    sasl.oauthbearer.jwks.endpoint.url: https://here/jwks\n"
        "    sasl.oauthbearer.jwks.endpoint.ca: old-ca.pem\n"
        "    sasl.oauthbearer.expected.issuer: ''\n    sasl.oauthbearer.expected.audience: ''",
    ),
]


@pytest.mark.parametrize("change", PLACES)
def test_every_place_of_a_certificate_is_looked_at(tmp_path: Path, change: tuple[str, str]) -> None:
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",))
    ROOT.issue(tmp_path, "old", names=("127.0.0.1", "other"), ends=-1)
    (tmp_path / "old-ca.pem").write_bytes(pem(Authority("Old", ends=-1).certificate))

    told = [fact for fact in found(tmp_path, change) if fact.error]

    assert [fact.text.partition(" expired ")[2] for fact in told] == ["at 2026-05-31 00:00 UTC; renew it"]


def test_one_valid_ca_of_several_is_enough(tmp_path: Path) -> None:
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",))
    old = Authority("Old", ends=-1)
    (tmp_path / "ca.pem").write_bytes(pem(old.certificate) + pem(ROOT.certificate))

    (fact,) = found(tmp_path, ("key: proxy.key}", "key: proxy.key, client.auth: required, ca: ca.pem}"))

    assert (fact.location[-1], fact.error) == ("ca", False)
    assert "CN=Old expired" in fact.text


@pytest.mark.parametrize(
    ("names", "advertised", "right"),
    [
        (("localhost",), "localhost", True),
        (("127.0.0.1",), "127.0.0.1", True),
        (("localhost",), "127.0.0.1", False),
        (("*.example.com",), "Kafka-1.example.com", True),
        (("*.example.com",), "a.b.example.com", False),
        (("*.example.com",), "example.com", False),
        (("kafka-1.example.com", "10.0.0.1"), "10.0.0.1", True),
        (("kafka-1.example.com",), "kafka-2.example.com", False),
        ((), "proxy", False),
        (("::1",), "[0:0::1]", True),
    ],
)
def test_the_certificate_contains_the_advertised_name(
    tmp_path: Path, names: tuple[str, ...], advertised: str, right: bool
) -> None:
    ROOT.issue(tmp_path, "proxy", names=names)

    told = found(
        tmp_path, ("    security.protocol", f"    advertised: '{advertised}:9'\n    security.protocol")
    )

    assert [fact.error for fact in told] == [] if right else [False]
    assert all(f"clients connect to {advertised}:9, but the certificate is for" in fact.text for fact in told)


def test_the_certificate_of_a_requested_name_counts_for_it(tmp_path: Path) -> None:
    ROOT.issue(tmp_path, "proxy", names=("inside",))
    ROOT.issue(tmp_path, "out", names=("outside",))
    ssl = "key: proxy.key, server.names: {NAME: {certificate: out.crt, key: out.key}}}"
    advertised = ("    security.protocol", "    advertised: outside:9\n    security.protocol")

    assert found(tmp_path, ("key: proxy.key}", ssl.replace("NAME", "outside")), advertised) == []

    told = found(tmp_path, ("key: proxy.key}", ssl.replace("NAME", "elsewhere")), advertised)
    assert ["clients connect to outside:9" in fact.text for fact in told] == [True, False]
    assert ["clients that request elsewhere get it" in fact.text for fact in told] == [False, True]


@pytest.mark.parametrize(
    ("chain", "ca", "told"),
    [
        ((INTERMEDIATE,), None, None),
        ((INTERMEDIATE, ROOT), None, None),
        ((ROOT, INTERMEDIATE), None, "certificate 2, CN=Root, has not issued the one before it, CN=proxy"),
        ((), None, None),
        ((INTERMEDIATE,), (ROOT,), None),
        ((), (ROOT,), "the issuer of CN=proxy is neither in this file nor in ca"),
        ((), (ROOT, INTERMEDIATE), "the issuer of CN=proxy is an intermediate CA; append its certificate"),
    ],
)
def test_the_chain_is_whole_and_in_order(
    tmp_path: Path, chain: tuple[Authority, ...], ca: tuple[Authority, ...] | None, told: str | None
) -> None:
    INTERMEDIATE.issue(tmp_path, "proxy", *chain, names=("127.0.0.1",))
    change = []
    if ca is not None:
        (tmp_path / "ca.pem").write_bytes(b"".join(pem(each.certificate) for each in ca))
        change = [("key: proxy.key}", "key: proxy.key, client.auth: required, ca: ca.pem}")]

    texts = [fact.text for fact in found(tmp_path, *change)]

    assert len(texts) == (told is not None)
    assert all(str(told) in text for text in texts)


def test_a_certificate_for_the_other_side_is_named(tmp_path: Path) -> None:
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",), usage=CLIENT)
    ROOT.issue(tmp_path, "client", usage=SERVER)
    upstream = '"127.0.0.1:9092", security.protocol: SSL, ssl: {certificate: client.crt, key: client.key}}'

    told = [fact.text.partition(".crt: ")[2] for fact in found(tmp_path, ('"127.0.0.1:9092"}', upstream))]

    assert told == [
        "CN=proxy is not for a server: clients reject it; its extended key usage lacks serverAuth",
        "CN=client is not for a client: servers reject it; its extended key usage lacks clientAuth",
    ]


def test_a_weak_key_is_named(tmp_path: Path) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    ROOT.issue(tmp_path, "proxy", key=weak, names=("127.0.0.1",))

    (fact,) = found(tmp_path)

    assert "CN=proxy has a key of 1024 bits" in fact.text
    (problem,) = check(tmp_path / "proxy.yaml")
    assert "OpenSSL rejects it as too weak" in problem


def test_a_weak_signature_is_named(tmp_path: Path) -> None:
    Authority("Old").issue(tmp_path, "proxy")
    (tmp_path / "root.crt").write_bytes(pem(ROOT.certificate))
    (tmp_path / "root.key").write_bytes(private(ROOT.key))
    # The library signs with no weak hash.
    sign = "openssl req -x509 -sha1 -CA root.crt -CAkey root.key -key proxy.key -subj /CN=proxy -days 999"
    names = "-addext subjectAltName=IP:127.0.0.1 -out proxy.crt"
    subprocess.run(f"{sign} {names}".split(), cwd=tmp_path, check=True, capture_output=True)

    (text,) = [fact.text for fact in found(tmp_path) if not fact.error]

    assert "CN=proxy has a signature with sha1" in text


@pytest.mark.parametrize("content", ["", "# no CA yet\n"])
@pytest.mark.parametrize("change", [PLACES[2], PLACES[5], PLACES[8]])
def test_a_file_without_a_ca_is_an_error(tmp_path: Path, content: str, change: tuple[str, str]) -> None:
    path = written(tmp_path, FILE.replace(*change))
    (tmp_path / "old-ca.pem").write_text(content)

    (problem,) = check(path)

    assert problem.endswith("the file contains no certificate; write those of the CAs into it")


def test_check_fails_for_an_expired_certificate_with_which_a_process_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, FILE)
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",), begins=-9999, ends=-9000)

    # Without main: its log lines would go to this test's standard error for good.
    assert main(["check", "-c", str(path)]) == 2
    assert f"{path}:7: listeners[0] > ssl > certificate: {tmp_path}/proxy.crt: CN=proxy expired at" in (
        capsys.readouterr().err
    )
    assert check(path) == []
    with capture_logs() as logged:
        report_certificates(load(path, ProxyConfig), NOW_S)
    assert [(line["log_level"], line["key"]) for line in logged] == [
        ("warning", "listeners > 0 > ssl > certificate")
    ]


def test_facts_are_found_though_other_parts_are_wrong(tmp_path: Path) -> None:
    path = written(tmp_path, FILE.replace("users.yaml", "none.yaml"))
    ROOT.issue(tmp_path, "proxy", names=("127.0.0.1",), begins=-9999, ends=-9000)

    assert [line.partition(" expired")[0][-8:] for line in checked(path).unusable] == ["CN=proxy"]


def test_an_empty_password_is_an_error(tmp_path: Path) -> None:
    sasl = "security.protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, username: p, password.file: empty}}"
    (tmp_path / "empty").write_text("\n")
    path = written(tmp_path, FILE.replace('"127.0.0.1:9092"}', f'"127.0.0.1:9092", {sasl}'))

    assert check(path) == [
        f"{path}:9: upstream > sasl: {tmp_path}/empty is empty; write the password into it"
    ]
