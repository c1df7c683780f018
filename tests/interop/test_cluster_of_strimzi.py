"""The configuration of docs/logins.md for a cluster of Strimzi, with the identities that its operators make.

The User Operator (strimzi-kafka-operator: InternalCa, KafkaUserModel, KafkaBrokerConfigurationBuilder) has
the clients' CA sign `CN=NAME` for a user, gives it a PKCS #12 store, and sets ACLs and SCRAM-SHA-512
credentials over a connection with a certificate of the cluster's CA, which has `O=io.strimzi` and is a super
user's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from proxy.net.runtime.clock import now_ms
from tests.interop.test_mutual_tls import delivered
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.support.cluster_admin import admin, done, error_name
from tests.support.documented_listeners import documented, run_with, with_files
from tests.support.identity_provider import jwks, rsa, token
from tests.support.named_authority import Named, NamedAuthority

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.slow, pytest.mark.long),
    pytest.mark.spec("A8", "A9", "R2", "R8", "R9"),
]

TOPIC = "orders"
JWKS_URL = "https://idp.example/realms/streams/protocol/openid-connect/certs"
USER_OPERATOR, TOPIC_OPERATOR = "my-cluster-entity-user-operator", "my-cluster-entity-topic-operator"


@dataclass(frozen=True, slots=True)
class Strimzi:
    stack: Stack
    addresses: dict[str, str]
    cluster_ca: NamedAuthority
    clients_ca: NamedAuthority

    @property
    def server_ca(self) -> Path:
        return self.stack.tls.ca

    def tools(self, certificate: Named) -> KafkaTools:
        return KafkaTools(self.stack.libs, self.addresses["TLS"], certificate.java(self.server_ca))

    def by_certificate(self, certificate: Named) -> dict[str, str]:
        return certificate.librdkafka(self.addresses["TLS"], self.server_ca)

    def by_password(self, name: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.addresses["SCRAM"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.server_ca),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
        }

    def by_token(self, **claims: Any) -> dict[str, object]:
        text = token(sub="11111111-2222-3333-4444-555555555555", **claims)
        return {
            "bootstrap.servers": self.addresses["OAUTH"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.server_ca),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _config: (text, now_ms() / 1000 + 300),
        }


@pytest.fixture(scope="module")
def strimzi(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strimzi]:
    directory = tmp_path_factory.mktemp("strimzi")
    cluster_ca = NamedAuthority(directory / "ca", "CN=cluster-ca v0,O=io.strimzi")
    clients_ca = NamedAuthority(directory / "ca", "CN=clients-ca v0,O=io.strimzi")
    both, keys = directory / "both.pem", directory / "jwks.json"
    both.write_bytes(clients_ca.ca.read_bytes() + cluster_ca.ca.read_bytes())
    keys.write_bytes(jwks(rsa()))
    stack = Stack(StackSettings(directory=directory / "stack", libs=kafka_libs))
    files = {
        "tls/proxy.pem": str(stack.tls.certificate),
        "tls/proxy.key": str(stack.tls.key),
        "tls/both-cas.pem": str(both),
        JWKS_URL: f"file:{keys}",
    }
    addresses = run_with(stack, with_files(documented("### A cluster of Strimzi"), files))
    with stack.running():
        yield Strimzi(stack, addresses, cluster_ca, clients_ca)


def test_users_of_the_operators_have_the_names_and_rights_that_these_have_given_them(
    strimzi: Strimzi,
) -> None:
    user_operator = strimzi.tools(strimzi.cluster_ca.issue(f"CN={USER_OPERATOR},O=io.strimzi"))
    topic_operator = strimzi.cluster_ca.issue(f"CN={TOPIC_OPERATOR},O=io.strimzi")
    topics = admin.AdminClient(strimzi.by_certificate(topic_operator))
    done(topics.create_topics([admin.NewTopic(TOPIC, num_partitions=1, replication_factor=1)]))
    orders, other = (strimzi.clients_ca.issue(f"CN={name}") for name in ("orders", "other"))

    password = "SCRAM-SHA-512=[iterations=4096,password=of-reports]"
    entity = ("--entity-type", "users", "--entity-name", "reports")
    named = "User:CN=orders", "User:reports", "User:client-account-billing", "Group:ops"
    rights = [word for each in named for word in ("--allow-principal", each)]
    for operation in ("Write", "Describe", "DescribeConfigs"):
        rights += ["--operation", operation]
    runs = [
        user_operator.run("kafka-configs", "--alter", *entity, "--add-config", password),
        user_operator.run("kafka-acls", "--add", *rights, "--topic", TOPIC),
    ]
    assert [run.returncode for run in runs] == [0, 0], runs

    denied = "TOPIC_AUTHORIZATION_FAILED"
    outcomes = {
        "a user's certificate": delivered(strimzi.by_certificate(orders), TOPIC),
        "that of another user": delivered(strimzi.by_certificate(other), TOPIC),
        "a user's password": delivered(strimzi.by_password("reports", "of-reports"), TOPIC),
        "a person of the group": delivered(
            strimzi.by_token(preferred_username="ana", realm_access={"roles": ["staff", "ops"]}), TOPIC
        ),
        "another person": delivered(
            strimzi.by_token(preferred_username="bob", realm_access={"roles": ["staff"]}), TOPIC
        ),
        "a service account": delivered(strimzi.by_token(client_id="billing"), TOPIC),
        "a person with its name": delivered(strimzi.by_token(preferred_username="billing"), TOPIC),
    }
    assert outcomes == {
        "a user's certificate": None,
        "that of another user": denied,
        "a user's password": None,
        "a person of the group": None,
        "another person": denied,
        "a service account": None,
        "a person with its name": denied,
    }  # fmt: skip
    described = strimzi.tools(orders).run("kafka-topics", "--describe", "--topic", TOPIC)
    assert f"Topic: {TOPIC}" in described.stdout, described.said


def test_a_user_with_the_name_of_an_operator_is_no_operator(strimzi: Strimzi) -> None:
    user = strimzi.clients_ca.issue(f"CN={USER_OPERATOR}")
    topics = admin.AdminClient(strimzi.by_certificate(user))

    with pytest.raises(admin.KafkaException) as failure:
        done(topics.create_topics([admin.NewTopic("mine", num_partitions=1, replication_factor=1)]))

    assert error_name(failure.value) == "TOPIC_AUTHORIZATION_FAILED"


def test_the_clients_ca_of_another_cluster_is_a_stranger(strimzi: Strimzi, tmp_path: Path) -> None:
    strangers = NamedAuthority(tmp_path, "CN=clients-ca v0,O=io.strimzi")
    login = strimzi.by_certificate(strangers.issue("CN=orders"))

    assert delivered(login | {"message.timeout.ms": "3000"}, TOPIC) == "_MSG_TIMED_OUT"
