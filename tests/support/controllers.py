"""A controller in the test's own loop, on a free port, over a real broker's topic; and requests to it.

async with a_controller(kafka_endpoint(kafka), topic) as controller:
    async with a_forwarder(controller.endpoint) as forwarder:
        reply = await forward(forwarder, ApiKey.CREATE_ACLS, request)
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry

from forwarding.config import ControllerConfig
from forwarding.net.forwarder import ATTEMPT_TIMEOUT_MS, Forwarder
from forwarding.net.metrics import ForwarderMetrics
from forwarding.net.process import ControllerProcess, ProcessSettings
from proxy.audit.record import AuditEvent
from proxy.config import ListenerConfig
from proxy.metadata.image import MetadataImage
from proxy.net.kafka.channel import EndpointSettings, SaslLogin
from proxy.net.logins.credentials import Credentials, PlainUsers, StoredUser, sasl_listener
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.reachability import Backoff
from proxy.net.telemetry.spans import NO_SPANS, Spans
from proxy.security.authorizer import Authorizer, load_authorizer
from proxy.security.passwords import hash_password
from proxy.security.principal import Principal, serialize
from proxy.session.authentication import SaslListener
from proxy.session.effects import ControllerResponse, ToController
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker

ADMIN = Principal("User", "admin")
TIMEOUT_MS = 15_000
FILES = 10_000
"""A limit on open file descriptors that is never reached."""
NO_SECTIONS: Mapping[str, Mapping[str, object]] = MappingProxyType({})
STANDARD = "proxy.security.standard.StandardAuthorizer"
SUPER_USERS = "User:admin;User:ANONYMOUS;User:proxy-1"
"""Whoever forwards without logging in is ANONYMOUS."""


def endpoint_of(address: str, **settings: Any) -> EndpointSettings:
    host, _, port = address.rpartition(":")
    return EndpointSettings(host=host, port=int(port), **settings)


def plaintext(kafka: Broker) -> EndpointSettings:
    return endpoint_of(kafka.plaintext)


def login(username: str, password: str, mechanism: str = "PLAIN") -> SaslLogin:
    return SaslLogin(mechanism=mechanism, username=username, password=lambda: password)


@dataclass
class RunningController:
    process: ControllerProcess
    endpoint: EndpointSettings
    registry: CollectorRegistry
    events: list[AuditEvent] = field(default_factory=list)
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    """Something was recorded."""

    @property
    def image(self) -> MetadataImage:
        return self.process.loader.image

    async def active(self) -> None:
        """Until an Envelope would be served."""
        async with asyncio.timeout(TIMEOUT_MS / 1000):
            await self.process.processor.activated.wait()

    def told(self, event: str) -> list[AuditEvent]:
        return [told for told in self.events if told.event == event]


def controller_config(
    broker: str = "127.0.0.1:1", topic: str = "t", **sections: Mapping[str, object]
) -> ControllerConfig:
    """Of a controller on a free port. `sections`: further keys of the file, such as `limits`."""
    document: dict[str, dict[str, object]] = {
        "listener": {"name": "CONTROLLER", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"},
        "broker": {"bootstrap": broker},
        "metadata": {"topic": topic, "transactional.id": f"{topic}-writer"},
        "authorizer": {"class.name": STANDARD},
        "quota": {"cluster.topic": f"{topic}-shares"},
        "audit": {"topic": f"{topic}-audit", "spool.dir": "/nowhere"},
    }
    for name, keys in sections.items():
        document[name] = {**document.get(name, {}), **keys}
    return ControllerConfig.model_validate({"controller.id": "c", **document})


def controller_settings(
    broker: EndpointSettings,
    topic: str,
    sections: Mapping[str, Mapping[str, object]] = NO_SECTIONS,
    **made: Any,
) -> ProcessSettings:
    """`made`: what is made of files and classes, given as it is."""
    config = controller_config(broker.address, topic, **sections)
    return ProcessSettings(config=config, broker=broker, **made)


async def always() -> bool:
    return True


@dataclass(frozen=True)
class FakeTrail:
    """An audit trail that is durable at once."""

    append: Callable[[AuditEvent], None]
    allows_change: Callable[[], Awaitable[bool]] = always
    end: str = ""

    async def append_all(self, events: Iterable[AuditEvent]) -> None:
        for event in events:
            self.append(event)

    async def wait_until_durable(self, classes: Collection[str]) -> bool:
        return True


def made_controller(
    settings: ProcessSettings,
    sasl: Callable[[Callable[[], MetadataImage]], SaslListener | None] = lambda _image: None,
    super_users: str = SUPER_USERS,
    may_record_changes: Callable[[], Awaitable[bool]] = always,
    authorizer: Authorizer | None = None,
) -> RunningController:
    """Put together, not yet running."""
    events: list[AuditEvent] = []
    recorded = asyncio.Event()

    def record(event: AuditEvent) -> None:
        events.append(event)
        recorded.set()

    registry = CollectorRegistry()
    authorizer = authorizer or load_authorizer(STANDARD, {"super.users": super_users})
    process = ControllerProcess(
        settings, sasl, authorizer, FakeTrail(record, may_record_changes), registry, now_ms
    )
    return RunningController(process, endpoint_of("127.0.0.1:0"), registry, events, recorded)


@asynccontextmanager
async def running(controller: RunningController, *, wait: bool = True) -> AsyncIterator[RunningController]:
    """Run it; `wait`: until it is active, else only until it listens."""
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(controller.process.run())
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await controller.process.server.listening.wait()
            controller.endpoint = endpoint_of(f"127.0.0.1:{controller.process.server.port}")
            if wait:
                await controller.active()
            yield controller
        finally:
            controller.process.drain()
            await asyncio.wait([run])


@asynccontextmanager
async def a_controller(
    broker: EndpointSettings, topic: str, **changes: Any
) -> AsyncIterator[RunningController]:
    async with running(made_controller(controller_settings(broker, topic, **changes))) as controller:
        yield controller


def plain_sasl(
    users: Mapping[str, str], max_reauth_ms: int = 0
) -> Callable[[Callable[[], MetadataImage]], SaslListener]:
    """PLAIN for these users and passwords, SCRAM for those of the log."""
    known = PlainUsers(
        {name: StoredUser(hash_password(password, bytes(16))) for name, password in users.items()}
    )
    settings = ListenerConfig.model_validate(
        {
            "name": "CONTROLLER",
            "bind": "127.0.0.1:0",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        }
    )
    return lambda image: sasl_listener(settings, Credentials(known, image, max_reauth_ms))


_forwarders = count()


@asynccontextmanager
async def a_forwarder(
    *endpoints: EndpointSettings,
    registry: CollectorRegistry | None = None,
    on_api_versions: Callable[[Mapping[int, tuple[int, int]]], None] = lambda _versions: None,
    attempt_timeout_ms: int = ATTEMPT_TIMEOUT_MS,
    leader: Callable[[], EndpointSettings | None] = lambda: None,
    spans: Spans = NO_SPANS,
) -> AsyncIterator[Forwarder]:
    forwarder = Forwarder(
        endpoints,
        f"proxy-1/test-{next(_forwarders)}",
        ForwarderMetrics(registry or CollectorRegistry()),
        now_ms,
        Backoff(initial_ms=10, maximum_ms=100),
        attempt_timeout_ms,
        spans,
    )
    forwarder.on_api_versions, forwarder.leader = on_api_versions, leader
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(forwarder.run())
        try:
            yield forwarder
        finally:
            run.cancel()


@asynccontextmanager
async def a_controller_and_a_forwarder(
    kafka: Broker, topic: str, **changes: Any
) -> AsyncIterator[tuple[RunningController, Forwarder]]:
    """The controller over that broker, and what a proxy forwards with."""
    async with (
        a_controller(plaintext(kafka), topic, **changes) as controller,
        a_forwarder(controller.endpoint) as forwarder,
    ):
        yield controller, forwarder


async def forward(
    forwarder: Forwarder,
    api_key: int,
    request: Any,
    principal: Principal = ADMIN,
    timeout_ms: int = TIMEOUT_MS,
    version: int | None = None,
) -> tuple[ControllerResponse, Any]:
    """The reply, and the response in it, decoded (None: there is none)."""
    version = codecs.request_versions(api_key)[-1] if version is None else version
    reply = await forwarder.forward(
        ToController(
            api_key,
            version,
            77,
            "admin-client",
            codecs.request(api_key, version).encode(request),
            principal=serialize(principal),
            client_address=bytes([10, 0, 0, 1]),
            timeout_ms=timeout_ms,
        )
    )
    return reply, reply.body and codecs.response(api_key, version).decode_exactly(reply.body)


def acls_request(*names: str, principal: str = "User:alice") -> Any:
    """CreateAcls: the principal may read these topics."""
    request = types.CreateAclsRequest
    return request(creations=[acl_creation(name, principal) for name in names])


def acl_creation(name: str, principal: str = "User:alice", **fields: Any) -> Any:
    """The principal may read that topic, save for what `fields` say otherwise."""
    read: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": principal,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return types.CreateAclsRequest.AclCreation(**(read | fields))


def cluster_right(operation: int, principal: str, host: str = "*") -> Any:
    """A CreateAcls request for that right on the cluster."""
    creation = acl_creation("kafka-cluster", principal, resource_type=4, operation=operation, host=host)
    return types.CreateAclsRequest(creations=[creation])


async def create_acls(forwarder: Forwarder, *names: str, timeout_ms: int = TIMEOUT_MS) -> ControllerResponse:
    """Create them; every one must succeed."""
    reply, response = await forward(
        forwarder, ApiKey.CREATE_ACLS, acls_request(*names), timeout_ms=timeout_ms
    )
    assert reply.error_code == 0, reply
    assert [result.error_code for result in response.results] == [0] * len(names)
    return reply


def acl_names(image: MetadataImage) -> Sequence[str]:
    """The resources that ACLs of the image are on, sorted."""
    return sorted(acl.resource_name for acl in image.acls.by_id.values())
