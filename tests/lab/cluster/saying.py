"""What the test programs write to standard output, line by line: it is read while they run."""

import sys
from datetime import UTC, datetime


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say_when(line: str) -> None:
    """With the time of the day in front."""
    say(f"{datetime.now(UTC):%H:%M:%S} {line}")
