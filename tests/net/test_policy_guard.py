"""Assertions guard the ACLs: at the controller, and with Kafka's controllers at the proxy."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from forwarding.controller.topic_owner import OwnerAndAcls
from forwarding.controller.topic_records import Creation
from forwarding.net.policy_guard import PolicyGuard
from proxy.app.guarded_acls import NOT_LOADED
from proxy.app.process import ProxyProcess
from proxy.commands.check import check
from proxy.config import ProxyConfig, load
from proxy.metadata.topic_acls import parse_topic_acls
from proxy.net.files.watched_file import FileReloads
from proxy.policy import assertions as proving
from proxy.policy.differences import NotReproduced
from proxy.security.principal import Principal, serialize
from proxy.session.effects import ToController
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import acl_creation
from tests.support.fake_log import FakeTopic
from tests.support.images import acl_record, image_of
from tests.support.model_controllers import Node
from tests.support.two_sides import withdraw_request
from tests.support.waiting import turns_until
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("D18")

ASSERTIONS = """\
payroll: no principal but Group:payments and super users may WRITE, READ topic prefix payroll
reports: Group:payments may READ topic payroll-reports
"""
WHO = Principal("User", "admin")
DENY, WRITE = 2, 4


def guard_of(directory: Path, text: str = ASSERTIONS) -> PolicyGuard:
    path = directory / "assertions.txt"
    path.write_text(text, encoding="utf-8")
    return PolicyGuard(path, lambda: {"super.users": "User:admin"}, FileReloads(CollectorRegistry()))


class Cluster:
    """One controller with a guard over a log in memory."""

    def __init__(self, guard: PolicyGuard) -> None:
        numbers = count(1)
        self.node = Node(FakeTopic(), lambda: next(numbers).to_bytes(16, "big"), lambda: 1_700_000_000_000)
        self.node.processor.refusal = guard.refusal

    async def send(self, request: Any) -> Any:
        if not self.node.processor.active:
            await self.node.processor.activate()
        return await self.node.send(request)

    async def create(self, *creations: Any) -> list[tuple[int, str | None]]:
        response = await self.send(types.CreateAclsRequest(creations=list(creations)))
        return [(each.error_code, each.error_message) for each in response.results]

    @property
    def names(self) -> set[str]:
        return {acl.resource_name for acl in self.node.image.acls.by_id.values()}


BROKEN = (
    "After this change an assertion would not hold."
    " payroll: User:bob 192.0.2.1 READ TOPIC payroll is allowed (acl)"
)


async def test_a_change_that_breaks_an_assertion_is_refused_as_a_whole_and_on_record(tmp_path: Path) -> None:
    cluster = Cluster(guard_of(tmp_path))

    kept = await cluster.create(acl_creation("payroll", "Group:payments"), acl_creation("orders", "User:bob"))
    refused = await cluster.create(acl_creation("harmless", "User:bob"), acl_creation("payroll", "User:bob"))

    assert [code for code, _ in kept] == [ErrorCode.NONE, ErrorCode.NONE]
    assert refused == [(ErrorCode.POLICY_VIOLATION, BROKEN)] * 2
    assert cluster.names == {"payroll", "orders"}
    (told,) = [each for each in cluster.node.events if each.event == "request_refused"]
    assert (told.principal, told.method, told.error_code) == ("User:admin", "CreateAcls", 44)
    assert told.message == BROKEN
    received = [each for each in cluster.node.events if each.event == "forwarded_received"][-1]
    assert (received.error_code, received.forward_id) == (44, told.forward_id)
    # A DENY beside it makes the same harmless: the request is judged as one change.
    both = acl_creation("payroll", "User:bob"), acl_creation("payroll", "User:bob", permission_type=DENY)
    assert [code for code, _ in await cluster.create(*both)] == [ErrorCode.NONE] * 2


async def test_a_removal_is_guarded_too_and_the_super_users_may_not_break_it_either(tmp_path: Path) -> None:
    cluster = Cluster(guard_of(tmp_path))
    await cluster.create(acl_creation("payroll-reports", "Group:payments"))

    response = await cluster.send(withdraw_request("payroll-reports"))

    (result,) = response.filter_results
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert result.error_message.endswith("READ TOPIC payroll-reports is denied (default.deny)")
    assert cluster.names == {"payroll-reports"}


async def test_what_does_not_hold_anyway_refuses_only_what_makes_it_worse(tmp_path: Path) -> None:
    guard = guard_of(tmp_path)
    image = image_of(acl_record(1, "payroll", principal="User:bob"))

    assert await guard.refusal(image, [acl_record(2, "orders", principal="User:bob")]) is None
    assert (
        await guard.refusal(image, [acl_record(2, "payroll", principal="User:bob", host="10.0.0.1")]) is None
    )
    assert await guard.refusal(image, [acl_record(2, "payroll", principal="User:carol")]) is not None
    assert await guard.refusal(image, []) is None


async def test_the_acls_of_a_topic_to_be_created_are_guarded(tmp_path: Path) -> None:
    acls = tuple(parse_topic_acls("User:bob:READ:allow"))
    creation = Creation({"payroll-2": OwnerAndAcls(acls=acls)}, lambda: bytes(16))

    refusal = await guard_of(tmp_path).refusal(image_of(), creation.acl_records(image_of()))

    assert "payroll: User:bob 192.0.2.1 READ TOPIC payroll-2 is allowed" in (refusal or "")


async def test_the_loop_goes_on_while_many_acls_are_compared(tmp_path: Path) -> None:
    guard = guard_of(tmp_path)
    image = image_of(*(acl_record(number, f"t-{number}") for number in range(1, 3_001)))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(count_turns())
        refusal = await guard.refusal(image, [acl_record(4_000, "payroll", principal="User:bob")])
        counting.cancel()

    assert refusal is not None
    assert turns > 10


async def test_what_cannot_be_proved_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object) -> None:
        raise NotReproduced("broken")

    guard = guard_of(tmp_path)
    monkeypatch.setattr(proving, "differences", fails)

    refusal = await guard.refusal(image_of(), [acl_record(1, "orders")])

    assert (refusal or "").endswith("broken")


async def test_the_file_is_followed_and_what_does_not_hold_is_logged(tmp_path: Path) -> None:
    guard = guard_of(tmp_path)
    image, loaded = image_of(acl_record(1, "payroll", principal="User:bob")), asyncio.Event()
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(guard.run(lambda: image, loaded))
            loaded.set()
            await turns_until(lambda: bool(lines))
            running.cancel()

    assert {line["assertion"].partition(" ")[0] for line in lines} == {"payroll:", "reports:"}
    with pytest.raises(ValueError, match="line 1, column 1: expected a principal"):
        guard_of(tmp_path, "nonsense")


def kraft(directory: Path, **policy: str) -> Path:
    (directory / "assertions.txt").write_text(ASSERTIONS, encoding="utf-8")
    controller = {"mode": "kraft", "endpoints": ["127.0.0.1:19093"]}
    authorizer = {"class.name": "StandardAuthorizer", "super.users": "User:admin"}
    return written(directory, document(controller=controller, authorizer=authorizer, policy=policy))


async def test_with_kafkas_controllers_the_proxy_refuses_before_it_forwards(tmp_path: Path) -> None:
    process = ProxyProcess(load(kraft(tmp_path, assertions="assertions.txt"), ProxyConfig))
    request = types.CreateAclsRequest(creations=[acl_creation("payroll", "User:bob")])
    body = codecs.request(ApiKey.CREATE_ACLS, 3).encode(request)

    async def result() -> tuple[int, str]:
        response = await process._forward(
            ToController(ApiKey.CREATE_ACLS, 3, 7, "cli", body, serialize(WHO), bytes(4), 30_000)
        )
        assert response.error_code == ErrorCode.NONE
        # The audit jobs do not look for it at a controller.
        assert "/refused-" in response.forward_id
        assert response.first_offset is None
        assert response.body is not None
        (result,) = codecs.response(ApiKey.CREATE_ACLS, 3).decode_exactly(response.body).results
        return result.error_code, result.error_message

    too_early = await result()
    process._plane.loader.load_until(0)

    assert await result() == (ErrorCode.POLICY_VIOLATION, BROKEN)
    assert too_early == (ErrorCode.POLICY_VIOLATION, NOT_LOADED)


def test_a_file_of_assertions_is_checked_and_has_to_be_where_it_has_an_effect(tmp_path: Path) -> None:
    assert check(kraft(tmp_path, assertions="assertions.txt")) == []
    (tmp_path / "assertions.txt").write_text("nonsense", encoding="utf-8")
    (problem,) = check(tmp_path / "proxy.yaml")
    assert "policy > assertions" in problem
    assert "line 1, column 1" in problem

    (tmp_path / "assertions.txt").write_text(ASSERTIONS, encoding="utf-8")
    authorizer = {"class.name": "StandardAuthorizer"}
    policy = {"assertions": "assertions.txt"}
    (misplaced,) = check(written(tmp_path, document(authorizer=authorizer, policy=policy)))
    assert "the controller proves assertions" in misplaced
