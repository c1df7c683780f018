"""Whom a process witnesses of those that it hears, and which messages count."""

from dataclasses import dataclass, field

import pytest

from proxy.audit.checkpoints import Checkpoint, Signer
from proxy.audit.same_id import MOST_PROCESSES, SILENT_MS
from proxy.audit.witnesses import STALE_MS, Witness
from tests.support.signing import signing_key

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
        return [self.witness.hear(other.witness.message(), now_ms, now_ms) for other in others]


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


@pytest.mark.spec("D14", "D15")
def test_an_old_end_that_somebody_writes_again_hides_no_newer_one() -> None:
    one, other = Process("proxy-1/b001"), Process("proxy-2/b002", sequence=41)
    replayed, old = other.witness.message(), other.end
    one.hears(other)
    assert one.witness.due(0) == [old]
    for minute in range(1, 4):
        other.sequence += 10
        one.hears(other)
        one.witness.hear(replayed, minute, minute)
        assert one.witness.due(minute) == [other.end]
    # Nor does a longer one that is forged, which is recorded, and found.
    forged = Process("proxy-2/b002", sequence=10**9)
    one.hears(forged, other)
    assert one.witness.due(4) == [forged.end]
    other.sequence += 10
    one.hears(other)
    assert one.witness.due(5) == [other.end]


@pytest.mark.spec("D14", "D15")
def test_a_checkpoint_of_before_stands_for_no_process_that_runs() -> None:
    """Somebody who has kept the messages of boots that have ended takes the places of those that run."""
    now_ms = 1_795_435_200_000

    def note(key: str, age_ms: int) -> bytes:
        proxy_id, _, boot_id = key.partition("/")
        said = Checkpoint(proxy_id, boot_id, 5, LINK, now_ms - age_ms)
        return b"-" * 64 + Signer(proxy_id, signing_key(key)).signed(said.text()).encode()

    one = Witness("proxy-1/b009", lambda: "", None)
    for ended in ("proxy-1/b001", "proxy-2/b001", "proxy-2/b002"):
        assert not one.hear(note(ended, STALE_MS + 1), 0, now_ms)
    runs = note("proxy-3/b001", STALE_MS)
    assert one.hear(runs, 0, now_ms)
    assert one.due(0) == [runs[64:].decode()]
    assert one.same_id(0) is None


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

    assert not one.witness.hear(message.replace(b"/41/", b"/40/"), 0, 0)
    assert one.witness.due(0) == []
    assert one.witness.hear(message, 0, 0)


@pytest.mark.parametrize("message", [b"", b"-" * 64, b"\xff" * 200, b"-" * 64 + b"a/b/c/1/x", b"-" * 5000])
def test_a_message_of_another_form_does_not_count(message: bytes) -> None:
    one = Process("proxy-1/b001", None)

    assert not one.witness.hear(message, 0, 0)
    assert one.witness.due(0) == []


def test_the_number_of_processes_is_bounded() -> None:
    one = Process("proxy-1/b001", None)
    heard = [one.hears(Process(f"other-{number}/b", None))[0] for number in range(MOST_PROCESSES + 1)]

    assert heard == [True] * MOST_PROCESSES + [False]
