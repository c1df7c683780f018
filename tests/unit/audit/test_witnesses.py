"""Whom a process witnesses of those that it hears, and which messages count."""

from dataclasses import dataclass, field

import pytest

from proxy.audit.same_id import MOST_PROCESSES, SILENT_MS
from proxy.audit.witnesses import Witness

pytestmark = pytest.mark.spec("D8")

LINK = "ab" * 32
SECRET = b"s" * 32


@dataclass
class Process:
    """A process of a cluster without a network."""

    key: str
    secret: bytes | None = SECRET
    sequence: int = -1
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.key, lambda: self.end, self.secret)

    @property
    def end(self) -> str:
        return f"{self.key}/{self.sequence}/{LINK}"

    def hears(self, *others: "Process", now_ms: int = 0) -> list[bool]:
        return [self.witness.hear(other.witness.message(), now_ms) for other in others]


def test_each_process_witnesses_the_two_that_follow_it_so_that_each_has_two_witnesses() -> None:
    processes = [Process(f"proxy-{letter}/b007") for letter in "cadbe"]
    for each in processes:
        each.hears(*processes)

    seen = {each.key[6]: [end[6] for end in each.witness.due(0)] for each in processes}

    assert seen == {"a": ["b", "c"], "b": ["c", "d"], "c": ["d", "e"], "d": ["e", "a"], "e": ["a", "b"]}


def test_an_end_is_recorded_once_and_again_when_the_process_has_written_more() -> None:
    one, other = Process("proxy-1/b001"), Process("proxy-2/b002")

    assert one.hears(other) == [True]
    assert one.witness.due(0) == [other.end]
    assert one.hears(other) == [False]
    assert one.witness.due(1) == []
    other.sequence = 41
    one.hears(other)
    assert one.witness.due(2) == [f"proxy-2/b002/41/{LINK}"]


def test_a_process_that_was_silent_for_three_minutes_is_followed_by_the_next_one() -> None:
    one, silent, third, last = (Process(f"proxy-{number}/b001") for number in range(1, 5))
    one.hears(silent, third, last)
    one.hears(third, last, now_ms=SILENT_MS + 1)

    assert one.witness.due(SILENT_MS + 1) == [third.end, last.end]
    assert one.hears(silent) == [True]


def test_its_own_message_is_not_recorded() -> None:
    one = Process("proxy-1/b001")

    assert one.hears(one) == [False]
    assert one.witness.due(0) == []


@pytest.mark.parametrize("secret", [b"t" * 32, None], ids=["another key", "no key"])
def test_with_a_key_only_messages_of_those_who_have_it_count(secret: bytes | None) -> None:
    one, other = Process("proxy-1/b001"), Process("proxy-2/b002", secret)

    assert one.hears(other) == [False]
    assert one.witness.due(0) == []


def test_a_message_whose_end_was_altered_does_not_count() -> None:
    one, other = Process("proxy-1/b001"), Process("proxy-2/b002", sequence=41)
    message = other.witness.message()

    assert not one.witness.hear(message.replace(b"/41/", b"/40/"), 0)
    assert one.witness.due(0) == []
    assert one.witness.hear(message, 0)


@pytest.mark.parametrize("message", [b"", b"-" * 64, b"\xff" * 200, b"-" * 64 + b"a/b/c/1/x", b"-" * 5000])
def test_a_message_of_another_form_does_not_count(message: bytes) -> None:
    one = Process("proxy-1/b001", None)

    assert not one.witness.hear(message, 0)
    assert one.witness.due(0) == []


def test_the_number_of_processes_is_bounded() -> None:
    one = Process("proxy-1/b001", None)
    heard = [one.hears(Process(f"other-{number}/b", None))[0] for number in range(MOST_PROCESSES + 1)]

    assert heard == [True] * MOST_PROCESSES + [False]
