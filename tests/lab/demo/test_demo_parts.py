"""The parts of the demo that need no Kafka: its directory, threads, short-lived children and table."""

import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from proxy.commands.check import check
from proxy.config import ProxyConfig, load
from tests.lab.cluster import run
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.demo import directory, story
from tests.lab.demo.stage import NotShown, Stage, Step
from tests.lab.demo.story import Outcome

pytestmark = pytest.mark.tooling

# For steps that do not look at it.
_NO_STAGE = Stage(cast(Stack, None))


def test_a_directory_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(SetupError, match="not empty"), directory.claim(tmp_path):
        pass

    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_what_an_earlier_run_left_is_cleared(tmp_path: Path) -> None:
    with directory.claim(tmp_path / "demo") as ours:
        (ours / "logs").mkdir()
        (ours / "stack.json").write_text("{}")

    with directory.claim(tmp_path / "demo") as ours:
        assert [path.name for path in ours.iterdir()] == [directory.MARK]


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        directory.claim(tmp_path) as ours,
        pytest.raises(SetupError, match="another demo is running"),
        directory.claim(ours),
    ):
        pass


def test_a_short_lived_child_that_stays_is_ended_by_its_time_out() -> None:
    done = run.run([sys.executable, "-c", "import threading; threading.Event().wait()"], timeout_ms=300)

    assert done.returncode == -9
    assert "ended after 300 ms" in done.stderr


def test_all_short_lived_children_can_be_ended_from_another_thread(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"import pathlib, threading; pathlib.Path({str(started)!r}).touch(); threading.Event().wait()"

    def end() -> run.Finished | None:
        pause = threading.Event()
        while not started.exists():
            pause.wait(0.02)
        run.end_all()
        return None

    done, _ = at_once([lambda: run.run([sys.executable, "-c", program], timeout_ms=30_000), end])

    assert done is not None
    assert done.returncode == -9


def test_a_step_that_fails_is_reported_and_the_next_one_runs() -> None:
    def fails(_: Stage) -> str:
        raise NotShown("nothing happened")

    first, second = Step("first", "try", fails), Step("second", "try again", lambda _: "it happened")

    outcomes = story.play(_NO_STAGE, ((first,), (second,)))

    assert outcomes == [Outcome(first, "nothing happened", False), Outcome(second, "it happened", True)]


@pytest.mark.spec("O1", "O5")
def test_three_proxies_are_configured_to_name_one_another(tmp_path: Path) -> None:
    stack = Stack(StackSettings(directory=tmp_path, libs=tmp_path, brokers=3))

    files = [each.proxy_file for each in stack.nodes]
    configs = [load(file, ProxyConfig) for file in files]

    assert [problem for file in (*files, stack.controller_file) for problem in check(file)] == []
    assert [config.proxy_id for config in configs] == ["proxy-1", "proxy-2", "proxy-3"]
    for node, config in zip(stack.nodes, configs, strict=True):
        assert config.upstream.node_id == node.number == node.broker.node_id
        assert config.upstream.bootstrap == (node.broker.sasl_plaintext,)
        assert config.upstream.advertised_brokers == {
            other.number: dict(other.wiring.listeners) for other in stack.nodes if other is not node
        }
    assert len({config.audit.spool_dir for config in configs}) == 3


@pytest.mark.spec("O1", "O5")
def test_without_a_controller_of_ours_the_proxies_know_all_of_kafkas(tmp_path: Path) -> None:
    stack = Stack(StackSettings(directory=tmp_path, libs=tmp_path, brokers=3, controller="kraft"))

    configs = [load(each.proxy_file, ProxyConfig) for each in stack.nodes]

    assert [problem for each in stack.nodes for problem in check(each.proxy_file)] == []
    assert {config.controller.mode for config in configs} == {"kraft"}
    assert {config.controller.endpoints for config in configs} == {
        tuple(each.broker.controller for each in stack.nodes)
    }
    assert not stack.controller_file.exists()
    assert len(stack.processes) == 6
    with pytest.raises(SetupError, match="no controller of ours"):
        stack.controller.start()
