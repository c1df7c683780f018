"""A proxy records each change of a quota that reaches it, under its own id (KIP-55's notification)."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from proxy.app.process import ProxyProcess
from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig, load
from proxy.metadata.quota_entity import QuotaEntity
from proxy.net.audit.audit_log import AuditLog
from proxy.quota.keys import PRODUCER_BYTE_RATE
from tests.support.edges import SHOULD_NOT_TAKE_S
from tests.support.metadata_log import quota_record, values


@pytest.mark.spec("Q9")
async def test_each_proxy_records_the_quotas_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {
        "proxy.id": "proxy-1",
        "listeners": [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "audit": {"spool.dir": "spool"},
    }
    (tmp_path / "proxy.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    events: list[AuditEvent] = []
    recorded = asyncio.Event()

    def record(_audit: AuditLog, event: AuditEvent) -> None:
        events.append(event)
        recorded.set()

    monkeypatch.setattr(AuditLog, "append", record)
    process = ProxyProcess(load(tmp_path / "proxy.yaml", ProxyConfig))
    alice = QuotaEntity(user="alice", client_id="app")

    def changes() -> list[AuditEvent]:
        return [event for event in events if event.event == "quota_changed"]

    process._plane.loader.load_until(0)
    process._plane.loader.batch(0, values(quota_record(QuotaEntity(user="bob"), PRODUCER_BYTE_RATE, 1_000.0)))
    process._plane.loader.batch(1, values(quota_record(alice, PRODUCER_BYTE_RATE, 1_000.0)))
    async with asyncio.timeout(SHOULD_NOT_TAKE_S), asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(part) for part in process._background()]
        while len(changes()) < 2:
            recorded.clear()
            await recorded.wait()
        for task in background:
            task.cancel()

    assert [(each.entity_path, each.metadata_offset) for each in changes()] == [
        ("users/bob", 0),
        ("users/alice/clients/app", 1),
    ]
    assert [json.loads(each.message or "") for each in changes()] == [
        {"version": 2, "entity_path": "users/bob"},
        {"version": 2, "entity_path": "users/alice/clients/app"},
    ]
