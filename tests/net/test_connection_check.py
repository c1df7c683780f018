"""`penstock check --connect` at real brokers and controllers: what works, what does not, and what to do."""

import asyncio
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.versions import TRANSACTIONAL_ID_TAG
from proxy.commands import connection_check
from proxy.commands.check import checked
from proxy.commands.connection_check import Connected, check_connections
from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.net.kafka.channel import Channel
from proxy.net.kafka.own_topics import audit_topic
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import BROKER_AT_CONTROLLER, Broker, BrokerSettings, guard
from tests.lab.cluster.tools import KafkaTools
from tests.support.controllers import (
    a_controller,
    controller_settings,
    made_controller,
    plain_sasl,
    plaintext,
    running,
)
from tests.support.fake_broker import FakeBroker, Request
from tests.support.kafka_fixtures import BROKER_LOGIN
from tests.support.office_certificates import OfficeCertificates
from tests.support.running_provider import RunningProvider

pytestmark = pytest.mark.spec("O5")

SECRET = "secret-of-all"
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> OfficeCertificates:
    return OfficeCertificates(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="module")
def guarded(
    kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, office: OfficeCertificates
) -> Iterator[Broker]:
    """A broker and controller that decide by ACLs. ANONYMOUS, on its PLAINTEXT listener, is a super user."""
    settings = BrokerSettings(
        directory=tmp_path_factory.mktemp("guarded"),
        scram_users={"boss": SECRET, "some": SECRET, "few": SECRET},
        properties=guard(["boss", "proxy-1"], "a token key"),
        certificate=office.issue("broker").key_store,
        controller_users={BROKER_AT_CONTROLLER: SECRET, "proxy-1": SECRET, "none": SECRET},
    )
    with Broker(kafka_libs, settings).running() as broker:
        yield broker


def login(
    directory: Path, user: str, mechanism: str = "SCRAM-SHA-256", secret: str = SECRET
) -> dict[str, Any]:
    """Parts of a peer in the configuration that logs in without TLS."""
    (directory / f"{user}.password").write_text(secret)
    (directory / f"{user}.password").chmod(0o600)
    sasl = {"mechanism": mechanism, "username": user, "password.file": f"{user}.password"}
    return {"security.protocol": "SASL_PLAINTEXT", "sasl": sasl}


def proxy_file(directory: Path, upstream: dict[str, Any], controller: dict[str, Any], **parts: Any) -> Path:
    document = {
        "proxy.id": "proxy-1",
        "listeners": [{"name": "CLIENTS", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
        "upstream": upstream,
        "controller": controller,
        "audit": {"spool.dir": "spool"},
        **parts,
    }
    return written(directory / "proxy.yaml", document)


def controller_file(directory: Path, broker: dict[str, Any], **parts: Any) -> Path:
    listener = {"name": "CONTROLLER", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}
    document = {
        "controller.id": "controller-1",
        "listener": listener,
        "broker": broker,
        "authorizer": {"class.name": "proxy.security.standard.StandardAuthorizer"},
        "audit": {"spool.dir": "spool"},
        **parts,
    }
    return written(directory / "controller.yaml", document)


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def connected(*paths: Path) -> Connected:
    """The results, without the name of the file."""
    configs = []
    for path in paths:
        found = checked(path)
        assert found.config is not None, found.problems
        configs.append((path, found.config))
    results = check_connections(configs)
    return Connected(
        *(
            sorted(
                line.removeprefix(f"{path}: ")
                for path in paths
                for line in lines
                if line.startswith(f"{path}: ")
            )
            for lines in (results.lines, results.warnings, results.problems)
        )
    )


def closed_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def quorum(guarded: Broker, directory: Path, user: str = "proxy-1") -> dict[str, Any]:
    return {"mode": "kraft", "endpoints": [guarded.controller]} | login(directory, user, "PLAIN")


def broker_of(guarded: Broker, directory: Path, user: str = "boss", **changes: Any) -> dict[str, Any]:
    return {"bootstrap": guarded.sasl_plaintext} | login(directory, user) | changes


async def topics(guarded: Broker) -> set[str | None]:
    """All topics of the cluster, internal ones too."""
    async with await Channel.open(plaintext(guarded)) as channel:
        answer = await channel.request(ApiKey.METADATA, 12, types.MetadataRequest(topics=None))
    return {topic.name for topic in answer.topics}


@pytest.mark.kafka
async def test_what_works_has_a_line_each_and_nothing_is_changed(guarded: Broker, tmp_path: Path) -> None:
    before = await topics(guarded)
    path = proxy_file(tmp_path, broker_of(guarded, tmp_path), quorum(guarded, tmp_path))
    controller = controller_file(tmp_path, broker_of(guarded, tmp_path))

    found = await asyncio.to_thread(connected, path, controller)

    assert (found.warnings, found.problems) == ([], [])
    sasl, quorum_at = guarded.sasl_plaintext, guarded.controller
    of_clients = "DESCRIBE, DESCRIBE_CONFIGS, ALTER, IDEMPOTENT_WRITE"
    of_controller = "CREATE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS"
    claim = "rights WRITE on it, and READ on group penstock-controller-election"
    creatable = "does not exist yet, and may be created"
    assert found.lines == sorted(
        [
            f"upstream > bootstrap {sasl}: ok: connected, logged in with SCRAM-SHA-256 as boss",
            f"upstream > bootstrap {sasl}: ok: rights {of_clients} on the cluster",
            f"audit > topic __penstock_audit: ok: {creatable}",
            f"audit > witnesses.topic __penstock_witnesses: ok: {creatable}",
            f"controller > endpoints {quorum_at}: ok: connected, logged in with PLAIN as proxy-1",
            f"controller > endpoints {quorum_at}: ok: may follow the log and forward; the leader is node 1",
            f"broker > bootstrap {sasl}: ok: connected, logged in with SCRAM-SHA-256 as boss",
            f"broker > bootstrap {sasl}: ok: rights {of_controller} on the cluster",
            f"audit > topic __penstock_audit: ok: {creatable}",
            f"metadata > topic __penstock_metadata: ok: {creatable}",
            f"metadata > transactional.id penstock-controller: ok: {claim}",
        ]
    )
    assert await topics(guarded) == before
    assert not (tmp_path / "spool").exists()


@pytest.mark.kafka
async def test_the_rights_of_clients_requests_are_asked_for_at_the_broker_with_the_node_id(
    guarded: Broker, tmp_path: Path
) -> None:
    upstream = {"internal.bootstrap": guarded.sasl_plaintext, "node.id": 1} | login(tmp_path, "boss")
    path = proxy_file(tmp_path, upstream, quorum(guarded, tmp_path))

    found = await asyncio.to_thread(connected, path)

    at = guarded.sasl_plaintext
    assert (found.warnings, found.problems) == ([], [])
    assert [line for line in found.lines if line.startswith("upstream")] == [
        f"upstream > internal.bootstrap {at}: ok: connected, logged in with SCRAM-SHA-256 as boss",
        f"upstream > node.id 1 at {at}: ok: connected, logged in with SCRAM-SHA-256 as boss",
        f"upstream > node.id 1 at {at}: ok: rights DESCRIBE, DESCRIBE_CONFIGS, ALTER, IDEMPOTENT_WRITE on the"
        " cluster",
    ]


def advised(problem: str) -> list[str]:
    """The arguments of the command that a line says to run."""
    command = problem.partition("run there: kafka-acls ")[2]
    assert command, problem
    return command.partition(", or make it")[0].split()


@pytest.mark.kafka
def test_what_it_advises_is_enough(guarded: Broker, kafka_libs: Path, tmp_path: Path) -> None:
    """For a login without any right: each line that says so has the command that makes it ok."""
    upstream = broker_of(guarded, tmp_path, "some")
    scope = {"quota": {"scope": "cluster"}}
    paths = (
        proxy_file(tmp_path, upstream, quorum(guarded, tmp_path, "none"), **scope),
        controller_file(tmp_path, upstream),
    )
    tools, given = KafkaTools(kafka_libs, guarded.plaintext), set[str]()

    first = connected(*paths)
    while wrong := [*(found := connected(*paths)).problems, *found.warnings]:
        commands = {" ".join(advised(line)) for line in wrong}
        assert not commands & given, "this was not enough"
        given |= commands
        for command in sorted(commands):
            assert tools.run("kafka-acls", *command.split()).returncode == 0

    group = "--operation Describe --operation Read --group penstock-controller-election"
    assert f"--add --allow-principal User:some {group}" in given, "asked once there is the right before it"
    assert {line.partition(": ")[0] for line in first.problems} == {
        "audit > topic __penstock_audit",
        "audit > witnesses.topic __penstock_witnesses",
        "quota.cluster.topic __penstock_quota_shares",
        f"controller > endpoints {guarded.controller}",
        "metadata > topic __penstock_metadata",
        "metadata > transactional.id penstock-controller",
    }
    assert {line.partition(": ")[0] for line in first.warnings} == {
        f"upstream > bootstrap {guarded.sasl_plaintext}",
        f"broker > bootstrap {guarded.sasl_plaintext}",
    }
    assert f"controller > endpoints {guarded.controller}: Fetch: CLUSTER_AUTHORIZATION_FAILED" in "".join(
        first.problems
    )


@pytest.mark.kafka
async def test_rights_on_a_topic_that_exists_are_those_of_the_login(
    guarded: Broker, tmp_path: Path, topic_name: str
) -> None:
    async with await Channel.open(plaintext(guarded)) as channel:
        for name in (f"{topic_name}-audit", f"{topic_name}-log"):
            await channel.request(ApiKey.CREATE_TOPICS, 7, audit_topic(name).creation(-1, {}))
        acls = [(f"{topic_name}-audit", Operation.WRITE), (f"{topic_name}-log", Operation.DESCRIBE)]
        creation = types.CreateAclsRequest.AclCreation
        await channel.request(
            ApiKey.CREATE_ACLS,
            3,
            types.CreateAclsRequest(
                creations=[
                    creation(
                        resource_type=ResourceType.TOPIC,
                        resource_name=name,
                        resource_pattern_type=PatternType.LITERAL,
                        principal="User:few",
                        host="*",
                        operation=operation,
                        permission_type=PermissionType.ALLOW,
                    )
                    for name, operation in acls
                ]
            ),
        )
    parts = {
        "audit": {"topic": f"{topic_name}-audit", "spool.dir": "spool"},
        "metadata": {"topic": f"{topic_name}-log"},
    }
    upstream = broker_of(guarded, tmp_path, "few")
    async with a_controller(plaintext(guarded), f"{topic_name}-other") as controller:
        path = proxy_file(tmp_path, upstream, {"endpoints": [controller.endpoint.address]}, **parts)
        found = await asyncio.to_thread(connected, path)

    add = "kafka-acls --add --allow-principal User:few"
    assert f"audit > topic {topic_name}-audit: ok: exists, with the rights DESCRIBE, WRITE" in found.lines
    assert found.warnings[0] == (
        f"audit > topic {topic_name}-audit: its settings cannot be watched: User:few lacks DESCRIBE_CONFIGS,"
        f" ALTER_CONFIGS; run there: {add} --operation DescribeConfigs --operation AlterConfigs --topic"
        f" {topic_name}-audit"
    )
    assert found.problems == [
        f"metadata > topic {topic_name}-log: User:few lacks READ; run there: {add} --operation Read --topic"
        f" {topic_name}-log"
    ]


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("listener", "peer", "problem"),
    [
        (
            "sasl_plaintext",
            {"sasl": {"password.file": "wrong.password"}},
            "SCRAM-SHA-256 login as boss: SASL_AUTHENTICATION_FAILED: Authentication failed during"
            " authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256; correct the user"
            " name and the password, or create the user there",
        ),
        (
            "sasl_plaintext",
            {"sasl": {"mechanism": "PLAIN"}},
            "PLAIN login as boss: UNSUPPORTED_SASL_MECHANISM: offered: ['SCRAM-SHA-512', 'SCRAM-SHA-256'];"
            " write a mechanism that is offered",
        ),
        (
            "plaintext",
            {},
            "SCRAM-SHA-256 login as boss: ILLEGAL_SASL_STATE: the port is one without logins: see"
            " security.protocol",
        ),
        (
            "sasl_plaintext",
            {"security.protocol": "PLAINTEXT", "sasl": None},
            "Metadata: connection closed: perhaps the server requires a login (security.protocol SASL_SSL or"
            " SASL_PLAINTEXT)",
        ),
        (
            "ssl",
            {"security.protocol": "PLAINTEXT", "sasl": None},
            "a TLS alert in place of a Kafka response: this port is one with TLS: see security.protocol",
        ),
        (
            "sasl_plaintext",
            {"security.protocol": "SSL", "sasl": None},
            "cannot connect: the peer closed the connection during the TLS handshake: perhaps the port is one"
            " without TLS, or another server's: see security.protocol and the address",
        ),
        (
            "ssl",
            {"security.protocol": "SSL", "sasl": None, "ssl": {"ca": "CA of others"}},
            "its certificate is rejected: unable to get local issuer certificate; write the CA that issued it"
            " into ssl.ca; the other side has to send intermediate ones",
        ),
        (
            "controller",
            {"sasl": {"mechanism": "PLAIN", "username": "proxy-1"}},
            "this is Kafka's controller, not a broker; write the address of a broker",
        ),
    ],
    ids=[
        "password",
        "mechanism",
        "no login there",
        "no login here",
        "no TLS here",
        "no TLS there",
        "CA",
        "controller",
    ],
)
def test_each_step_that_fails_says_so_and_what_to_do(
    guarded: Broker, tmp_path: Path, listener: str, peer: dict[str, Any], problem: str
) -> None:
    upstream = broker_of(guarded, tmp_path)
    (tmp_path / "wrong.password").write_text("wrong")
    if peer.get("ssl"):
        peer = peer | {"ssl": {"ca": str(OfficeCertificates(tmp_path / "others").ca)}}
    sasl = upstream["sasl"] | peer["sasl"] if peer.get("sasl") else peer.get("sasl", upstream["sasl"])
    address = getattr(guarded, listener)
    upstream |= peer | {"bootstrap": address, "sasl": sasl}
    path = proxy_file(
        tmp_path, {name: part for name, part in upstream.items() if part}, quorum(guarded, tmp_path)
    )

    found = connected(path)

    assert found.problems == [f"upstream > bootstrap {address}: {problem}"]


@pytest.mark.parametrize(
    ("hosts", "ends_in_days", "problem", "warning"),
    [
        (
            ("localhost",),
            90,
            "IP address mismatch, certificate is not valid for '127.0.0.1'; connect to a name that it"
            " contains, or issue it again for this address",
            "",
        ),
        (("127.0.0.1",), -1, "certificate has expired; renew it there, or correct the clock", ""),
        (("127.0.0.1",), 9, "", "its certificate expires in 8 days; renew it there"),
    ],
    ids=["name", "expired", "soon"],
)
async def test_the_certificate_of_the_other_side_is_checked(
    tmp_path: Path,
    office: OfficeCertificates,
    hosts: tuple[str, ...],
    ends_in_days: int,
    problem: str,
    warning: str,
) -> None:
    issued = office.issue("peer", hosts=hosts, not_after=datetime.now(UTC) + timedelta(days=ends_in_days))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    async with FakeBroker(answers(), VERSIONS, context) as broker:
        peer = {"security.protocol": "SSL", "ssl": {"ca": str(office.ca)}}
        path = proxy_file(tmp_path, {"bootstrap": broker.address} | peer, {"endpoints": [closed_port()]})
        found = await asyncio.to_thread(connected, path)

    place = f"upstream > bootstrap {broker.address}"
    told = [line for line in (*found.problems, *found.warnings) if line.startswith(place)]
    expected = f"{place}: its certificate is rejected: {problem}" if problem else f"{place}: {warning}"
    assert told == [expected]
    assert (f"{place}: ok: connected, TLSv1.3" in "".join(found.lines)) == (not problem)


def answers(cluster: str = "one", nodes: Sequence[str] = ()) -> dict[int, Any]:
    """Of a broker that reports no rights and has no topics; `nodes`: the addresses that it advertises."""

    def metadata(request: Request) -> types.MetadataResponse:
        response = types.MetadataResponse
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not request.message.allow_auto_topic_creation
        return response(
            cluster_id=cluster,
            brokers=[
                response.MetadataResponseBroker(node_id=place, host=host, port=int(port))
                for place, (host, _, port) in enumerate(node.rpartition(":") for node in nodes)
            ],
            topics=[
                response.MetadataResponseTopic(name=topic.name, error_code=missing)
                for topic in request.message.topics
            ],
        )

    def create(request: Request) -> types.CreateTopicsResponse:
        assert request.message.validate_only
        result = types.CreateTopicsResponse.CreatableTopicResult
        return types.CreateTopicsResponse(
            topics=[result(name=topic.name) for topic in request.message.topics]
        )

    return {ApiKey.METADATA: metadata, ApiKey.CREATE_TOPICS: create}


async def found_at(tmp_path: Path, *addresses: str, **changes: Any) -> Connected:
    """What a proxy's file with these brokers gives, whose controller is down."""
    path = proxy_file(tmp_path, {"bootstrap": list(addresses)} | changes, {"endpoints": [CLOSED]})
    found = await asyncio.to_thread(connected, path)
    found.problems = [line for line in found.problems if CLOSED not in line]
    return found


CLOSED = "127.0.0.1:1"
"""A port below 1024 where nothing listens."""
VERSIONS = {
    int(key): (low, high)
    for key, (low, high) in {
        ApiKey.API_VERSIONS: (0, 3),
        ApiKey.METADATA: (5, 12),
        ApiKey.PRODUCE: (3, 12),
        ApiKey.FETCH: (4, 12),
        ApiKey.LIST_OFFSETS: (2, 6),
        ApiKey.INIT_PRODUCER_ID: (0, 4),
        ApiKey.CREATE_TOPICS: (4, 7),
        ApiKey.DESCRIBE_CONFIGS: (1, 4),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    }.items()
}
REFUSED = (
    "cannot connect: [Errno 111] Connect call failed ('127.0.0.1', 1); nothing listens there; start it, or"
    " correct the address"
)


async def test_one_of_several_brokers_may_be_down_but_not_the_first(tmp_path: Path) -> None:
    async with FakeBroker(answers(), VERSIONS) as broker:
        second_is_down = await found_at(tmp_path, broker.address, CLOSED)
        first_is_down = await found_at(tmp_path, CLOSED, broker.address)

    assert second_is_down.problems == []
    assert (
        f"upstream > bootstrap {CLOSED}: {REFUSED}; the other addresses are used" in second_is_down.warnings
    )
    path = proxy_file(tmp_path, {"bootstrap": [CLOSED]}, {"endpoints": [CLOSED]})
    assert first_is_down.lines
    assert first_is_down.warnings == [
        "metadata > topic __penstock_metadata: does not exist yet; a controller creates it when it starts"
    ]
    assert (await asyncio.to_thread(connected, path)).problems[:1] == [
        "--connect: no server was reached from here; if this machine has no network, check without it"
    ]


@pytest.mark.parametrize("is_internal", [False, True])
async def test_addresses_of_two_clusters_are_found(tmp_path: Path, is_internal: bool) -> None:
    async with FakeBroker(answers("one"), VERSIONS) as one, FakeBroker(answers("two"), VERSIONS) as two:
        if is_internal:
            key = "upstream > internal.bootstrap"
            found = await found_at(tmp_path, one.address, **{"internal.bootstrap": two.address})
        else:
            key = "upstream > bootstrap"
            found = await found_at(tmp_path, one.address, two.address)

    (problem,) = found.problems
    text, _, places = problem.partition("cluster: ")
    assert text == "bootstrap: brokers of different clusters; name those of one "
    assert set(places.split(", ")) == {
        f"upstream > bootstrap {one.address} is of one",
        f"{key} {two.address} is of two",
    }


async def found_by_node_id(tmp_path: Path, bootstrap: str, node_id: int) -> Connected:
    """What a proxy's file without the address of its broker gives, whose controller is down."""
    upstream = {"internal.bootstrap": bootstrap, "node.id": node_id}
    found = await asyncio.to_thread(connected, proxy_file(tmp_path, upstream, {"endpoints": [CLOSED]}))
    found.problems = [line for line in found.problems if "controller > endpoints" not in line]
    return found


async def test_the_broker_with_the_node_id_is_tried_where_the_cluster_says(tmp_path: Path) -> None:
    async with (
        FakeBroker(answers(), VERSIONS) as other,
        FakeBroker(answers(nodes=[CLOSED, other.address]), VERSIONS) as broker,
    ):
        found = await found_by_node_id(tmp_path, broker.address, 1)
        down = await found_by_node_id(tmp_path, broker.address, 0)
        missing = await found_by_node_id(tmp_path, broker.address, 2)

    at = f"upstream > node.id 1 at {other.address}"
    assert f"{at}: ok: connected, without a login" in found.lines
    assert f"upstream > node.id 0 at {CLOSED}: {REFUSED}" in down.problems
    assert [line for line in missing.problems if CLOSED not in line] == [
        f"upstream > internal.bootstrap {broker.address}: no broker has node.id 2; the cluster has [0, 1];"
        " correct it, or start that broker"
    ]


async def test_the_addresses_that_brokers_advertise_are_tried_too(tmp_path: Path) -> None:
    async with (
        FakeBroker(answers(), VERSIONS) as other,
        FakeBroker(answers(nodes=[other.address, "no-such-host.invalid:9092"]), VERSIONS) as broker,
    ):
        found = await found_at(tmp_path, broker.address)

    advertised = "upstream > bootstrap: advertised by the brokers:"
    assert f"{advertised} {other.address}: ok: connected, without a login" in found.lines
    (problem,) = found.problems
    assert problem.startswith(f"{advertised} no-such-host.invalid:9092: cannot connect: ")
    assert problem.endswith("; correct the name, or this machine's name server")


async def test_versions_that_do_not_suit_are_named(tmp_path: Path) -> None:
    old = VERSIONS | {int(ApiKey.PRODUCE): (0, 2), int(ApiKey.METADATA): (0, 4)}
    async with FakeBroker(answers(), old) as broker:
        found = await found_at(tmp_path, broker.address)

    assert found.problems == [
        f"upstream > bootstrap {broker.address}: supports Metadata v0-v4, needed v5-v12; supports Produce"
        " v0-v2, needed v3-v12; docs/tested-with.md lists the releases that work"
    ]


async def test_responses_that_are_missing_or_incomplete_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_check, "STEP_MS", 50)
    over = asyncio.Event()

    async def silent(_request: Request) -> None:
        await over.wait()

    no_topics: dict[int, Any] = {ApiKey.METADATA: lambda _request: types.MetadataResponse()}
    async with (
        FakeBroker({ApiKey.METADATA: silent}, VERSIONS) as mute,
        FakeBroker(no_topics, VERSIONS) as incomplete,
    ):
        found = await found_at(tmp_path, incomplete.address, mute.address)
        over.set()

    place = "upstream > bootstrap"
    assert found.problems == sorted(
        [
            f"{place} {mute.address}: no response to Metadata within 50 ms; look at firewalls, the"
            " address and security.protocol",
            f"{place} {incomplete.address}: a response lacks what was requested; is this a server of Kafka?",
        ]
    )


async def test_a_server_that_is_silent_ends_the_check_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_check, "STEP_MS", 50)
    over = asyncio.Event()

    async def silent(_request: Request) -> None:
        await over.wait()

    async with FakeBroker({ApiKey.API_VERSIONS: silent}) as broker:
        found = await found_at(tmp_path, broker.address)
        monkeypatch.setattr(connection_check, "STEP_MS", 60_000)
        monkeypatch.setattr(connection_check, "TOTAL_S", 0.1)
        late = await found_at(tmp_path, broker.address)
        over.set()

    place = f"upstream > bootstrap {broker.address}"
    assert found.problems[1:] == [
        f"{place}: no connection within 50 ms; look at firewalls, the address and security.protocol"
    ]
    assert late.problems[1:] == [f"{place}: not finished after 0 s; look at the network and at its load"]


@pytest.mark.kafka
@pytest.mark.spec("E4")
async def test_penstocks_controller_reports_the_right_to_forward_and_records_nothing(
    kafka: Broker, tmp_path: Path, topic_name: str
) -> None:
    users = plain_sasl({"proxy-1": SECRET, "none": SECRET})
    made = made_controller(controller_settings(plaintext(kafka), topic_name), users)
    upstream = {"bootstrap": kafka.plaintext}

    async def told(user: str) -> Connected:
        controller = {"endpoints": [made.endpoint.address]} | login(tmp_path, user, "PLAIN")
        found = await asyncio.to_thread(connected, proxy_file(tmp_path, upstream, controller))
        chosen = [
            [line for line in lines if "controller > endpoints" in line]
            for lines in (found.lines, found.warnings, found.problems)
        ]
        return Connected(*chosen)

    async with running(made):
        active, denied = await told("proxy-1"), await told("none")
        made.process.processor.active = False
        standby = await told("proxy-1")
        made.process.processor.active = True

    place = f"controller > endpoints {made.endpoint.address}"
    login_ok = f"{place}: ok: connected, logged in with PLAIN as"
    assert active == Connected([f"{place}: ok: active, may forward", f"{login_ok} proxy-1"])
    assert standby == Connected([f"{login_ok} proxy-1", f"{place}: ok: on standby, may forward"])
    assert denied == Connected(
        [f"{login_ok} none"],
        [],
        [f"{place}: User:none may not forward; add it to super.users there, or grant CLUSTER_ACTION"],
    )
    assert {event.event for event in made.events} <= {"authentication", "own_topic"}


@pytest.mark.kafka
async def test_a_controller_of_the_other_kind_is_recognized(
    kafka: Broker, tmp_path: Path, topic_name: str
) -> None:
    async with a_controller(plaintext(kafka), topic_name) as controller:
        ours = controller.endpoint.address
        wrong = [("penstock", kafka.controller), ("kraft", ours), ("penstock", kafka.plaintext)]
        told = []
        for mode, address in wrong:
            path = proxy_file(tmp_path, {"bootstrap": CLOSED}, {"mode": mode, "endpoints": [address]})
            found = await asyncio.to_thread(connected, path)
            told += [line.partition(f"{address}: ")[2] for line in found.problems if address in line]

    assert told == [
        "this is Kafka's controller, not Penstock's controller; write the address of Penstock's controller,"
        " or mode: kraft",
        "this is Penstock's controller, not Kafka's controller; write the address of Kafka's controller, or"
        " mode: penstock",
        "this is a broker, not Penstock's controller; write the address of Penstock's controller",
    ]


async def test_a_controller_that_does_not_report_rights_is_named(tmp_path: Path) -> None:
    def versions(_request: Request) -> types.ApiVersionsResponse:
        return types.ApiVersionsResponse(unknown_tags={TRANSACTIONAL_ID_TAG: b"penstock-controller"})

    async with FakeBroker({ApiKey.API_VERSIONS: versions}) as old:
        path = proxy_file(tmp_path, {"bootstrap": CLOSED}, {"endpoints": [old.address]})
        found = await asyncio.to_thread(connected, path)

    assert found.warnings == [
        f"controller > endpoints {old.address}: this controller is older than this command, and does not"
        " report rights; upgrade it"
    ]


@pytest.mark.kafka
@pytest.mark.parametrize("has_key", [True, False])
def test_users_at_the_broker_need_delegation_tokens_there(
    kafka: Broker, guarded: Broker, tmp_path: Path, has_key: bool
) -> None:
    broker, user = (guarded, "boss") if has_key else (kafka, BROKER_LOGIN[0])
    secret = SECRET if has_key else BROKER_LOGIN[1]
    upstream = {"bootstrap": broker.sasl_plaintext, "identity": "user"} | login(tmp_path, user, secret=secret)
    found = connected(
        proxy_file(
            tmp_path,
            upstream,
            {"mode": "kraft", "endpoints": [broker.controller]} if not has_key else quorum(guarded, tmp_path),
        )
    )

    assert found.problems == (
        []
        if has_key
        else [
            f"upstream > bootstrap {broker.sasl_plaintext}: identity: user needs delegation tokens:"
            " DELEGATION_TOKEN_AUTH_DISABLED; set delegation.token.secret.key at the brokers, and log in"
            " there by SASL"
        ]
    )


def test_identity_providers_are_asked_for_keys_and_for_a_token(tmp_path: Path) -> None:
    with RunningProvider(300).running() as provider:
        found = connected(oauth_file(tmp_path, provider.url))
    gone = connected(oauth_file(tmp_path, provider.url))

    key = "sasl.oauthbearer.jwks.endpoint.url"
    assert [line for line in found.lines if "oauth" in line] == [
        f"listeners[0] > {key} {provider.url}/keys: ok: has 1 usable keys",
        f"upstream > sasl > oauthbearer.token.endpoint.url {provider.url}/token: ok: has issued a token",
    ]
    assert [line.partition(": no ")[0] for line in gone.problems if "oauth" in line] == [
        f"listeners[0] > {key} {provider.url}/keys",
        f"upstream > sasl > oauthbearer.token.endpoint.url {provider.url}/token",
    ]


def oauth_file(directory: Path, url: str) -> Path:
    (directory / "client.secret").write_text(SECRET)
    listener = {
        "name": "CLIENTS",
        "bind": "127.0.0.1:0",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["OAUTHBEARER"],
        "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
        "sasl.oauthbearer.expected.issuer": "",
        "sasl.oauthbearer.expected.audience": "",
    }
    sasl = {
        "mechanism": "OAUTHBEARER",
        "oauthbearer.token.endpoint.url": f"{url}/token",
        "oauthbearer.client.credentials.client.id": "proxy",
        "oauthbearer.client.credentials.client.secret.file": "client.secret",
    }
    upstream = {"bootstrap": CLOSED, "security.protocol": "SASL_PLAINTEXT", "sasl": sasl}
    authorizer = {"class.name": "proxy.security.standard.StandardAuthorizer"}
    return proxy_file(
        directory, upstream, {"endpoints": [CLOSED]}, listeners=[listener], authorizer=authorizer
    )


def test_the_command_prints_the_results_and_ends_with_2_for_errors(tmp_path: Path) -> None:
    path = proxy_file(tmp_path, {"bootstrap": "no-such-host.invalid:9092"}, {"endpoints": [CLOSED]})
    broken = written(tmp_path / "broken.yaml", {"proxy.id": "proxy-2"})

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "proxy", "check", *arguments]
        return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert run("-c", str(path)).returncode == 0
    done = run("-c", str(path), "-c", str(broken), "--connect")
    assert done.returncode == 2
    assert f"{path}: controller > endpoints {CLOSED}: {REFUSED}\n" in done.stderr
    assert f"{path}: upstream > bootstrap no-such-host.invalid:9092: cannot connect: " in done.stderr
    assert (
        f"{path}: --connect: no server was reached from here; if this machine has no network" in done.stderr
    )
    assert f"note: {broken}: not connected, because of its errors\n" in done.stderr
    users = run("--connect", "--users", str(tmp_path / "users.yaml"))
    assert (users.returncode, users.stderr) == (
        2,
        "penstock check: --connect needs a configuration file; name one with -c\n",
    )
