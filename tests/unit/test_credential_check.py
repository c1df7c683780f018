"""`penstock check --token` and `--certificate`: what a listener makes of a credential."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from structlog.testing import capture_logs

from proxy.__main__ import main
from tests.support.identity_provider import AUDIENCE, ISSUER, jwks, rsa, token
from tests.support.images import acl_record
from tests.support.log_files import batch, segment

pytestmark = pytest.mark.spec("A9", "O5")

SIMPLE = "proxy.security.simple.SimpleAclAuthorizer"
OAUTHBEARER = {
    "name": "SASL",
    "bind": "127.0.0.1:19092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ["OAUTHBEARER"],
    "sasl.oauthbearer.jwks.endpoint.url": "file:jwks.json",
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "sasl.oauthbearer.groups.claim": "/realm_access/roles",
    "sasl.oauthbearer.groups.prefix": "kc:",
    "connections.max.reauth.ms": 60_000,
}
ACLS = {
    "version": 1,
    "acls": [],
    "topics": {
        "audit": {"acls": [], "owner": "User:alice"},
        "orders": {
            "acls": [
                {
                    "principal": "User:alice",
                    "permissionType": "ALLOW",
                    "operations": ["READ"],
                    "hosts": ["*"],
                },
                {
                    "principal": "Group:kc:ops",
                    "permissionType": "DENY",
                    "operations": ["ALL"],
                    "hosts": ["*"],
                },
                {"principal": "User:bob", "permissionType": "ALLOW", "operations": ["ALL"], "hosts": ["*"]},
            ]
        },
    },
}


def written(directory: Path, *listeners: dict[str, Any], **authorizer: Any) -> Path:
    (directory / "jwks.json").write_bytes(jwks(rsa()))
    path = directory / "proxy.yaml"
    document = {
        "proxy.id": "proxy-a",
        "listeners": list(listeners),
        "upstream": {"bootstrap": "127.0.0.1:9"},
        "controller": {"endpoints": ["127.0.0.1:9"]},
        "audit": {"spool.dir": "spool"},
        "authorizer": authorizer or {"class.name": ""},
    }
    path.write_text(yaml.safe_dump(document))
    return path


class Printed:
    """What a command has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: object) -> None:
        # Without main: its log lines would go to this test's standard error for good.
        with capture_logs():
            self.code = main(["check", *map(str, words)])
        self.out, self.err = capsys.readouterr()

    @property
    def lines(self) -> list[str]:
        """The results, without what depends on the moment."""
        return [line.partition(" s, until")[0] for line in self.out.splitlines() if ".yaml: ok" not in line]

    @property
    def reasons(self) -> list[str]:
        return [line.partition("jwt: ")[2] for line in self.err.splitlines() if "jwt: " in line]


def test_a_valid_token_is_shown_with_its_groups_end_and_acls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acls.json").write_text(json.dumps(ACLS))
    config = written(
        tmp_path,
        OAUTHBEARER,
        **{"class.name": SIMPLE, "broker.acl.file.path": "acls.json", "super.users": "User:root"},
    )
    text = token(lifetime_s=3_600, realm_access={"roles": ["ops", "dev"]})
    (tmp_path / "a.jwt").write_text(f"{text}\n")

    printed = Printed(capsys, "-c", config, "--token", tmp_path / "a.jwt")

    assert printed.code == 0, printed.err
    lines = printed.lines
    assert lines[:3] == ["token at SASL: valid", "principal: User:alice", "groups: kc:dev, kc:ops"]
    assert lines[3].startswith("expires: 20")
    assert lines[4] in ("session: 60", "session: 59")
    assert lines[5] == "ACL: ALLOW READ from * for User:alice (topics > orders > acls[0])"
    assert lines[6].startswith("ACL: DENY ")
    assert lines[6].endswith("from * for Group:kc:ops (topics > orders > acls[1])")
    assert lines[7:] == ["ACL: owner of TOPIC audit"]
    assert text.split(".")[2] not in printed.out + printed.err


def test_each_reason_is_named_and_what_the_token_says_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = int(datetime.now(UTC).timestamp())
    text = token(now_s - 7_200, key=rsa("rsa-9"), aud="else", realm_access={"roles": [7]})
    (tmp_path / "a.jwt").write_text(text)

    printed = Printed(capsys, "-c", written(tmp_path, OAUTHBEARER), "--token", tmp_path / "a.jwt")

    assert printed.code == 2
    assert printed.lines[:3] == ["token at SASL: INVALID", "principal: User:alice", "groups: none"]
    unknown, audience, expired, groups = printed.reasons
    assert (unknown, audience) == ("unknown key 'rsa-9'", "meant for another audience")
    assert expired.startswith("expired 69")
    assert groups == "/realm_access/roles is neither a string nor a list of them"
    assert text.split(".")[2] not in printed.out + printed.err


def test_a_token_may_come_from_standard_input_and_a_name_cannot_write_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = token(sub="a\u202elice").encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    printed = Printed(capsys, "-c", written(tmp_path, OAUTHBEARER), "--token", "-")

    assert (printed.code, printed.lines[1]) == (0, r"principal: 'User:a\u202elice'")
    assert printed.lines[-1] == "ACLs: none, since there is no authorizer: everything is allowed"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a signed JWT: 1 parts instead of 3"),
        (b"\xff.\xff.\xff", "header is not base64url"),
        (b"x" * 20_000, "a token of 20000 bytes, limit 16384"),
        (b"x" * ((1 << 20) + 1), "more than 1048576 bytes"),
    ],
)
def test_what_is_no_token_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    (tmp_path / "a.jwt").write_bytes(content)

    printed = Printed(capsys, "-c", written(tmp_path, OAUTHBEARER), "--token", tmp_path / "a.jwt")

    assert (printed.code, printed.reasons[0]) == (2, reason)


def test_of_several_listeners_one_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = OAUTHBEARER | {
        "name": "OTHER",
        "bind": "127.0.0.1:19093",
        "sasl.oauthbearer.sub.claim.name": ["azp", "sub"],
        "sasl.oauthbearer.sub.claim.prefixes": {"azp": "app-"},
    }
    plain = {"name": "OPEN", "bind": "127.0.0.1:19094", "security.protocol": "PLAINTEXT"}
    config = written(tmp_path, OAUTHBEARER, other, plain)
    (tmp_path / "a.jwt").write_text(token(azp="orders"))
    words = ("-c", config, "--token", tmp_path / "a.jwt")

    assert Printed(capsys, *words, "--listener", "OTHER").lines[1] == "principal: User:app-orders"
    assert Printed(capsys, *words).reasons == [
        "several listeners take a token: SASL, OTHER; choose one with --listener"
    ]
    assert Printed(capsys, *words, "--listener", "OPEN").reasons == [
        "no listener OPEN takes a token; those that do: SASL, OTHER"
    ]


@pytest.mark.spec("A8")
def test_the_acls_of_the_log_are_those_of_the_user_its_groups_and_all_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = written(tmp_path, OAUTHBEARER, **{"class.name": "proxy.security.standard.StandardAuthorizer"})
    log = tmp_path / "log"
    log.mkdir()
    principals = ("User:alice", "User:bob", "Group:kc:ops", "Group:ops", "User:*")
    records = [acl_record(number, "orders", principal=name) for number, name in enumerate(principals)]
    segment(log, batch(0, *records))
    (tmp_path / "a.jwt").write_text(token(realm_access={"roles": ["ops"]}))
    words = ("-c", config, "--token", tmp_path / "a.jwt")

    assert Printed(capsys, *words).lines[-1] == "ACLs: not looked at; add --connect, or --log PATH"
    assert Printed(capsys, *words, "--log", log).lines[-3:] == [
        f"ACL: ALLOW READ TOPIC LITERAL orders from * for {principal}"
        for principal in ("Group:kc:ops", "User:*", "User:alice")
    ]
    lost = Printed(capsys, *words, "--log", tmp_path / "nowhere")
    assert (lost.code, lost.lines[0]) == (2, "token at SASL: valid")
    assert "the metadata log cannot be read" in lost.reasons[0]


@pytest.mark.parametrize(
    "words",
    [("--token", "x"), ("--users", "u", "--token", "x"), ("-c", "a", "-c", "b", "--certificate", "x")],
)
def test_a_credential_needs_one_configuration(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    printed = Printed(capsys, *words)

    assert (printed.code, printed.out) == (2, "")
    assert "-c" in printed.err


class Certificates:
    """A CA, a listener that trusts it, and certificates of clients."""

    def __init__(self, directory: Path, **ssl: Any) -> None:
        self.directory = directory
        self.ca = trustme.CA()
        self.ca.cert_pem.write_to_path(directory / "ca.pem")
        server = self.ca.issue_cert("localhost")
        server.private_key_pem.write_to_path(directory / "key.pem")
        server.cert_chain_pems[0].write_to_path(directory / "certificate.pem")
        files = {
            "certificate": "certificate.pem",
            "key": "key.pem",
            "ca": "ca.pem",
            "client.auth": "required",
        }
        listener = {"name": "SSL", "bind": "127.0.0.1:19093", "security.protocol": "SSL", "ssl": files | ssl}
        self.config = written(directory, listener)

    def client(self, ca: trustme.CA | None = None, **changes: Any) -> Path:
        issued = (ca or self.ca).issue_cert(
            "api@acme.org", common_name="api", organization_unit_name="payments", **changes
        )
        path = self.directory / "client.jwt.pem"
        path.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path

    def revoke(self, *paths: Path, next_update: timedelta = timedelta(days=1)) -> None:
        now = datetime.now(UTC)
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes())
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(issuer.subject)
            .last_update(now - timedelta(days=2))
            .next_update(now + next_update)
        )
        for path in paths:
            serial = x509.load_pem_x509_certificate(path.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(revoked.build())
        key = serialization.load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        made = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
        (self.directory / "clients.crl").write_bytes(made.public_bytes(serialization.Encoding.PEM))


RULES = {
    "principal.from": "SAN:EMAIL",
    "principal.san.mapping.rules": r"RULE:^SAN:EMAIL:(.*)@acme\.org$/$1/",
    "principal.groups.from": "OU",
    "client.certificate.expiry.enforced": True,
}


def test_a_certificate_is_shown_with_its_name_groups_and_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Certificates(tmp_path, **RULES)
    client = made.client(not_after=datetime.now(UTC) + timedelta(seconds=100))

    printed = Printed(capsys, "-c", made.config, "--certificate", client)

    assert (printed.code, printed.lines[:3]) == (
        0,
        ["certificate at SSL: valid", "principal: User:api", "groups: OU=payments"],
    )
    assert printed.lines[4].removeprefix("session: ") in ("98", "99", "100")


def test_what_is_wrong_with_a_certificate_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = RULES | {"principal.san.mapping.rules": "RULE:^x$/x/", "crl": "clients.crl"}
    (tmp_path / "clients.crl").touch()
    made = Certificates(tmp_path, **rules)
    past = datetime.now(UTC) - timedelta(days=1)
    good = made.client(not_before=past - timedelta(days=1), not_after=past)
    made.revoke(good, next_update=timedelta(days=-1))

    words = ("-c", made.config, "--certificate", good)
    printed = Printed(capsys, *words)
    told = "\n".join(line for line in printed.err.splitlines() if "client.jwt.pem" in line)
    assert printed.code == 2
    for text in ("expired at", "is past its next update", "is revoked", "no rule applies to SAN:EMAIL"):
        assert text in told
    assert "has issued it" not in told


def test_a_certificate_of_another_ca_is_not_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Certificates(tmp_path)
    between = made.ca.create_child_ca()

    assert Printed(capsys, "-c", made.config, "--certificate", made.client(between)).code == 0
    strange = Printed(capsys, "-c", made.config, "--certificate", made.client(trustme.CA()))
    assert (strange.code, strange.lines[0]) == (2, "certificate at SSL: INVALID")
    assert f"no CA in {tmp_path / 'ca.pem'} has issued it" in strange.err
    (tmp_path / "x").write_bytes(b"no certificate")
    assert "not a certificate" in Printed(capsys, "-c", made.config, "--certificate", tmp_path / "x").err
