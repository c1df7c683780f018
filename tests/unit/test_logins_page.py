"""docs/logins.md: each example is a valid configuration, and makes the principals that the page says."""

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from proxy.config import ListenerConfig, ProxyConfig, doubts, load
from proxy.security.jwk_set import JwkSet
from proxy.security.jwt import Claims, verify
from proxy.security.principal import Principal
from proxy.security.principal_builder import AuthenticationContext
from tests.support.identity_provider import jwks, rsa, token
from tests.support.named_certificates import named, uri

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logins.md"
EXAMPLES = [
    yaml.safe_load(dedent(block))
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
]
FILE = re.compile(r"(tls|secrets)/[\w.-]+|[\w-]+\.(password|keytab)")
TLS = {"certificate": "tls/proxy.pem", "key": "tls/proxy.key"}
NOW_S = 1_700_000_000

pytestmark = pytest.mark.spec("O5", "A9")


def files_of(value: object) -> list[str]:
    """The files that an example names."""
    if isinstance(value, str):
        return [value] if FILE.fullmatch(value) else []
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for each in below for name in files_of(each)]


def document(example: dict[str, Any]) -> dict[str, Any]:
    """An example as a whole file: what it leaves out has the simplest value."""
    if all(key.startswith(("sasl.", "ssl")) for key in example):
        example = {"listeners": [example]}
    example = {"listeners": [{"security.protocol": "PLAINTEXT"}]} | example
    listeners = []
    for place, listener in enumerate(example["listeners"]):
        filled = {"name": f"L{place}", "bind": f"127.0.0.1:{9000 + place}"} | listener
        if any(key.startswith("sasl.oauthbearer") for key in listener):
            oauthbearer: dict[str, Any] = {"sasl.enabled.mechanisms": ["OAUTHBEARER"]}
            if "sasl.oauthbearer.providers" not in listener:
                oauthbearer |= {
                    "sasl.oauthbearer.jwks.endpoint.url": "https://idp.example/keys",
                    "sasl.oauthbearer.expected.issuer": "https://idp.example",
                    "sasl.oauthbearer.expected.audience": "kafka",
                }
            filled = oauthbearer | {"ssl": TLS} | filled
        elif "ssl" in listener and "sasl.enabled.mechanisms" not in listener:
            trusted = {"client.auth": "required", "ca": "tls/clients-ca.pem"}
            filled = {"security.protocol": "SSL"} | filled | {"ssl": TLS | trusted | listener["ssl"]}
        listeners.append(filled)
    whole = {
        "proxy.id": "proxy-1",
        "upstream": {"bootstrap": "broker-1:9092"},
        "controller": {"endpoints": ["controller-1:9094"]},
        "audit": {"spool.dir": "spool"},
        "authorizer": {"class.name": ""},
    }
    return whole | example | {"listeners": listeners}


def loaded(directory: Path, example: dict[str, Any]) -> ProxyConfig:
    whole = document(example)
    for name in files_of(whole):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("secret")
    (directory / "proxy.yaml").write_text(yaml.safe_dump(whole, sort_keys=False))
    return load(directory / "proxy.yaml", ProxyConfig)


def the_listener(directory: Path, *keys: str, name: str | None = None) -> ListenerConfig:
    """The first listener, or that of the name, of the one example that contains these words."""
    (example,) = [each for each in EXAMPLES if all(key in str(each) for key in keys)]
    return next(each for each in loaded(directory, example).listeners if name in (None, each.name))


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_each_example_is_valid_and_no_doubt(tmp_path: Path, place: int) -> None:
    config = loaded(tmp_path, EXAMPLES[place])

    assert list(doubts.warns_of_issuers(config)) == []
    assert list(doubts.warns_of_rules(config)) == []
    for listener in config.listeners:
        listener.principal_builder()


def of_token(listener: ListenerConfig, place: int = 0, **claims: Any) -> tuple[str, tuple[str, ...]]:
    policy = listener.oauthbearer()[place].policy
    text = token(NOW_S, iss=policy.issuer, aud=next(iter(policy.audiences)), **claims)
    found = verify(text, JwkSet.parse(jwks(rsa())), policy, NOW_S * 1000)
    assert isinstance(found, Claims), found
    return found.subject, found.groups


def of_certificate(listener: ListenerConfig, certificate: bytes) -> Principal:
    context = AuthenticationContext(
        listener=listener.name, security_protocol="SSL", host="", certificate=certificate
    )
    return listener.principal_builder().build(context)


@pytest.mark.spec("A8")
def test_the_strimzi_like_listener_names_users_service_accounts_and_groups(tmp_path: Path) -> None:
    listener = the_listener(tmp_path, "client-account-", name="OAUTH")

    assert of_token(listener, preferred_username="ana", realm_access={"roles": ["ops"]}) == ("ana", ("ops",))
    assert of_token(listener, client_id="orders") == ("client-account-orders", ())
    assert listener.max_reauth_ms("OAUTHBEARER", 0) == 3_600_000


@pytest.mark.spec("A8")
def test_several_providers_name_their_users_apart(tmp_path: Path) -> None:
    listener = the_listener(tmp_path, "sasl.oauthbearer.providers")

    ours = of_token(listener, 0, preferred_username="ana", realm_access={"roles": ["ops"]})
    assert ours == ("staff-ana", ("staff:ops",))
    assert of_token(listener, 1, azp="orders", roles=["ops"]) == ("app-orders", ("partner:ops",))
    assert of_token(listener, 1, sub="ana") == ("partner-ana", ())


@pytest.mark.spec("A8")
def test_the_msk_like_listener_names_clients_by_the_private_cas_certificates(tmp_path: Path) -> None:
    listener = the_listener(tmp_path, "private-ca")

    found = of_certificate(listener, named("alice", units=["data"]))
    assert (str(found), found.groups) == ("User:CN=alice,OU=data", ("data",))


def test_the_spiffe_listener_names_clients_by_namespace_and_account(tmp_path: Path) -> None:
    listener = the_listener(tmp_path, "principal.san.mapping.rules")

    certificate = named(None, [uri("spiffe://acme.org/ns/payments/sa/api")])
    assert str(of_certificate(listener, certificate)) == "User:payments.api"


@pytest.mark.spec("A8")
def test_groups_are_units_and_namespaces(tmp_path: Path) -> None:
    listener = the_listener(tmp_path, "principal.groups.from", "SAN:URI")

    certificate = named("alice", [uri("spiffe://acme.org/ns/payments/sa/api")], ["data"])
    assert of_certificate(listener, certificate).groups == ("data", "payments")
