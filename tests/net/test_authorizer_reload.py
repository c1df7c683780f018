"""A proxy process and the authorizer of its configuration: how it starts, and what it is kept told."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proxy.app.process import ProxyProcess
from proxy.commands.check import check
from proxy.commands.run_proxy import EXIT_CONFIG, run_proxy
from proxy.config import ProxyConfig, load
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.replaceable import ReplaceableTask
from proxy.security.authorizer import Action, AllowAll, Decision, GuardedAuthorizer, RequestContext
from proxy.security.principal import parse_principal
from proxy.security.protected import underlying
from proxy.security.simple import SimpleAclAuthorizer
from tests.support.office_hours import Closing

SIMPLE = "proxy.security.simple.SimpleAclAuthorizer"
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
ALICE = RequestContext(parse_principal("User:alice"), "10.0.0.1", "PLAIN", None, image=MetadataImage.EMPTY)


def acl_file(permission: str) -> str:
    acl = {"principal": "alice", "permissionType": permission, "operations": ["READ"], "hosts": ["*"]}
    return json.dumps({"version": 1, "acls": [], "topics": {"orders": {"acls": [acl]}}})


def a_configuration(directory: Path, **authorizer: Any) -> Path:
    document = {
        "proxy.id": "proxy-1",
        "listeners": [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "authorizer": {key.replace("_", "."): value for key, value in authorizer.items()},
        "audit": {"spool.dir": "spool"},
    }
    path = directory / "proxy.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def a_process(path: Path) -> ProxyProcess:
    return ProxyProcess(load(path, ProxyConfig))


@pytest.mark.spec("A4")
def test_a_process_decides_by_the_acl_file_beside_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "acls.json").write_text(acl_file("DENY"), encoding="utf-8")
    path = a_configuration(tmp_path, class_name=SIMPLE, broker_acl_file_path="acls.json")

    assert check(path) == []
    process = a_process(path)

    assert process._gate.authorizer.authorize(ALICE, [READ]) == [
        Decision(False, "acl.file", "topics > orders > acls[0]")
    ]
    assert process._gate.authorizer.acl_count(MetadataImage.EMPTY) == 1


@pytest.mark.spec("A4", "O5")
def test_a_broken_acl_file_is_an_error_of_the_start_that_names_file_and_place(tmp_path: Path) -> None:
    file = tmp_path / "acls.json"
    file.write_text('{"version": 1,\n "acls": [{}]}', encoding="utf-8")
    path = a_configuration(tmp_path, class_name=SIMPLE, broker_acl_file_path="acls.json")
    told = f"{file}: acls[0]: 'hosts' is missing"

    with capture_logs() as lines:
        assert run_proxy(path) == EXIT_CONFIG

    assert [(line["event"], line["error"].startswith(told)) for line in lines] == [
        ("proxy cannot start", True)
    ]
    (problem,) = check(path)
    assert problem.startswith(f"{path}:3: authorizer: {told}")


@pytest.mark.spec("A1")
def test_a_process_asks_a_plug_in_with_settings_of_its_own(tmp_path: Path) -> None:
    path = a_configuration(
        tmp_path,
        class_name="tests.support.office_hours.Closing",
        super_users="User:alice",
        settings={"office.hours": "8-18"},
    )

    process = a_process(path)
    open_, closed = process._gate.authorizer, process._gate.authorizer
    assert open_.authorize(ALICE, [READ]) == [Decision(True, "super.users")]
    plug_in = underlying(process._gate.authorizer)
    assert isinstance(plug_in, Closing)
    plug_in.now_hour = 7

    assert closed.authorize(ALICE, [READ]) == [Decision(False, "office.closed")]
    assert "office.hours" not in process._frame.config.recorded_settings()


@pytest.mark.spec("A1", "O5")
@pytest.mark.parametrize(
    ("authorizer", "told"),
    [
        ({"class_name": "no.such.Class"}, "authorizer.class.name: cannot load 'no.such.Class'"),
        (
            {"class_name": "proxy.metadata.image.MetadataImage"},
            "authorizer.class.name: 'proxy.metadata.image.MetadataImage' is not an authorizer",
        ),
        (
            {"class_name": "tests.support.office_hours.Closing"},
            "authorizer.class.name: 'tests.support.office_hours.Closing' rejects its settings: office.hours",
        ),
        (
            {"class_name": SIMPLE, "settings": {"super.users": "User:eve"}},
            "authorizer: settings: super.users: move it one level up",
        ),
        (
            {"class_name": SIMPLE, "broker_acl_file_path": "missing.json"},
            "authorizer > broker.acl.file.path: no such file: ",
        ),
    ],
    ids=["not found", "no authorizer", "configure raises", "setting given twice", "no file"],
)
def test_a_process_does_not_start_without_the_authorizer_it_was_given(
    tmp_path: Path, authorizer: dict[str, Any], told: str
) -> None:
    path = a_configuration(tmp_path, **authorizer)

    with capture_logs() as lines:
        assert run_proxy(path) == EXIT_CONFIG

    assert [told in line["error"] for line in lines] == [True]


class Kept:
    """An upkeep that runs until `wanted` is so."""

    def __init__(self, authorizer: Any) -> None:
        self.forgotten = 0
        self.upkeep = AuthorizerReload(
            authorizer, FileReloads(CollectorRegistry()), self.forget, interval_ms=1
        )

    def forget(self) -> None:
        self.forgotten += 1

    async def has_forgotten(self) -> None:
        """Once more than now."""
        before = self.forgotten
        async with asyncio.timeout(20):
            while self.forgotten == before:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def until(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.upkeep.run())
            for _ in range(5_000):
                if wanted():
                    break
                await asyncio.sleep(0.002)
            running.cancel()
        assert wanted()


@pytest.mark.spec("A4")
async def test_a_changed_file_is_decided_by_and_decisions_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "acls.json"
    path.write_text(acl_file("ALLOW"), encoding="utf-8")
    authorizer = SimpleAclAuthorizer()
    authorizer.configure({"broker.acl.file.path": str(path)})
    kept = Kept(authorizer)
    before, forgotten = authorizer.authorize(ALICE, [READ])[0].allowed, kept.forgotten

    new = tmp_path / "new"
    new.write_text(acl_file("DENY"), encoding="utf-8")
    new.rename(path)
    await kept.until(lambda: kept.forgotten > forgotten)

    assert (before, authorizer.authorize(ALICE, [READ])[0].allowed) == (True, False)


@pytest.mark.spec("A1", "O9")
async def test_another_authorizers_upkeep_takes_the_place_of_the_one_before() -> None:
    class Brief(Closing):
        def decisions_last_ms(self) -> int:
            return 0

    first, second = Kept(Brief()), Kept(Brief())
    in_turn = ReplaceableTask(first.upkeep.run)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(in_turn.run())
        await first.has_forgotten()
        in_turn.replace(second.upkeep.run)
        await second.has_forgotten()
        before = first.forgotten
        await second.has_forgotten()
        running.cancel()

    assert first.forgotten == before


@pytest.mark.spec("A1")
async def test_decisions_that_last_a_time_are_forgotten_after_it() -> None:
    class Brief(Closing):
        def decisions_last_ms(self) -> int:
            return 0  # As short as it gets, which is not at once.

    kept = Kept(Brief())

    await kept.until(lambda: kept.forgotten >= 2)


@pytest.mark.spec("A1")
async def test_errors_of_an_authorizer_are_told_with_their_traceback() -> None:
    class Broken(AllowAll):
        def authorize(self, context: RequestContext, actions: Any) -> list[Decision]:
            raise RuntimeError("the door is stuck")

    guarded = GuardedAuthorizer(Broken())
    guarded.configure({})
    kept = Kept(guarded)
    with capture_logs() as lines:
        guarded.authorize(ALICE, [READ])
        guarded.authorize(ALICE, [READ])
        await kept.until(lambda: bool(lines))

    assert [(line["count"], line["last_error"].splitlines()[-1]) for line in lines] == [
        (2, "RuntimeError: the door is stuck")
    ]
