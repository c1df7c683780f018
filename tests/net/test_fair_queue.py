"""The queue of login checks by itself: who is served next, and who finds no room."""

import pytest

from proxy.net.logins.verification import FairQueue, Path

pytestmark = pytest.mark.spec("O8")


def stranger(address: str, user: str = "alice") -> Path:
    return ("strangers", address, user)


def served(queue: FairQueue[str]) -> list[str]:
    return list(queue.drain())


def test_addresses_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[str] = FairQueue(100, 100)
    for number in range(4):
        queue.push(stranger("10.0.0.1"), f"many {number}")
    queue.push(stranger("10.0.0.2"), "one")
    queue.push(stranger("10.0.0.3"), "another")

    assert served(queue) == ["many 0", "one", "another", "many 1", "many 2", "many 3"]
    assert len(queue) == 0


def test_users_behind_one_address_take_turns_too() -> None:
    queue: FairQueue[str] = FairQueue(100, 100)
    for number in range(3):
        queue.push(stranger("10.0.0.1", "mallory"), f"mallory {number}")
    queue.push(stranger("10.0.0.1", "alice"), "alice")

    assert served(queue) == ["mallory 0", "alice", "mallory 1", "mallory 2"]


def test_known_clients_take_turns_with_all_strangers_together() -> None:
    queue: FairQueue[str] = FairQueue(100, 100)
    for number in range(3):
        queue.push(stranger(f"10.0.0.{number}"), f"stranger {number}")
        queue.push(("known", "User:alice", ""), f"alice {number}")

    assert served(queue) == ["stranger 0", "alice 0", "stranger 1", "alice 1", "stranger 2", "alice 2"]


def test_a_member_at_its_limit_has_no_room_and_others_have() -> None:
    queue: FairQueue[str] = FairQueue(100, 2)
    assert [queue.push(stranger("10.0.0.1"), each) for each in ("a", "b", "c")] == [None, None, "c"]
    assert queue.is_full(stranger("10.0.0.1"))
    assert queue.push(stranger("10.0.0.2"), "d") is None
    assert served(queue) == ["a", "d", "b"]


def test_in_a_full_group_the_one_that_has_most_gives_way_and_only_to_one_that_has_less() -> None:
    queue: FairQueue[str] = FairQueue(4, 4)
    for number in range(3):
        queue.push(stranger("10.0.0.1"), f"many {number}")
    queue.push(stranger("10.0.0.2"), "one")

    assert queue.push(stranger("10.0.0.3"), "another") == "many 2"
    assert queue.push(stranger("10.0.0.1"), "many 3") == "many 3"
    assert queue.push(stranger("10.0.0.4"), "a fourth") == "many 1"
    assert queue.push(stranger("10.0.0.5"), "a fifth") == "a fifth"
    assert queue.push(("known", "User:alice", ""), "known") is None
    assert set(served(queue)) == {"many 0", "one", "another", "a fourth", "known"}


def test_what_is_not_wanted_any_more_makes_room() -> None:
    queue: FairQueue[str] = FairQueue(4, 3)
    for each in ("gone", "here", "gone too"):
        queue.push(stranger("10.0.0.1", each), each)

    assert queue.remove_unless(stranger("10.0.0.1"), lambda each: each == "here") == ["gone", "gone too"]
    assert queue.remove_unless(stranger("10.0.0.9"), lambda each: True) == []
    assert queue.push(stranger("10.0.0.1"), "next") is None
    assert served(queue) == ["here", "next"]
    queue.push(stranger("10.0.0.1"), "gone")
    assert queue.remove_unless(stranger("10.0.0.1"), lambda each: False) == ["gone"]
    assert served(queue) == []
