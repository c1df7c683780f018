"""Processes whose metadata log has records that they do not understand say so, and fail closed."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.net.log import MetadataLog, WrittenRecord
from proxy.metadata.acl import Operation, PermissionType, ResourceType
from proxy.security.passwords import hash_password
from proxy.wire import metadata_records
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster import probe
from tests.lab.cluster.broker import Broker
from tests.support.acl_filters import describe_acls
from tests.support.controllers import RunningController, a_controller, plaintext
from tests.support.edges import on_uvloop
from tests.support.fake_quorum import FakeNode
from tests.support.images import acl_record
from tests.support.lone_processes import PASSWORD, SHOULD_NOT_TAKE_S, LoneProcess, a_lone

pytestmark = [pytest.mark.spec("S13", "S5", "O2"), pytest.mark.slow]


async def readyz(lone: LoneProcess, begins: str) -> list[str]:
    """The lines of /readyz, once one of them begins like this."""
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while True:
            _, text = await asyncio.to_thread(probe.get, lone.http, "/readyz")
            if any(line.startswith(begins) for line in text.splitlines()):
                return text.splitlines()
            await asyncio.sleep(0.05)


async def describes_acls(lone: LoneProcess, user: str) -> int:
    """The error code of a DescribeAcls request of this user."""
    client = await lone.login(user)
    assert (await client.hears(ApiKey.SASL_AUTHENTICATE, 2)).error_code == ErrorCode.NONE
    client.asks(ApiKey.DESCRIBE_ACLS, 2, describe_acls())
    return int((await client.hears(ApiKey.DESCRIBE_ACLS, 2)).error_code)


@on_uvloop
async def test_a_proxy_reports_them_and_after_a_record_that_it_cannot_apply_serves_super_users_only(
    tmp_path: Path,
) -> None:
    node = FakeNode()
    describe = acl_record(
        1, "kafka-cluster", ResourceType.CLUSTER, principal="User:bob", operation=Operation.DESCRIBE
    )
    node.append(describe, acl_record(2, host="10.0.0.0-10.9.9.9", permission_type=PermissionType.DENY))
    node.append(t.FeatureLevelRecord(name="metadata.version", feature_level=34))
    node.commit()
    users = {name: {"password.hash": hash_password(PASSWORD, bytes(16))} for name in ("admin", "bob")}
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({"users": users}), encoding="utf-8")
    async with AsyncExitStack() as running:
        await running.enter_async_context(node.listening())
        changes: dict[str, Any] = {
            "controller": {"mode": "kraft", "endpoints": [node.address]},
            "users.file": "two.yaml",
        }
        lone = await running.enter_async_context(a_lone("proxy", tmp_path, **changes))
        what = "degraded: 2 records of the metadata log are not understood and fail closed: "
        lines = await readyz(lone, what)
        assert not any("cannot be applied" in line for line in lines)
        (line,) = [line for line in lines if line.startswith(what)]
        assert "AccessControlEntryRecord at offset 1: ACL " in line
        assert "FeatureLevelRecord at offset 2: metadata.version 34, known: 33" in line
        assert [row["metadata_offset"] for row in lone.rows("metadata log not understood")] == [1, 2]
        await lone.metric("penstock_metadata_not_understood", lambda value: value == 2)

        assert await describes_acls(lone, "bob") == ErrorCode.NONE
        node.append(acl_record(3), raw=[b"\x01\x7f\x00"])
        node.commit()
        lines = await readyz(lone, "not ready: the metadata log has a record that cannot be applied: ")

        assert "record 2 of 2, at offset 4: " in lines[0]
        await lone.metric("penstock_metadata_not_understood", lambda value: value == 3)
        assert "at offset 4" in lone.rows("metadata log not understood")[-1]["what"]
        assert lone.process.returncode is None
        assert [await describes_acls(lone, user) for user in ("admin", "bob")] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ]
        assert await lone.stops() == 0

    spool = b"".join(path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file())
    assert spool.count(b"log_not_understood") >= 3


@pytest.mark.kafka
async def test_a_controller_reports_them_and_after_a_record_that_it_cannot_apply_decides_nothing(
    kafka: Broker, topic_name: str
) -> None:
    async with a_controller(plaintext(kafka), topic_name) as controller:
        process = controller.process
        other = MetadataLog(plaintext(kafka), topic_name, f"{topic_name}-other")
        await other.claim()
        odd = metadata_records.encode_record(acl_record(2, host="10.0.0.0-10.9.9.9"))
        await other.append([WrittenRecord(b"odd", odd)], None)
        await reported(controller, 1)
        assert "AccessControlEntryRecord at offset" in (controller.events[-1].message or "")
        assert process.processor.active
        assert [note.public for note in process.degraded()] == [
            "degraded: 1 records of the metadata log are not understood and fail closed"
        ]

        bad = await other.append([WrittenRecord(b"bad", b"\x01\x7f\x00")], None)
        await reported(controller, 2)
        await other.resign()

        assert f"at offset {bad.last_offset}: " in (controller.events[-1].message or "")
        blocked = [note.public for note in process.blocked()]
        assert blocked[0] == "the metadata log has a record that cannot be applied"
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while process.processor.active:  # noqa: ASYNC110 - a state has no event
                await asyncio.sleep(0.01)
        assert process.server.listening.is_set()


async def reported(controller: RunningController, count: int) -> None:
    """Until so many records report what is not understood."""
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while len(controller.told("log_not_understood")) < count:
            controller.recorded.clear()
            await controller.recorded.wait()
