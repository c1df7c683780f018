"""Rights that are taken away while a broker carries out its part of a request."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from forwarding.net.broker import Broker
from forwarding.net.policy_guard import PolicyGuard
from proxy.net.files.watched_file import FileReloads
from proxy.net.kafka.channel import EndpointSettings
from proxy.security.principal import Principal
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import acl_creation
from tests.support.fake_log import FakeTopic
from tests.support.model_controllers import Node
from tests.support.topic_requests import create_topics

pytestmark = pytest.mark.spec("A6", "E4")

MALLORY = Principal("User", "mallory")
ALTER, CREATE, READ, CLUSTER, ALLOW, DENY = 7, 5, 3, 4, 3, 2


class SlowBroker(Broker):
    """Creates topics once it may."""

    def __init__(self) -> None:
        super().__init__(EndpointSettings(host="in memory", port=0))
        self.asked, self.may = asyncio.Event(), asyncio.Event()

    async def api_versions(self) -> dict[int, tuple[int, int]]:
        return {ApiKey.CREATE_TOPICS: (0, 7)}

    async def request(self, _key: int, _version: int, message: Any, timeout_ms: int | None = None) -> Any:
        self.asked.set()
        await self.may.wait()
        result = t.CreateTopicsResponse.CreatableTopicResult
        return t.CreateTopicsResponse(
            topics=[
                result(name=topic.name, topic_id=topic.name.encode().ljust(16)) for topic in message.topics
            ]
        )


class Cluster:
    """One controller over that broker."""

    def __init__(self) -> None:
        ids, self.broker = count(1), SlowBroker()
        self.node = Node(FakeTopic(), lambda: next(ids).to_bytes(16, "big"), lambda: 1_000, self.broker)

    async def allow(self, *creations: Any) -> None:
        response = await self.node.send(t.CreateAclsRequest(creations=list(creations)))
        assert [each.error_code for each in response.results] == [0] * len(creations)

    async def remove(self, operation: int, permission: int) -> None:
        wanted = t.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=permission,
        )
        (result,) = (await self.node.send(t.DeleteAclsRequest(filters=[wanted]))).filter_results
        assert len(result.matching_acls) == 1

    async def create(self, meanwhile: Any, acls: str, principal: Principal) -> tuple[int, list[str]]:
        """The error of a topic that is created while something else happens, and who has ACLs on it then."""
        creation = create_topics("payroll-2", configs={"acls": acls})
        async with asyncio.TaskGroup() as tasks:
            created = tasks.create_task(self.node.send(creation, principal))
            await self.broker.asked.wait()
            await meanwhile
            self.broker.may.set()
        (topic,) = created.result().topics
        every = self.node.image.acls.by_id.values()
        return topic.error_code, [acl.principal for acl in every if acl.resource_name == "payroll-2"]


async def with_rights() -> Cluster:
    cluster = Cluster()
    await cluster.node.processor.activate()
    rights = {"resource_type": CLUSTER}
    await cluster.allow(
        acl_creation("kafka-cluster", "User:mallory", operation=ALTER, **rights),
        acl_creation("kafka-cluster", "User:mallory", operation=CREATE, **rights),
    )
    return cluster


async def test_a_right_that_is_gone_sets_no_acls() -> None:
    cluster = await with_rights()

    created = await cluster.create(cluster.remove(ALTER, ALLOW), "User:mallory:ALL:allow", MALLORY)

    assert created == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
    denied = [event for event in cluster.node.events if event.granted is False]
    assert [(event.principal, event.operation) for event in denied] == [("User:mallory", "ALTER")]


async def test_a_right_of_others_changes_nothing() -> None:
    cluster = await with_rights()

    created = await cluster.create(
        cluster.allow(acl_creation("orders", "User:bob")), "User:mallory:ALL:allow", MALLORY
    )

    assert created == (ErrorCode.NONE, ["User:mallory"])


@pytest.mark.spec("D18")
async def test_an_assertion_that_would_break_by_now_holds(tmp_path: Path) -> None:
    path = tmp_path / "assertions.txt"
    path.write_text("payroll: no principal but super users may READ topic prefix payroll\n", encoding="utf-8")
    guard = PolicyGuard(path, lambda: {"super.users": "User:admin"}, FileReloads(CollectorRegistry()))
    cluster = await with_rights()
    cluster.node.processor.refusal = guard.refusal
    await cluster.allow(acl_creation("payroll", "User:bob", resource_pattern_type=4, permission_type=DENY))

    created = await cluster.create(cluster.remove(READ, DENY), "User:bob:READ:allow", MALLORY)

    assert created == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
