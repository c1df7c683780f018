"""The audit trail of all that the interop tests did to one stack (this file comes last), as Spark sees it."""

import json
import sys
from pathlib import Path

import pytest

from proxy.demo.run import run
from proxy.demo.stack import Stack
from proxy.demo.users import User
from tests.support.cluster_admin import ClusterAdmin

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


@pytest.mark.spec("D4", "D5", "D6")
@pytest.mark.usefixtures("our_controller")
def test_spark_finds_nothing_not_even_where_a_process_was_killed(
    stack: Stack, cluster_admin: ClusterAdmin, alice: User, topic: str, tmp_path: Path
) -> None:
    cluster_admin.allow_produce(alice, topic)
    stack.proxy.kill()
    stack.start_proxy()
    cluster_admin.allow_consume(alice, topic, topic)
    command = [sys.executable, "-m", "spark_audit", "run", "--bootstrap", stack.broker.plaintext]
    places = ["--tables", str(tmp_path / "tables"), "--out", str(tmp_path / "report")]

    done = run([*command, *places], timeout_ms=400_000, directory=stack.checkout)

    # What the killed proxy had written is proven complete by the link of the one that came after it.
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "report" / "findings.json").read_text(encoding="utf-8"))
    assert document["findings"] == []
    assert set(document["summary"]["decisions"]) == {"evaluated"}
