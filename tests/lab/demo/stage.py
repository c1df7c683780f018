"""What every step of the story plays on: stack, actors, topic; and how a step says what it saw."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.cluster.stack import Stack
from tests.lab.cluster.tools import ToolRun

TOPIC = "demo-orders"
GROUP = "demo-billing"

# The actors are the story's own: alice and bob stay as they are, without rights, for whoever uses the stack.
PRODUCER = "carol"
CONSUMER = "dave"
IDLER = "erin"
ACTORS = (PRODUCER, CONSUMER, IDLER)

_SHOWN_CHARACTERS = 160


class NotShown(Exception):
    """A step did not show what it should; the message says what was seen instead."""


@dataclass(frozen=True, slots=True)
class Stage:
    stack: Stack

    def as_admin(self, tool: str, *arguments: str) -> ToolRun:
        """A tool as `admin`, which must succeed."""
        return must_succeed(self.stack.tools("admin").run(tool, *arguments))


Play = Callable[[Stage], str]
"""Plays a step and gives back what was seen; NotShown when that is not what it should be."""


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    doing: str
    play: Play


def must_succeed(run: ToolRun) -> ToolRun:
    if run.returncode != 0:
        raise NotShown(f"{run.tool} ended with code {run.returncode}: {last_lines(run.said)}")
    return run


def must_say(run: ToolRun, words: str) -> ToolRun:
    if words not in run.said:
        raise NotShown(f"{run.tool} did not say {words!r} but: {last_lines(run.said)}")
    return run


def last_lines(text: str) -> str:
    """The end of what a tool printed, short enough for a table."""
    lines = (line.strip()[:_SHOWN_CHARACTERS] for line in text.strip().splitlines()[-3:])
    return " / ".join(lines) or "nothing"
