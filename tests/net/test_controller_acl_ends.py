"""The controller and ACLs with an end: over a real log, from the request to the removal."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forwarding.controller.acls import STAYS_ENDED_MS
from proxy.metadata.acl import end_text, tags_of_end
from proxy.net.runtime.clock import now_ms
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import a_controller_and_a_forwarder, acl_creation, forward
from tests.support.dumped_log import dumped

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.spec("A11")]


def creation(until_ms: int | None, name: str = "orders") -> Any:
    acl = acl_creation(name, "User:bob", unknown_tags=tags_of_end(until_ms))
    return types.CreateAclsRequest(creations=[acl])


@pytest.mark.spec("S1", "D1")
async def test_what_has_ended_leaves_the_log_on_record_and_kafkas_own_tool_reads_it(
    kafka: Broker, kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (controller, forwarder):
        processor, loader = controller.process.processor, controller.process.loader

        async def create(until_ms: int | None, name: str = "orders") -> Any:
            return (await forward(forwarder, ApiKey.CREATE_ACLS, creation(until_ms, name)))[1].results[0]

        past = await create(now_ms() - 1)
        await create(None, "kept")
        await create(now_ms() + 600_000)
        (first,) = (acl.id for acl in loader.image.acls.by_id.values() if acl.resource_name == "orders")
        end_ms = now_ms() + 700
        await create(end_ms)
        (acl,) = (acl for acl in loader.image.acls.by_id.values() if acl.resource_name == "orders")
        await asyncio.sleep(1.2)
        in_effect = len(loader.image.acls.ends)
        digest = loader.image.digest
        early = await processor.remove_ended_acls()
        processor._now_ms = lambda: end_ms + STAYS_ENDED_MS
        removed = [await processor.remove_ended_acls(), await processor.remove_ended_acls()]
        left = [each.resource_name for each in loader.image.acls.by_id.values()]

    assert (past.error_code, "in the past" in past.error_message) == (ErrorCode.INVALID_REQUEST, True)
    assert (acl.id, acl.until_ms) == (first, end_ms)
    assert in_effect == 0
    assert (early, removed, left) == (False, [True, False], ["kept"])
    assert loader.image.digest != digest
    (event,) = controller.told("acls_ended")
    (named,) = event.objects or ()
    assert (named["name"], named["operation"], named["old_value"]) == ("orders", "END", end_text(end_ms))
    (extended,) = [
        each
        for told in controller.told("forwarded_received")
        for each in told.objects or ()
        if each.get("old_value")
    ]
    assert extended["new_value"] == end_text(end_ms)

    dump = await dumped(kafka, kafka_libs, topic_name, tmp_path)
    assert dump.count('"type":"ACCESS_CONTROL_ENTRY_RECORD"') == 3, dump
    assert dump.count('"type":"REMOVE_ACCESS_CONTROL_ENTRY_RECORD"') == 1
    assert "Could not" not in dump
