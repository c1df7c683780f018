"""The audit trail of all that the interop tests did to one stack (this file comes last), as Spark sees it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from proxy.wire.api_keys import ApiKey
from tests.interop.test_quota_types import EXCEEDED, channel, codes, create, limit
from tests.lab.cluster.run import run
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User
from tests.support.cluster_admin import ClusterAdmin
from tests.support.topic_requests import metadata_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


async def throttled_in_each_way(stack: Stack, user: User, topic: str) -> None:
    """By what the loop's time costs, and by how many partitions were made."""
    entity = ("user", user.name)
    async with await channel(stack, "admin") as ours, await channel(stack, user.name) as hers:
        await limit(ours, entity, "request_percentage", 0.001)
        asked = metadata_of(topic)
        async with asyncio.timeout(60):
            while not (await hers.request(ApiKey.METADATA, 9, asked)).throttle_time_ms:
                pass
        await limit(ours, entity, "request_percentage", None)
    async with await channel(stack, "admin") as ours:
        await limit(ours, entity, "controller_mutation_rate", 0.01)
        async with await channel(stack, user.name) as hers:
            made = await create(hers, f"{topic}-one", f"{topic}-two")
        assert codes(made.topics, f"{topic}-one", f"{topic}-two") == [0, EXCEEDED]
        await limit(ours, entity, "controller_mutation_rate", None)


@pytest.mark.long
@pytest.mark.spec("D4", "D5", "D6", "Q12")
@pytest.mark.usefixtures("our_controller")
def test_spark_finds_nothing_not_even_where_a_process_was_killed(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str, tmp_path: Path
) -> None:
    cluster_admin.allow_produce(alice, topic)
    stack.proxy.kill()
    stack.start_proxy()
    cluster_admin.allow_consume(alice, topic, topic)
    for name in ("one", "two"):
        cluster_admin.allow(alice, "CREATE", topic=f"{topic}-{name}")
    asyncio.run(throttled_in_each_way(stack, alice, topic))
    command = [sys.executable, "-m", "spark_audit", "run", "--bootstrap", stack.broker.plaintext]
    places = ["--tables", str(tmp_path / "tables"), "--out", str(tmp_path / "report")]

    done = run([*command, *places], timeout_ms=400_000, directory=stack.checkout)

    # What the killed proxy had written is proven complete by the link of the one that came after it.
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "report" / "findings.json").read_text(encoding="utf-8"))
    assert document["findings"] == []
    assert set(document["summary"]["decisions"]) == {"evaluated"}
