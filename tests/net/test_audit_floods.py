"""One user's noise against a small spool: administrators go on, and others' denials are on record."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proxy.audit.classes import ADMIN, DENIAL
from proxy.audit.record import AuditEvent, Author
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import REFUSE, AuditPolicy
from proxy.net.audit.spool import Spool
from proxy.security.delegation_tokens import TokenSecret
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import Conversation, gate_with, sasl
from tests.support.images import image_of

pytestmark = pytest.mark.spec("D1", "D3", "O6")

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
SPOOL_BYTES = 8 << 20
DESCRIBE_TOKENS = ApiKey.DESCRIBE_DELEGATION_TOKEN
CHANGE = AuditEvent(event="authorization", granted=True, method="CreateAcls", principal="User:root")


class Trail:
    """Of a proxy whose Kafka is away: nothing leaves the spool."""

    def __init__(self, directory: Path, spool_bytes: int = SPOOL_BYTES, **policy: Any) -> None:
        self.now_ms = 1_795_348_800_000
        self.spool = Spool(directory, spool_bytes)
        settings = AuditPolicy({ADMIN: REFUSE}, **policy)
        self.log = AuditLog(AUTHOR, self.spool, None, lambda: self.now_ms, settings)  # type: ignore[arg-type]

    async def takes(self, talk: Conversation) -> None:
        """What a session has to tell, as its proxy writes it down."""
        for event in talk.events:
            self.log.append(event)
        talk.events.clear()
        await self.log.wait_until_durable()

    async def is_unharmed(self) -> None:
        """An administrator's change goes on, and what is denied to somebody else is on record."""
        assert await self.log.allows_change()
        before = self.log.drops.total
        self.log.append(CHANGE)
        self.log.append(
            AuditEvent(event="authorization", granted=False, principal="User:bob", resource_name="his topic")
        )
        assert await self.log.allows_change()
        assert self.log.drops.total == before
        assert [record["resource_name"] for record in self.records()[-2:]] == [None, "his topic"]

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line.value)["data"] for line in self.spool.unshipped(100_000)]


@pytest.fixture
def conversation() -> Conversation:
    gate = gate_with(image_of())
    gate.token_secret = TokenSecret(b"of the cluster")
    talk = Conversation(gate=gate, sasl_listener=sasl())
    talk.logs_in("alice")
    return talk


async def test_describing_ones_own_tokens_under_changing_client_ids_fills_no_spool(
    tmp_path: Path, conversation: Conversation
) -> None:
    trail, talk = Trail(tmp_path), conversation
    sent_bytes = 0
    for number in range(3_000):
        request = t.DescribeDelegationTokenRequest(owners=[])
        frame = talk.request(DESCRIBE_TOKENS, 3, request, client_id=f"{number:x}")
        sent_bytes += len(frame)
        talk.sends(frame)
        talk.heard(DESCRIBE_TOKENS, 3)
    talk.events += talk.summaries()
    await trail.takes(talk)

    await trail.is_unharmed()
    assert trail.spool.size_bytes < sent_bytes
    counts = [r["count"] for r in trail.records() if r["method"] == "DescribeDelegationToken"]
    assert sum(counts) == 3_000
    assert len(counts) < 30


async def test_denials_of_one_user_push_out_nobody_elses(tmp_path: Path, conversation: Conversation) -> None:
    trail, talk = Trail(tmp_path), conversation
    topic = t.MetadataRequest.MetadataRequestTopic
    for number in range(60):
        names = [topic(name=f"secret-{number}-{place}") for place in range(90)]
        talk.asks(ApiKey.METADATA, 12, t.MetadataRequest(topics=names))
        talk.answers(ApiKey.METADATA, 12, t.MetadataResponse())
        await trail.takes(talk)

    await trail.is_unharmed()
    trail.log.append(AuditEvent(event="stopped"))
    await trail.log.wait_until_durable()
    told: Counter[str] = Counter()
    for record in trail.records():
        if record["principal"] == "User:alice" and record["granted"] is False:
            told[record["event"]] += record["count"] or 1
    assert sum(told.values()) == 60 * 90
    assert told["authorization"] == 1_000
    assert trail.records()[-1]["event"] == "stopped"


FLOODS = {
    "denial": AuditEvent(event="authorization", granted=False, principal="User:mallory", message="d" * 500),
    "read": AuditEvent(event="authorization", granted=True, method="DescribeAcls", principal="User:mallory"),
    "summary": AuditEvent(event="authorization_summary", granted=True, principal="User:mallory"),
    "login": AuditEvent(event="authentication", principal="User:mallory"),
    "rejected": AuditEvent(event="admin_request", error_code=64, principal="User:mallory"),
}


@pytest.mark.parametrize("flood", sorted(set(FLOODS) - {"denial", "rejected"}))
async def test_each_class_has_room_in_the_spool_that_no_other_takes(tmp_path: Path, flood: str) -> None:
    trail = Trail(tmp_path, 1 << 20, rate_per_principal=0)
    while not trail.log.drops.total:
        trail.log.append(FLOODS[flood])
        if not trail.log.sequence % 100:
            await trail.log.wait_until_durable()

    await trail.is_unharmed()
    assert trail.log.capacity.spool_ratio > 0.95


@pytest.mark.parametrize("flood", ["denial", "rejected"])
async def test_denials_without_any_rate_do_not_keep_administrators_from_their_work(
    tmp_path: Path, flood: str
) -> None:
    trail = Trail(tmp_path, 1 << 20, rate_per_principal=0)
    while not trail.log.drops.total:
        trail.log.append(FLOODS[flood])
        if not trail.log.sequence % 100:
            await trail.log.wait_until_durable()

    assert await trail.log.allows_change()
    trail.log.append(CHANGE)
    assert await trail.log.allows_change()
    assert trail.log.drops.counts["spool_full", ADMIN] == 0


async def test_changes_leave_the_reserve_of_denials(tmp_path: Path) -> None:
    trail = Trail(tmp_path, 1 << 20)
    while not trail.log.drops.total:
        trail.log.append(CHANGE)
        if not trail.log.sequence % 100:
            await trail.log.wait_until_durable()
    assert not await trail.log.allows_change()

    trail.log.append(FLOODS["denial"])

    assert trail.log.drops.counts["spool_full", DENIAL] == 0
    await trail.log.wait_until_durable()
    assert trail.records()[-2]["message"] == FLOODS["denial"].message
