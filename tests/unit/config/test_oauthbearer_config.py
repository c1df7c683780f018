"""The keys of OAUTHBEARER: what they stand for, and what is wrong with them, named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.config import ConfigError, Part, doubts, load
from proxy.config.listener import ListenerConfig
from proxy.config.peer import Login
from proxy.config.upstream import UpstreamConfig
from proxy.net.logins.bearer_token import EndpointToken, FileToken
from proxy.net.logins.oauthbearer import JwksSettings, OAuthBearerSettings
from proxy.security.claims import ClaimPath, GroupsClaim, NameClaim
from proxy.security.jwk_set import ALGORITHMS
from proxy.security.jwt import JwtPolicy

pytestmark = pytest.mark.spec("O5", "R9")

PREFIX = "sasl.oauthbearer."
URL = "https://idp.example/realms/streams/protocol/openid-connect/certs"


def loaded(directory: Path, part: type[Part], document: dict[str, Any]) -> Any:
    path = directory / "part.yaml"
    path.write_text(yaml.safe_dump(document))
    for name in ("jwks.json", "token", "secret", "ca.pem"):
        (directory / name).write_text(f"{name}\n")
    return load(path, part)


def listener(directory: Path, **changes: Any) -> ListenerConfig:
    """A listener with OAUTHBEARER; changes without the keys' prefix, None takes a key away, __ is a dot."""
    oauthbearer: dict[str, Any] = {
        "jwks.endpoint.url": URL,
        "expected.issuer": "https://idp.example/realms/streams",
        "expected.audience": "kafka",
    } | {name.replace("__", "."): value for name, value in changes.items()}
    document = {
        "name": "SASL",
        "bind": "127.0.0.1:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["OAUTHBEARER"],
    }
    found = loaded(
        directory,
        ListenerConfig,
        document | {PREFIX + name: value for name, value in oauthbearer.items() if value is not None},
    )
    assert isinstance(found, ListenerConfig)
    return found


def test_the_defaults_are_kafkas(tmp_path: Path) -> None:
    (found,) = listener(tmp_path).oauthbearer()

    assert found == OAuthBearerSettings(
        JwksSettings(url=URL, refresh_ms=3_600_000, retry_backoff_ms=100, retry_backoff_max_ms=10_000),
        JwtPolicy(
            "https://idp.example/realms/streams",
            frozenset({"kafka"}),
            algorithms=frozenset(ALGORITHMS),
            clock_skew_s=30,
            scope_claim="scope",
            names=(NameClaim(ClaimPath("sub", ("sub",))),),
            required_scopes=frozenset(),
            max_bytes=16_384,
        ),
    )


def test_every_key_counts(tmp_path: Path) -> None:
    (found,) = listener(
        tmp_path,
        jwks__endpoint__url="file:jwks.json",
        jwks__endpoint__refresh__ms=1_000,
        jwks__endpoint__retry__backoff__ms=10,
        jwks__endpoint__retry__backoff__max__ms=20,
        jwks__endpoint__ca="ca.pem",
        expected__issuer="",
        expected__audience=["a", "b"],
        required__scope="read, write",
        scope__claim__name="scp",
        sub__claim__name=["client_id", "/a/b"],
        sub__claim__prefixes={"/a/b": "x-"},
        clock__skew__seconds=0,
        allowed__algorithms="ES256,EdDSA",
        token__max__bytes=4_096,
        groups__claim="/realm_access/roles",
        groups__separator=",",
        groups__prefix="idp:",
    ).oauthbearer()

    assert found == OAuthBearerSettings(
        JwksSettings(
            url=f"file:{tmp_path / 'jwks.json'}",
            refresh_ms=1_000,
            retry_backoff_ms=10,
            retry_backoff_max_ms=20,
            ca=tmp_path / "ca.pem",
        ),
        JwtPolicy(
            None,
            frozenset({"a", "b"}),
            frozenset({"ES256", "EdDSA"}),
            0,
            "scp",
            (
                NameClaim(ClaimPath("client_id", ("client_id",))),
                NameClaim(ClaimPath("/a/b", ("a", "b")), "x-"),
            ),
            frozenset({"read", "write"}),
            4_096,
            GroupsClaim(ClaimPath("/realm_access/roles", ("realm_access", "roles")), ",", "idp:"),
        ),
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"jwks__endpoint__url": None}, "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url"),
        ({"expected__issuer": None}, "needs sasl.oauthbearer.expected.issuer; set it to empty"),
        ({"expected__audience": None}, "needs sasl.oauthbearer.expected.audience; set it to empty"),
        (
            {"jwks__endpoint__url": "http://idp.example/certs"},
            "sasl.oauthbearer.jwks.endpoint.url: .*http://",
        ),
        ({"jwks__endpoint__url": "ftp://idp.example/certs"}, "expected https"),
        ({"jwks__endpoint__url": "idp.example/certs"}, "expected https"),
        ({"jwks__endpoint__url": "https:///certs"}, "expected https"),
        (
            {"jwks__endpoint__url": "https://me:secret@idp.example/"},
            "must not contain a user name or password",
        ),
        ({"jwks__endpoint__url": "https://idp.example:port/"}, "jwks.endpoint.url"),
        ({"jwks__endpoint__url": "file:missing.json"}, "no such file"),
        ({"jwks__endpoint__url": "file://elsewhere/jwks.json"}, "host 'elsewhere'"),
        ({"jwks__endpoint__refresh__ms": 0}, "jwks.endpoint.refresh.ms"),
        ({"jwks__endpoint__ca": "missing.pem"}, "jwks.endpoint.ca: .*no such file"),
        ({"clock__skew__seconds": -1}, "clock.skew.seconds"),
        ({"allowed__algorithms": "none"}, "allowed.algorithms"),
        ({"allowed__algorithms": ["RS256", "HS256"]}, "allowed.algorithms"),
        ({"allowed__algorithms": ""}, "allowed.algorithms"),
        ({"sub__claim__name": ""}, "sub.claim.name"),
        ({"sub__claim__name": []}, "sub.claim.name: the list is empty"),
        ({"sub__claim__name": ["a", "/~"]}, "sub.claim.name.*neither ~0"),
        (
            {"sub__claim__prefixes": {"client_id": "x"}},
            "client_id: not among sasl.oauthbearer.sub.claim.name",
        ),
        ({"sub__claim__prefixes": {"sub": "x\0"}}, "sub.claim.prefixes.*control character"),
        ({"token__max__bytes": 100_000}, "token.max.bytes"),
        ({"groups__claim": ""}, "groups.claim"),
        ({"groups__claim": "/realm~access"}, "groups.claim: .*neither ~0"),
        ({"groups__claim": "a", "groups__prefix": "x\n"}, "groups.prefix: .*control character"),
        ({"groups__prefix": "idp:"}, "no effect without sasl.oauthbearer.groups.claim"),
        ({"groups__separator": ","}, "no effect without sasl.oauthbearer.groups.claim"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        listener(tmp_path, **changes)


@pytest.mark.spec("A9")
def test_a_text_is_one_claim_whatever_it_contains(tmp_path: Path) -> None:
    (name,) = listener(tmp_path, sub__claim__name="https://acme.org/name,id").oauthbearer()[0].policy.names

    assert name.path.names == ("https://acme.org/name,id",)


PROVIDER = {"jwks.endpoint.url": URL, "expected.issuer": "https://a.example", "expected.audience": "kafka"}


def several(directory: Path, **providers: dict[str, Any]) -> ListenerConfig:
    """A listener with these providers, each with changes of PROVIDER."""
    return listener(
        directory,
        jwks__endpoint__url=None,
        expected__issuer=None,
        expected__audience=None,
        providers={name: PROVIDER | changes for name, changes in providers.items()},
    )


@pytest.mark.spec("A9")
def test_each_provider_has_its_own_keys_and_rules(tmp_path: Path) -> None:
    theirs = {
        "jwks.endpoint.url": "file:jwks.json",
        "expected.issuer": "https://b.example",
        "sub.claim.name": ["email", "azp"],
        "sub.claim.prefixes": {"azp": "app-"},
        "groups.claim": "roles",
        "groups.prefix": "b:",
        "token.max.bytes": 4_096,
    }
    ours, partner = several(tmp_path, ours={}, partner=theirs).oauthbearer()

    (alone,) = listener(tmp_path, expected__issuer="https://a.example").oauthbearer()
    assert ours == alone
    assert partner == OAuthBearerSettings(
        JwksSettings(url=f"file:{tmp_path / 'jwks.json'}"),
        JwtPolicy(
            "https://b.example",
            frozenset({"kafka"}),
            names=(NameClaim(ClaimPath("email", ("email",))), NameClaim(ClaimPath("azp", ("azp",)), "app-")),
            max_bytes=4_096,
            groups=GroupsClaim(ClaimPath("roles", ("roles",)), "", "b:"),
        ),
    )


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, "b > expected.issuer: https://a.example is also that of a; each needs its own"),
        ({"expected.issuer": ""}, "b > expected.issuer: is empty, and it chooses the provider of a token"),
        ({"expected.issuer": None}, "b: OAUTHBEARER needs expected.issuer; set it to empty"),
        ({"expected.audience": None}, "b: OAUTHBEARER needs expected.audience"),
        ({"jwks.endpoint.url": None}, "b: OAUTHBEARER needs jwks.endpoint.url"),
        ({"jwks.endpoint.url": "http://b.example"}, "b > jwks.endpoint.url: .*http://"),
        ({"groups.prefix": "x"}, "b: groups.separator and groups.prefix have no effect"),
        ({"sub.claim.prefixes": {"x": "y"}}, "b: sub.claim.prefixes: x: not among sub.claim.name"),
        ({"sasl.oauthbearer.groups.claim": "g"}, "b > sasl.oauthbearer.groups.claim: unknown key"),
    ],
)
def test_what_is_wrong_with_a_provider_is_named(tmp_path: Path, changes: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=f"sasl.oauthbearer.providers > {error}"):
        several(tmp_path, a={}, b=changes)


@pytest.mark.spec("A9")
def test_keys_beside_several_providers_have_no_effect(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.expected\.issuer: no effect beside"):
        listener(tmp_path, jwks__endpoint__url=None, expected__audience=None, providers={"a": PROVIDER})


OTHER = {"expected.issuer": "https://b.example"}


@pytest.mark.spec("A9")
@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ({}, OTHER, ["principals"]),
        ({}, OTHER | {"sub.claim.prefixes": {"sub": "b-"}}, ["principals"]),
        (
            {"sub.claim.prefixes": {"sub": "a-"}},
            OTHER | {"sub.claim.prefixes": {"sub": "b-"}, "groups.claim": "g"},
            [],
        ),
        (
            {"sub.claim.prefixes": {"sub": "a-"}, "groups.claim": "g", "groups.prefix": "x"},
            OTHER | {"sub.claim.prefixes": {"sub": "b-"}, "groups.claim": "g", "groups.prefix": "xy"},
            ["groups"],
        ),
    ],
)
def test_names_that_two_providers_can_make_are_a_doubt(
    tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any], same: list[str]
) -> None:
    found = list(doubts.warns_of_issuers(several(tmp_path, a=ours, b=theirs)))

    assert [location for location, _ in found] == [("sasl.oauthbearer.providers", "b")] * len(same)
    assert [
        f"its tokens can make the same {what} as those of a" in text
        for what, (_, text) in zip(same, found, strict=True)
    ] == [True] * len(same)


@pytest.mark.parametrize("url", ["http://localhost:8080/certs", "http://127.0.0.1/certs", "http://[::1]:1/"])
def test_without_tls_keys_come_from_this_machine_only(tmp_path: Path, url: str) -> None:
    assert listener(tmp_path, jwks__endpoint__url=url).oauthbearer()[0].jwks.url == url


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost"])
def test_a_file_may_be_named_in_each_usual_way(tmp_path: Path, prefix: str) -> None:
    directory = tmp_path / "with blank"
    directory.mkdir()
    (directory / "jwks.json").write_text("{}")
    url = f"{prefix}{str(directory / 'jwks.json').replace(' ', '%20')}"

    assert listener(tmp_path, jwks__endpoint__url=url).oauthbearer()[0].jwks.path == directory / "jwks.json"


def test_keys_that_nothing_would_read_are_refused(tmp_path: Path) -> None:
    document = {
        "name": "SASL",
        "bind": "127.0.0.1:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["PLAIN"],
        "sasl.oauthbearer.expected.issuer": "https://idp.example",
    }
    with pytest.raises(
        ConfigError, match=r"sasl\.oauthbearer\.expected\.issuer: no effect without OAUTHBEARER"
    ):
        loaded(tmp_path, ListenerConfig, document)


def login(directory: Path, **changes: Any) -> Login:
    document = {"mechanism": "OAUTHBEARER"} | {
        name.replace("__", "."): value for name, value in changes.items()
    }
    found = loaded(directory, Login, document)
    assert isinstance(found, Login)
    return found


ENDPOINT = {
    "oauthbearer__token__endpoint__url": "https://idp.example/token",
    "oauthbearer__client__credentials__client__id": "penstock",
    "oauthbearer__client__credentials__client__secret__file": "secret",
}


def test_our_own_token_comes_from_a_file_or_from_an_endpoint(tmp_path: Path) -> None:
    from_file = login(tmp_path, oauthbearer__token__endpoint__url="file:token").sasl_login()
    from_endpoint = login(tmp_path, **ENDPOINT, oauthbearer__scope="kafka").sasl_login()

    assert from_file.tokens == FileToken(tmp_path / "token")
    assert isinstance(from_endpoint.tokens, EndpointToken)
    assert (from_endpoint.mechanism, from_endpoint.username) == ("OAUTHBEARER", "penstock")


def test_tokens_for_users_are_made_by_a_principal_with_a_name(tmp_path: Path) -> None:
    sasl = {"mechanism": "OAUTHBEARER", "oauthbearer.token.endpoint.url": "file:token"}
    upstream: dict[str, Any] = {
        "bootstrap": "localhost:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "identity": "user",
    }
    with pytest.raises(ConfigError, match=r"identity: user needs sasl\.username"):
        loaded(tmp_path, UpstreamConfig, upstream | {"sasl": sasl})

    found = loaded(tmp_path, UpstreamConfig, upstream | {"sasl": sasl | {"username": "penstock"}})
    assert found.sasl.sasl_login().username == "penstock"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, "OAUTHBEARER needs oauthbearer.token.endpoint.url"),
        (
            {"oauthbearer__token__endpoint__url": "https://idp.example/token"},
            "needs oauthbearer.client.credentials.client.id, oauthbearer.client.credentials.client.secret",
        ),
        (
            ENDPOINT | {"oauthbearer__token__endpoint__url": "file:token"},
            "does not use oauthbearer.client.cred",
        ),
        ({"oauthbearer__token__endpoint__url": "file:token", "oauthbearer__scope": "a"}, "oauthbearer.scope"),
        (ENDPOINT | {"password__file": "secret"}, "OAUTHBEARER does not use password.file"),
        (
            {"mechanism": "PLAIN", "username": "a", "password__file": "secret"}
            | {"oauthbearer__token__endpoint__url": "file:token"},
            "PLAIN does not use oauthbearer.token.endpoint.url",
        ),
        ({"mechanism": "PLAIN", "username": "a"}, "PLAIN needs password.file"),
        ({"mechanism": "PLAIN", "password__file": "secret"}, "PLAIN needs username"),
        ({"mechanism": "GSSAPI"}, "mechanism"),
    ],
)
def test_a_login_needs_what_its_mechanism_takes_and_no_more(
    tmp_path: Path, changes: dict[str, Any], error: str
) -> None:
    with pytest.raises(ConfigError, match=error):
        login(tmp_path, **changes)
