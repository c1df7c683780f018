"""The configuration of docs/logins.md for Amazon MSK, with identities and a broker as there.

Certificates are of an AWS private CA that is subordinate to another one, with subjects of six parts; ACLs
name the whole subject, and a resource without ACLs is open. The broker takes SCRAM-SHA-512 over TLS only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.test_mutual_tls import delivered
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.support.cluster_admin import ClusterAdmin
from tests.support.documented_listeners import documented, run_with, with_files
from tests.support.named_authority import Named, NamedAuthority
from tests.support.office_certificates import OfficeCertificates

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.slow, pytest.mark.long),
    pytest.mark.spec("A8", "A9", "R8", "R9", "R11"),
]

REST = "O=Example Corp\\, Inc.,L=Berlin,ST=Berlin,C=DE"
ALICE, BOB, CAROL = f"CN=alice,OU=data,{REST}", f"CN=bob,OU=data,{REST}", f"CN=carol,OU=office,{REST}"
BOOTSTRAP = "b-1.example.kafka.eu-central-1.amazonaws.com:9096"
DENIED = "TOPIC_AUTHORIZATION_FAILED"
LIKE_MSK = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    ),
    "listener.name.ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.ssl.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}


@dataclass(frozen=True, slots=True)
class Msk:
    stack: Stack
    addresses: dict[str, str]
    root: NamedAuthority
    private_ca: NamedAuthority

    def login(self, certificate: Named) -> dict[str, str]:
        return certificate.librdkafka(self.addresses["SSL"], self.stack.tls.ca)

    def tools(self, certificate: Named) -> KafkaTools:
        return KafkaTools(self.stack.libs, self.addresses["SSL"], certificate.java(self.stack.tls.ca))


@pytest.fixture(scope="module")
def msk(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Msk]:
    directory = tmp_path_factory.mktemp("msk")
    root = NamedAuthority(directory / "ca", f"CN=root,{REST}")
    private_ca = NamedAuthority(directory / "ca", f"CN=subordinate,OU=streams,{REST}", parent=root)
    of_the_broker = OfficeCertificates(directory / "broker")
    stack = Stack(
        StackSettings(
            directory=directory / "stack",
            libs=kafka_libs,
            broker_properties=dict(LIKE_MSK),
            broker_certificate=of_the_broker.issue("broker").key_store,
        )
    )
    files = {
        "tls/proxy.pem": str(stack.tls.certificate),
        "tls/proxy.key": str(stack.tls.key),
        "tls/private-ca.pem": str(private_ca.ca),
        BOOTSTRAP: stack.broker.ssl,
        "secrets/msk.password": "broker.password",
    }
    configuration = with_files(documented("### Amazon MSK"), files)
    # AWS' brokers have certificates of a CA that every system trusts.
    configuration["upstream"]["ssl"] = {"ca": str(of_the_broker.ca)}
    addresses = run_with(stack, configuration)
    with stack.running():
        yield Msk(stack, addresses, root, private_ca)


def test_what_has_no_acl_is_open_and_acls_name_whole_subjects_and_units(msk: Msk) -> None:
    cluster = ClusterAdmin(msk.stack)
    open_to_all, of_alice, of_data = (cluster.topic(name) for name in ("open", "of-alice", "of-data"))
    user = cluster.user("reports", "SCRAM-SHA-512")
    alice, bob, carol = (msk.private_ca.issue(name) for name in (ALICE, BOB, CAROL))
    reports = {
        "bootstrap.servers": msk.addresses["SASL_SSL"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(msk.stack.tls.ca),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user.name,
        "sasl.password": user.password,
    }
    # As in AWS' guide, by the client itself: the cluster has no ACL yet.
    tools = msk.tools(alice)
    written = "--operation", "Write", "--operation", "Describe"
    runs = [
        tools.run("kafka-acls", "--add", "--allow-principal", f"User:{ALICE}", *written, "--topic", of_alice),
        tools.run("kafka-acls", "--add", "--allow-principal", "Group:data", *written, "--topic", of_data),
    ]
    assert [run.returncode for run in runs] == [0, 0], runs

    logins = {
        "alice": msk.login(alice),
        "bob": msk.login(bob),
        "carol": msk.login(carol),
        "reports": reports,
    }
    outcomes = {
        name: [delivered(login, topic) for topic in (open_to_all, of_alice, of_data)]
        for name, login in logins.items()
    }
    assert outcomes == {
        "alice": [None, None, None],
        "bob": [None, DENIED, None],
        "carol": [None, DENIED, DENIED],
        "reports": [None, DENIED, DENIED],
    }


def test_certificates_of_another_ca_under_the_same_root_are_strangers(msk: Msk, tmp_path: Path) -> None:
    sibling = NamedAuthority(tmp_path, f"CN=subordinate,OU=streams,{REST}", parent=msk.root)
    patient = {"message.timeout.ms": "3000"}

    for authority in (sibling, msk.root):
        assert delivered(msk.login(authority.issue(ALICE)) | patient, "open") == "_MSG_TIMED_OUT"
