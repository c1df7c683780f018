"""Kafka's own log, read from a node's directory: it has the state that the proxy has in effect."""

import asyncio
import shutil
from pathlib import Path

import pytest

from proxy.wire.api_keys import ApiKey
from spark_audit import schema as S
from spark_audit.reconcile.kraft_states import digests
from tests.lab.cluster.stack import Stack
from tests.spark.kraft_state import rows_of_state
from tests.support.every_change import change_everything, change_tokens
from tests.support.gates import a_stack
from tests.support.two_sides import doors, until, user_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spec("S14", "D14")]

EAGER = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "internal.metadata.log.segment.bytes": "3000",
}
"""A snapshot and another segment every few changes."""


async def change(stack: Stack) -> None:
    _, door = doors(stack)
    await change_everything(door, "orders")
    await door.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request("carol", "secret"))
    carol = door.as_user("carol", "secret")
    await until(lambda: door.lets_in(carol))
    await change_tokens(door, carol)


def test_after_changes_of_all_kinds_a_nodes_log_has_the_state_of_the_proxy(
    kafka_libs: Path, tmp_path: Path
) -> None:
    with a_stack(kafka_libs, tmp_path / "stack", "kraft", broker_properties=EAGER) as stack:
        asyncio.run(change(stack))
        shutil.copytree(stack.broker.metadata_log, tmp_path / "copy")
        at_proxy = stack.metrics()["penstock_metadata_digest"]

    rows = rows_of_state(tmp_path / "copy")
    of_log = [row for row in rows if not row[S.FROM_SNAPSHOT]]
    assert len(of_log) < len(rows), "there are snapshots"
    last = rows[-1][S.LOG_OFFSET]
    for each in (rows, of_log):
        [(_, digest)] = digests(each, [last], [])
        assert int.from_bytes(digest[:6], "big") == at_proxy
