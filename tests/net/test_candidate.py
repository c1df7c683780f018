"""The candidate of a process: read at the start and at each reload, recorded, counted (SPEC D19)."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from structlog.testing import capture_logs

from forwarding.config import ControllerConfig
from proxy.app import candidate as module
from proxy.app.candidate import CandidateTrial
from proxy.app.process import ProxyProcess
from proxy.audit.record import AuditEvent
from proxy.commands.check import check
from proxy.config import AuthorizerConfig, ConfigError, load
from proxy.config.candidate import read_candidate
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.net.files.watched_file import FileReloads
from proxy.security.authorizer import Action, Decision, RequestContext
from proxy.security.principal import Principal
from proxy.security.shadow import NEWLY_ALLOWED, SAME, Shadow
from tests.net.test_reconfigured_proxy import STANDARD, Place, decided
from tests.support.edges import on_uvloop
from tests.unit.config.test_bootstrap_config import CONTROLLER, written

pytestmark = pytest.mark.spec("D19")

READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
ROW = "- {resource.type: TOPIC, resource.name: orders, principal: 'User:alice', operation: READ%s}\n"


def candidate(directory: Path, *rows: str) -> Path:
    path = directory / "candidate.yaml"
    path.write_text("acls:\n" + "".join(rows) if rows else "acls: []\n", encoding="utf-8")
    return path


def trial(path: Path | None) -> CandidateTrial:
    settings = AuthorizerConfig.model_validate({"class.name": STANDARD, "candidate": path and str(path)})
    return CandidateTrial(settings, FileReloads(CollectorRegistry()))


def told(event: AuditEvent) -> Mapping[str, Any]:
    fields = ("event", "principal", "operation", "resource_name", "granted", "rule", "count", "message")
    return {name: value for name in fields if (value := getattr(event, name)) is not None}


def test_a_file_is_read_as_apply_reads_it(tmp_path: Path) -> None:
    path = candidate(tmp_path, ROW % "", ROW % ", host: 10.0.0.0/8, until: '2027-01-31T18:00:00Z'")
    with path.open("a", encoding="utf-8") as file:
        file.write("quotas:\n- {user: etl, quota: consumer_byte_rate, limit: 1048576}\nusers: []\n")

    found = read_candidate(path)

    assert sorted(found.acls.by_id) == [
        "ALLOW User:alice from * READ TOPIC LITERAL orders",
        "ALLOW User:alice from 10.0.0.0/8 READ TOPIC LITERAL orders until 2027-01-31T18:00:00.000Z",
    ]
    assert found.digest == sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ((ROW % "", ROW % ""), "orders: the file has it twice"),
        ((ROW % ", host: ten",), "Host 'ten'"),
        ((ROW % ", pattern.type: ANY",), "pattern type is unknown"),
        ((ROW % ", operatoin: READ",), "operatoin"),
        ((ROW % ", permission.type: DENY, until: '2027-01-31T18:00:00Z'",), "only an ALLOW may have an end"),
    ],
)
def test_a_file_that_says_what_decisions_cannot_read_is_an_error(
    tmp_path: Path, rows: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        trial(candidate(tmp_path, *rows))


def test_a_file_without_acls_is_no_candidate(tmp_path: Path) -> None:
    path = tmp_path / "candidate.yaml"
    path.write_text("quotas: []\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="acls"):
        read_candidate(path)


def compare(shadow: Shadow | None, *names: str) -> None:
    """As if the policy in effect denied alice all of these topics."""
    assert shadow is not None
    context = RequestContext(Principal("User", "alice"), "10.0.0.1", "ONE", None, image=MetadataImage.EMPTY)
    actions = [READ._replace(resource_name=name) for name in names]
    shadow.compare(context, actions, [Decision(False, "default.deny")] * len(actions))


def test_what_was_compared_in_an_interval_is_recorded_once(tmp_path: Path) -> None:
    path = candidate(tmp_path, ROW % "")
    tried = trial(path)
    name = f"candidate {sha256(path.read_bytes()).hexdigest()[:16]}"

    compare(tried.shadow, "orders", "orders", "other")
    first, second = list(tried.events(1_000)), list(tried.events(2_000))

    assert [told(event) for event in first] == [
        {"event": "candidate_compared", "count": 3, "message": name},
        {
            "event": "candidate_differs",
            "principal": "User:alice",
            "operation": "READ",
            "resource_name": "orders",
            "granted": False,
            "rule": "default.deny",
            "count": 2,
            "message": f"{name}: allowed (ALLOW User:alice from * READ TOPIC LITERAL orders)",
        },
    ]
    assert {(event.interval_end_ms, event.host or "10.0.0.1") for event in first} == {(1_000, "10.0.0.1")}
    assert second == []


def test_differences_without_a_record_of_their_own_are_one_record(tmp_path: Path) -> None:
    tried = trial(candidate(tmp_path, (ROW % "").replace("orders", "'*'")))
    compare(tried.shadow, *(f"t{number}" for number in range(107)))

    found = [told(event) for event in tried.events(1_000)]

    assert len(found) == 102
    assert found[-1]["count"] == 7
    assert found[-1]["message"].endswith(": differences beyond the first 100 of the interval")
    assert "principal" not in found[-1]


def test_errors_are_recorded_and_logged(tmp_path: Path) -> None:
    tried = trial(candidate(tmp_path, ROW % ""))
    assert tried.shadow is not None
    tried.shadow._authorizer = None  # type: ignore[assignment] # an error of the candidate
    compare(tried.shadow, "orders")

    with capture_logs() as lines:
        tried.log_errors()
        tried.log_errors()

    ((level, count, error),) = [(line["log_level"], line["count"], line["last_error"]) for line in lines]
    assert (level, count) == ("error", 1)
    assert "AttributeError" in error
    (event,) = tried.events(1_000)
    name = f"candidate {tried.shadow.digest[:16]}"
    assert told(event) == {"event": "candidate_compared", "count": 0, "message": f"{name}: errors: 1"}


async def test_an_acl_that_ends_is_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    until_ms, forgotten = 1_801_418_400_000, asyncio.Event()  # 2027-01-31T18:00:00Z
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "now_ms", lambda: until_ms - 1)
    tried = trial(candidate(tmp_path, ROW % ", until: '2027-01-31T18:00:00Z'"))
    assert tried.shadow is not None
    compare(tried.shadow, "orders")

    monkeypatch.setattr(module, "now_ms", lambda: until_ms)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(tried.run(forgotten.set))
        await forgotten.wait()
        running.cancel()
    compare(tried.shadow, "orders")

    assert (tried.shadow.counts[NEWLY_ALLOWED], tried.shadow.counts[SAME]) == (1, 1)


@on_uvloop
async def test_a_reload_tries_another_file_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = candidate(tmp_path, ROW % "")
    place.document["authorizer"] = {"class.name": STANDARD, "candidate": "candidate.yaml"}
    async with place.runs() as process:
        first = shadow_of(process)
        assert not decided(process, "alice").allowed
        basis = process._gate.basis
        await place.changes()
        # The same file: nothing is decided again.
        assert process._gate.basis is basis

        path.write_text("acls: [", encoding="utf-8")
        with pytest.raises(ConfigError, match="candidate"):
            await place.changes()
        assert shadow_of(process) is first
        assert first.counts["newly_allowed"] == 1

        sequence = process._audit.sequence
        candidate(tmp_path)
        await place.changes()
        assert shadow_of(process) is not first
        # What the first one has found, and that the file was read.
        assert process._audit.sequence - sequence == 3
        assert process._gate.basis.rights is not basis.rights
        assert not decided(process, "alice").allowed
        text = generate_latest(process._frame.registry).decode()
        assert 'penstock_candidate_decisions_total{outcome="newly_allowed"} 1.0' in text
        assert 'penstock_candidate_decisions_total{outcome="same"} 1.0' in text

        del place.document["authorizer"]["candidate"]
        await place.changes()
        assert process._gate.authorizer.shadow is None  # type: ignore[attr-defined]


def shadow_of(process: ProxyProcess) -> Shadow:
    found = process._gate.authorizer.shadow  # type: ignore[attr-defined]
    assert isinstance(found, Shadow)
    assert process._candidate.shadow is found
    return found


def test_check_reads_the_candidate_where_it_has_an_effect(tmp_path: Path) -> None:
    place = Place(tmp_path)
    path = candidate(tmp_path, ROW % "")
    place.document["authorizer"] = {"class.name": STANDARD, "candidate": "candidate.yaml"}
    place.config()
    assert check(tmp_path / "proxy.yaml") == []

    candidate(tmp_path, ROW % "", ROW % "")
    (problem,) = check(tmp_path / "proxy.yaml")
    assert problem.startswith(f"{path}: ALLOW User:alice")

    place.document["authorizer"] = {"class.name": "", "candidate": "candidate.yaml"}
    with pytest.raises(ConfigError, match="a candidate has ACLs of StandardAuthorizer"):
        place.config()


def test_a_controller_has_no_candidate(tmp_path: Path) -> None:
    candidate(tmp_path, ROW % "")
    authorizer = {"class.name": STANDARD, "candidate": "candidate.yaml"}
    with pytest.raises(ConfigError, match="a candidate decides at the proxies; move the key to their files"):
        load(written(tmp_path, CONTROLLER | {"authorizer": authorizer}), ControllerConfig)
