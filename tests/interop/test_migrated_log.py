"""A log of the second edition is signed once on command, and verified by proxies and by the audit jobs."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.lab.cluster import probe
from tests.lab.cluster.node import CHECKOUT, READY_TIMEOUT_MS, penstock
from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.earlier_release import audit_with, code_of, extracted

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SECOND_EDITION = "0a5cf906"


@pytest.mark.spec("S14", "D13")
def test_the_log_of_the_second_edition_is_signed_once_and_verified(kafka_libs: Path, tmp_path: Path) -> None:
    old = code_of(extracted(SECOND_EDITION, tmp_path / "second", "proxy", "forwarding"))
    stack = Stack(
        StackSettings(
            directory=tmp_path / "stack",
            libs=kafka_libs,
            proxy_environment=old,
            controller_environment=old,
        )
    )
    keys = [metadata(file) for file in (stack.proxy_file, stack.controller_file)]
    for file in (stack.proxy_file, stack.controller_file):
        set_metadata(file, {})
    public_keys = stack.controller_file.parent / "controllers.pub"
    shutil.copy(stack.proxy_file.parent / "controllers.pub", public_keys)
    signs = keys[1] | {"public.keys.file": public_keys.name}

    with stack.running():
        admin = ClusterAdmin(stack, "admin")
        mary = admin.user("mary")
        admin.topic("orders")
        admin.allow(mary, "READ", "WRITE", topic="orders")
        admin.deny(mary, "READ", topic="secret")
        stack.proxy.stop()
        stack.controller.stop()
        set_metadata(stack.controller_file, signs | {"unsigned": "report"})
        reports = restarted(stack, "controller", stack.controller_file, "reports")
        signed = "signed what the metadata log had"
        reports.wait_until(lambda: signed in reports.log.read_text(), READY_TIMEOUT_MS)
        set_metadata(stack.proxy_file, keys[0])
        proxy = restarted(stack, "proxy", stack.proxy_file, "verifies")
        reports.stop()
        set_metadata(stack.controller_file, signs)
        rejects = restarted(stack, "controller", stack.controller_file, "rejects")
        try:
            listed = stack.tools("admin").run("kafka-acls", "--list", "--principal", f"User:{mary.name}").said
            assert "name=orders" in listed
            assert "permissionType=DENY" in listed
            assert "no signature; in effect" not in rejects.log.read_text()
            places = ("--tables", str(tmp_path / "tables"))
            audit_with(CHECKOUT, "ingest", "--bootstrap", stack.broker.plaintext, *places)
        finally:
            rejects.stop()
            proxy.stop()

    told = audit_with(
        CHECKOUT,
        *("reconcile", *places, "--out", str(tmp_path / "out"), "--public-keys", str(public_keys)),
    )
    assert "findings: 0 critical, 0 high, 0 medium" in told
    assert "verified with 1 public keys up to transaction 1" in told


def metadata(file: Path) -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(file.read_text())["metadata"]
    return found


def set_metadata(file: Path, keys: dict[str, str]) -> None:
    config = yaml.safe_load(file.read_text())
    config["metadata"] = {"topic": "__penstock_metadata", **keys}
    file.write_text(yaml.safe_dump(config))


def restarted(stack: Stack, role: str, file: Path, name: str) -> ChildProcess:
    """The process of this edition with the configuration of the one before, when it is ready."""
    process = penstock(role, name, file, stack.logs)
    process.start()
    http = yaml.safe_load(file.read_text())["http"]["bind"]
    process.wait_until(lambda: probe.is_ready(http), READY_TIMEOUT_MS)
    return process
