"""`python -m tests.lab.demo [--keep] [--brokers 3] [--controller kraft] [--dir DIR]`: plays the story.

Exit code: 0 when every step showed what it should, 1 when one did not, 2 when the stage could not be set.
"""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from tests.lab.cluster import kafka
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.run import end_all
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.demo import description, story
from tests.lab.demo.directory import claim
from tests.lab.demo.stage import Stage
from tests.lab.demo.steps.audit import report_of
from tests.lab.demo.supervision import supervised

DEFAULT_DIRECTORY = Path("build") / "demo"
SHOWN, NOT_SHOWN, NOT_SET_UP = 0, 1, 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP: not an error, and nothing that waits should take it for one."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    for number in _SIGNALS:
        signal.signal(number, _stop)
    try:
        with claim(arguments.dir) as directory:
            wanted = StackSettings(
                directory=directory,
                libs=kafka.libs(),
                brokers=arguments.brokers,
                controller=arguments.controller,
            )
            return _run(Stack(wanted), keep=arguments.keep)
    except SetupError as error:
        print(f"demo: {error}", file=sys.stderr)
        return NOT_SET_UP
    except _Stopped:
        print("stopped", file=sys.stderr)
        return NOT_SET_UP


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.demo", description="The whole of Penstock on loopback."
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the stack up until SIGINT, SIGTERM or SIGHUP"
    )
    parser.add_argument(
        "--brokers", type=int, choices=(1, 3), default=1, help="each with a proxy of its own; default: 1"
    )
    parser.add_argument(
        "--controller",
        choices=("penstock", "kraft"),
        default="penstock",
        help="kraft: Kafka's own in place of ours; default: penstock",
    )
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help=f"default: {DEFAULT_DIRECTORY}")
    return parser


def _run(stack: Stack, *, keep: bool) -> int:
    try:
        _set_up(stack)
        if not keep:
            return _verdict(_play(stack))
        with supervised(stack, print):
            return _stay(stack)
    finally:
        _stop_all(stack)


def _stay(stack: Stack) -> int:
    """The story once, then nothing until a signal: the expected end, even in the middle of the story."""
    outcomes: list[story.Outcome] = []
    try:
        outcomes += _play(stack)
        print("\n" + description.how_to_connect(stack))
        print("\nThe stack stays up until Ctrl-C.", flush=True)
        while True:
            signal.pause()
    except _Stopped:
        return _verdict(outcomes)


def _verdict(outcomes: list[story.Outcome]) -> int:
    return SHOWN if all(outcome.shown for outcome in outcomes) else NOT_SHOWN


def _set_up(stack: Stack) -> None:
    stack.start(lambda line: print(line, flush=True))
    print("kafka-configs: SCRAM users alice, bob", flush=True)
    stack.create_users("alice", "bob")
    description.write(stack)
    print(f"ready: {stack.entrance().bootstrap}, described in {stack.directory / 'stack.json'}\n", flush=True)


def _play(stack: Stack) -> list[story.Outcome]:
    outcomes = story.play(Stage(stack), story.acts(len(stack.nodes)))
    print("\n" + story.table(outcomes, shutil.get_terminal_size((120, 40)).columns))
    report = report_of(stack.directory)
    print(f"\nreport: {report if report.exists() else 'none'}\nlogs:   {stack.logs}", flush=True)
    return outcomes


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _stop_all(stack: Stack) -> None:
    # From here on there is nothing left to interrupt: a second Ctrl-C must not leave processes behind.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end_all()
    for name in stack.stop():
        print(f"{name} did not stop on SIGTERM and was killed", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
