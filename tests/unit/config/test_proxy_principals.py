"""Whom a proxy takes for a proxy: itself, as it logs in at the controller, and those that its file names."""

from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_client import CollectorRegistry

from proxy.app.gate_setup import own_topics
from proxy.commands.check import check
from proxy.config import ProxyConfig, load
from proxy.config.proxy_principals import proxy_principals
from proxy.net.kafka.channel import EndpointSettings
from proxy.security.protected import OwnResources
from tests.unit.config.test_proxy_config import document, listener, written

pytestmark = pytest.mark.spec("E10", "O5")

NOWHERE = EndpointSettings(host="127.0.0.1", port=1)


def found(directory: Path, **changes: Any) -> set[str]:
    (directory / "pw").write_text("secret\n")
    return set(proxy_principals(load(written(directory, document(**changes)), ProxyConfig)))


def controller(**changes: Any) -> dict[str, Any]:
    return {"endpoints": ["127.0.0.1:19093"]} | changes


def test_without_logins_nobody_is_taken_for_a_proxy(tmp_path: Path) -> None:
    assert found(tmp_path) == set()
    assert found(tmp_path, proxy__principals=["User:ANONYMOUS"]) == set()


def test_it_is_who_logs_in_at_the_controller_and_whom_the_file_names(tmp_path: Path) -> None:
    login = {"mechanism": "PLAIN", "username": "proxy-1", "password.file": "pw"}
    ours = controller(**{"security.protocol": "SASL_PLAINTEXT", "sasl": login})

    names = found(tmp_path, controller=ours, proxy__principals=["User:proxy-2", "User:CN=proxy-3,O=Acme"])

    assert names == {"User:proxy-1", "User:proxy-2", "User:CN=proxy-3,O=Acme"}


def test_with_a_token_it_is_the_client_that_asks_for_it(tmp_path: Path) -> None:
    login = {
        "mechanism": "OAUTHBEARER",
        "oauthbearer.token.endpoint.url": "https://idp.example/token",
        "oauthbearer.client.credentials.client.id": "proxy-9",
        "oauthbearer.client.credentials.client.secret.file": "pw",
    }

    names = found(tmp_path, controller=controller(**{"security.protocol": "SASL_PLAINTEXT", "sasl": login}))

    assert names == {"User:proxy-9"}


def test_with_a_certificate_it_is_its_subject_and_what_listeners_make_of_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", common_name="proxy-1", organization_name="Acme")
    for name, blob in (
        ("cert.pem", issued.cert_chain_pems[0]),
        ("key.pem", issued.private_key_pem),
        ("ca.pem", authority.cert_pem),
    ):
        blob.write_to_path(tmp_path / name)
    pair = {"certificate": "cert.pem", "key": "key.pem"}
    mutual = listener(
        name="SSL",
        security__protocol="SSL",
        sasl__enabled__mechanisms=None,
        ssl=pair
        | {
            "ca": "ca.pem",
            "client.auth": "required",
            "principal.mapping.rules": "RULE:^.*CN=([a-z0-9-]+).*$/$1/",
        },
    )
    ours = controller(**{"security.protocol": "SSL", "ssl": {"ca": "ca.pem", **pair}})

    names = found(tmp_path, listeners=[mutual], users__file=None, controller=ours)

    assert "User:proxy-1" in names
    (whole,) = names - {"User:proxy-1"}
    assert whole.startswith("User:CN=proxy-1")
    assert "O=Acme" in whole


def test_a_principal_without_a_type_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    problems = check(written(tmp_path, document(proxy__principals=["proxy-2"])))

    assert len(problems) == 1
    assert "proxy.principals" in problems[0]
    assert "type:name" in problems[0]


@pytest.mark.spec("A7")
def test_the_names_of_the_controllers_are_known_without_being_told_and_can_be_told(tmp_path: Path) -> None:
    def own(**changes: Any) -> OwnResources:
        return load(written(tmp_path, document(**changes)), ProxyConfig).own_resources

    shares, witnesses = "__penstock_quota_shares", "__penstock_witnesses"
    assert own() == OwnResources.of(
        "__penstock_metadata", "__penstock_audit", "penstock-controller", shares, witnesses
    )
    other = own(
        metadata={"topic": "log", "transactional.id": "writer"},
        audit={"topic": "trail", "spool.dir": "s"},
        quota={"cluster.topic": "shares"},
    )
    assert other == OwnResources(
        frozenset(("log", "trail", "shares", witnesses, "__penstock_metadata")),
        frozenset(("writer-election",)),
        frozenset(("writer",)),
    )
    kraft = own(controller=controller(mode="kraft"))
    assert kraft == OwnResources(
        frozenset(("__cluster_metadata", "__penstock_audit", shares, witnesses, "__penstock_metadata"))
    )


def test_a_transactional_id_makes_no_sense_with_kafkas_own_controller(tmp_path: Path) -> None:
    content = document(controller=controller(mode="kraft"), metadata={"transactional.id": "writer"})

    (problem,) = check(written(tmp_path, content))

    assert "transactional.id: it has no effect with controller.mode kraft" in problem


@pytest.mark.spec("D3", "S13")
@pytest.mark.parametrize(
    ("changes", "is_first", "watched"),
    [
        ({}, True, {"__penstock_audit"}),
        ({"quota": {"scope": "cluster"}}, True, {"__penstock_audit", "__penstock_quota_shares"}),
        (
            {"controller": controller(mode="kraft"), "audit": {"topic": "trail", "spool.dir": "s"}},
            True,
            {"trail", "__penstock_witnesses"},
        ),
        ({}, False, set()),
    ],
)
def test_a_proxy_watches_the_own_topics_that_it_uses_and_of_several_workers_the_first_one(
    changes: dict[str, Any], is_first: bool, watched: set[str], tmp_path: Path
) -> None:
    config = load(written(tmp_path, document(**changes)), ProxyConfig)
    watch = own_topics(config, NOWHERE, lambda _event: None, CollectorRegistry(), is_first=is_first)

    assert {sample.labels["topic"] for family in watch.collect() for sample in family.samples} == watched
