"""Certificates on all three sides of a proxy: its clients', its own at the broker, its own at the controller.

Broker and controller let nobody in without one. All are replaced while clients are at work.
"""

import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, Producer
from cryptography import x509

from proxy.net.runtime.clock import now_ms
from tests.lab.clients.session_trail import Trail
from tests.lab.cluster import probe
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.run import run
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import User
from tests.support.cluster_admin import TIMEOUT_S, ClusterAdmin
from tests.support.office_certificates import Issued, OfficeCertificates
from tests.support.promlint import problems
from tests.support.steady_clients import SteadyClients
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LISTENER = "MUTUAL"
RULES = "RULE:^CN=(service-[^,]*),.*$/$1/,DEFAULT"
AT_THE_BROKER, AT_THE_CONTROLLER = "proxy-at-the-broker", "proxy-at-the-controller"
RENEWED = "-renewed"


@dataclass(frozen=True, slots=True)
class Office:
    stack: Stack
    certificates: OfficeCertificates
    address: str
    """The proxy's listener that wants certificates."""

    def member(self, common_name: str) -> dict[str, Any]:
        """How a client of librdkafka connects who has that certificate."""
        issued = self.certificates.issue(common_name, common_name)
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.certificates.ca),
            "ssl.certificate.location": str(issued.certificate),
            "ssl.key.location": str(issued.key),
        }

    def tools(self, common_name: str) -> KafkaTools:
        """Kafka's tools with that certificate."""
        issued = self.certificates.issue(common_name, common_name)
        properties = issued.certificate.with_suffix(".properties")
        properties.write_text(
            "security.protocol=SSL\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.certificates.ca}\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={issued.key_store}\n"
        )
        return KafkaTools(self.stack.libs, self.address, properties)

    def certificate_at(self, address: str) -> int:
        """The serial number of the one that a server there shows to a new connection."""
        member = self.certificates.issue("onlooker", "onlooker")
        context = ssl.create_default_context(cafile=str(self.certificates.ca))
        context.load_cert_chain(member.certificate, member.key)
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as raw,
            context.wrap_socket(raw, server_hostname=host) as secure,
        ):
            shown = secure.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


def serial(issued: Issued) -> int:
    return x509.load_pem_x509_certificate(issued.certificate.read_bytes()).serial_number


def subject(common_name: str) -> str:
    """As brokers and our own listeners write it."""
    return f"CN={common_name},OU=office,O=acme"


def bearer(name: str) -> User:
    """For ACLs; the password is nobody's."""
    return User(name, "", "")


@pytest.fixture(scope="module")
def office(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    directory = tmp_path_factory.mktemp("office")
    certificates = OfficeCertificates(directory / "certificates")
    properties = {
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        # Topics are open to all but those with ACLs of the broker's own: they tell who the proxy is there.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    stack = Stack(
        StackSettings(
            directory=directory / "stack",
            libs=kafka_libs,
            broker_properties=properties,
            broker_certificate=certificates.issue("broker").key_store,
        )
    )
    (address,) = free_addresses(1)
    _secure_proxy(stack, certificates, address)
    _secure_controller(stack, certificates)
    with stack.running():
        yield Office(stack, certificates, address)


def _server(certificates: OfficeCertificates, name: str) -> dict[str, str]:
    issued = certificates.issue(name)
    pair = {"certificate": str(issued.certificate), "key": str(issued.key)}
    return pair | {"client.auth": "required", "ca": str(certificates.ca)}


def _peer(certificates: OfficeCertificates, name: str) -> dict[str, Any]:
    issued = certificates.issue(name, name)
    pair = {"certificate": str(issued.certificate), "key": str(issued.key)}
    return {"security.protocol": "SSL", "ssl": pair | {"ca": str(certificates.ca)}}


def _secure_proxy(stack: Stack, certificates: OfficeCertificates, address: str) -> None:
    document = yaml.safe_load(stack.proxy_file.read_text())
    tls = _server(certificates, "listener") | {"principal.mapping.rules": RULES}
    document["listeners"].append({"name": LISTENER, "bind": address, "security.protocol": "SSL", "ssl": tls})
    document["upstream"] = {"bootstrap": stack.broker.ssl} | _peer(certificates, AT_THE_BROKER)
    document["controller"] = {"endpoints": [stack.wiring.controller]} | _peer(certificates, AT_THE_CONTROLLER)
    stack.proxy_file.write_text(yaml.safe_dump(document))


def _secure_controller(stack: Stack, certificates: OfficeCertificates) -> None:
    document = yaml.safe_load(stack.controller_file.read_text())
    document["listener"] = {
        "name": "CONTROLLER",
        "bind": stack.wiring.controller,
        "security.protocol": "SSL",
        "ssl": _server(certificates, "controller"),
    }
    proxies = [f"User:{subject(AT_THE_CONTROLLER + ending)}" for ending in ("", RENEWED)]
    document["authorizer"]["super.users"] = ";".join(["User:admin", *proxies])
    stack.controller_file.write_text(yaml.safe_dump(document))


@pytest.mark.long
@pytest.mark.spec("R9", "O3", "O5")
def test_files_with_certificates_everywhere_pass_the_check(office: Office) -> None:
    for file in (office.stack.proxy_file, office.stack.controller_file):
        command = [sys.executable, "-m", "proxy", "check", "-c", str(file)]
        done = run(command, timeout_ms=60_000, directory=office.stack.checkout)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spec("R8", "R9", "O3", "S8")
def test_java_and_librdkafka_are_who_their_certificates_say(office: Office) -> None:
    cluster = ClusterAdmin(office.stack)
    open_to_both, closed = cluster.topic("open-to-both"), cluster.topic("closed")
    for name in ("service-billing", subject("carol")):
        cluster.allow(bearer(name), "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS", topic=open_to_both)

    billing = office.tools("service-billing").run("kafka-topics", "--describe", "--topic", open_to_both)
    stranger = office.tools("dave").run("kafka-topics", "--list")
    assert f"Topic: {open_to_both}" in billing.stdout, billing.said
    assert stranger.stdout.strip() == "", stranger.said

    assert delivered(office.member("carol"), open_to_both) is None
    assert delivered(office.member("carol"), closed) == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.spec("R9", "O3")
def test_nobody_gets_in_without_a_certificate(office: Office) -> None:
    servers = (office.address, office.stack.broker.ssl, office.stack.wiring.controller)
    context = ssl.create_default_context(cafile=str(office.certificates.ca))
    for address in servers:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            answered(address, context)


def answered(address: str, context: ssl.SSLContext) -> bytes:
    """Under TLS 1.3 a client learns that it is turned away only behind its own handshake."""
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as raw,
        context.wrap_socket(raw, server_hostname=host) as secure,
    ):
        secure.sendall(b"\0\0\0\0")
        answer = secure.recv(1)
    if not answer:
        raise ConnectionError(f"{address} has closed")
    return answer


def delivered(login: dict[str, Any], topic: str) -> str | None:
    """The name of the error that one record came back with; None when it was taken."""
    told: list[KafkaError | None] = []
    producer = Producer({"message.timeout.ms": 30_000} | login)
    producer.produce(topic, b"one", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(TIMEOUT_S * 2) == 0
    (error,) = told
    return None if error is None else error.name()


def dropped(office: Office) -> dict[str, float]:
    """Connections that ended: those that the proxy cut here, and those of proxies at the controller."""
    proxy = {
        name: count
        for name, count in office.stack.metrics().items()
        # Clients of these tests come and go; one that goes too early is in trouble itself.
        if name.startswith("penstock_connections_closed_total")
        and LISTENER in name
        and "client_closed" not in name
    }
    controller = probe.series(office.stack.wiring.controller_http)
    return proxy | {name: count for name, count in controller.items() if "connections_closed_total" in name}


def expiries(office: Office) -> dict[str, float]:
    """By file, of what the proxy has loaded."""
    name = "penstock_certificate_expiry_timestamp_seconds{file="
    found = {series: value for series, value in office.stack.metrics().items() if series.startswith(name)}
    return {series.removeprefix(name).strip('"}'): value for series, value in found.items()}


@pytest.mark.spec("O12")
def test_clients_requests_and_certificates_are_seen_in_metrics_that_prometheus_finds_good(
    office: Office,
) -> None:
    cluster = ClusterAdmin(office.stack)
    topic = cluster.topic("timed")
    login = office.member("service-timed")
    cluster.allow_consume(bearer("service-timed"), topic, topic)
    denied = "TOPIC_AUTHORIZATION_FAILED"
    assert delivered(login, topic) == denied
    cluster.allow_produce(bearer("service-timed"), topic)
    load = SteadyClients(login, topic, group=topic)
    with load.at_work():
        load.wait_for_progress()

    found = office.stack.metrics()
    labels = f'api="{{}}",listener="{LISTENER}"'
    for name in ("penstock_request_duration_seconds", "penstock_upstream_request_duration_seconds"):
        for api in ("Produce", "Fetch", "Metadata"):
            assert found[f"{name}_count{{{labels.format(api)}}}"] > 0, (name, api)
    # An administrator's requests are answered here, or by the controller.
    assert any("CreateTopics" in series for series in found if series.startswith("penstock_request_duration"))
    assert not any("CreateTopics" in s for s in found if s.startswith("penstock_upstream_request_duration"))
    errors = {series for series in found if series.startswith("penstock_request_errors_total{")}
    assert any(denied in series and 'api="Produce"' in series for series in errors), errors

    used = {"listener", AT_THE_BROKER, AT_THE_CONTROLLER}
    files = expiries(office)
    assert {name for name in used if not any(f"/{name}." in file for file in files)} == set()
    assert all(now_ms() / 1000 < moment for moment in files.values())
    for address in (office.stack.wiring.proxy_http, office.stack.wiring.controller_http):
        assert problems(probe.get(address, "/metrics")[1]) == []


def reloads(office: Office) -> float:
    series = 'penstock_file_reloads_total{file_kind="certificate",outcome="loaded"}'
    return office.stack.metrics().get(series, 0.0)


@pytest.mark.spec("O3", "R9")
def test_all_certificates_are_replaced_under_load_and_no_connection_ends(office: Office) -> None:
    stack, issue = office.stack, office.certificates.issue
    cluster = ClusterAdmin(stack)
    busy, reserved = cluster.topic("busy"), cluster.topic("reserved")
    for topic in (busy, reserved):
        cluster.allow_produce(bearer("service-busy"), topic)
    cluster.allow_consume(bearer("service-busy"), busy, busy)
    # At the broker itself that topic is only for the proxy's next name.
    at_the_broker = ClusterAdmin(stack, broker=stack.broker.plaintext)
    at_the_broker.allow(bearer(subject(AT_THE_BROKER + RENEWED)), "ALL", topic=reserved)
    login = office.member("service-busy")
    load = SteadyClients(login, busy, group=busy)
    with load.at_work():
        assert delivered(login, reserved) == "TOPIC_AUTHORIZATION_FAILED"
        before, loaded = dropped(office), reloads(office)

        listener, controller = issue("listener"), issue("controller")
        issue(AT_THE_BROKER, AT_THE_BROKER + RENEWED)
        issue(AT_THE_CONTROLLER, AT_THE_CONTROLLER + RENEWED)
        # Of the listener and of the two connections of its own: a certificate and a key each.
        until(lambda: reloads(office) >= loaded + 3)
        after = dropped(office)
        until(lambda: office.certificate_at(office.address) == serial(listener))
        until(lambda: office.certificate_at(stack.wiring.controller) == serial(controller))
        until(lambda: delivered(login, reserved) is None)
        cluster.topic("made-meanwhile")

    assert after == before
    assert (load.trouble, load.refused) == ([], [])
    assert sorted(load.acknowledged) == sorted(load.read) == list(range(load.sent))

    # A new connection to the controller bears the new certificate.
    assert stack.controller.stop()
    stack.start_controller()
    cluster.topic("made-by-the-renewed")
    trail, principals = Trail(stack, "controller"), set[str]()
    for _ in range(40):
        trail.read()
        made = [fact for fact in trail.facts if "made-by-the-renewed" in str(fact)]
        principals = {fact["forwarding_principal"] for fact in made} - {None}
        if principals:
            break
    trail.close()
    assert principals == {f"User:{subject(AT_THE_CONTROLLER + RENEWED)}"}
