"""How much of a KRaft node's log is committed: what the log, other nodes and snapshots prove."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_audit.kraft import log_directory
from spark_audit.kraft.commit import STEADY_MS
from spark_audit.kraft.log_directory import LogDirectoryError, files_of
from spark_audit.kraft.quorum import identity_of, mark_committed, one_cluster, static_voters
from tests.spark.kraft_bytes import no_op
from tests.spark.kraft_files import Node

pytestmark = [pytest.mark.spec("D4", "D5")]

VOTERS = (1, 2, 3)


def committed(*nodes: Node, settle_ms: int = 5_000) -> list[int]:
    """Of each directory, the offset behind what is taken; read together."""
    found = [files_of(node.path) for node in nodes]
    scans = [log_directory.scan(each.segments, 0, settle_ms, static_voters(each.path)) for each in found]
    mark_committed(found, scans)
    assert [each.slices[-1].end if each.slices else 0 for each in scans] == [
        each.committed_end for each in scans
    ]
    return [each.committed_end for each in scans]


def quorum(directory: Path, lengths: Sequence[int], *, epochs: Sequence[int] = (1, 1, 1)) -> list[Node]:
    """Voters that follow one leader: a leader change, and then so many records each."""
    nodes = [Node(directory / f"node-{number}", voters=VOTERS) for number in VOTERS]
    for number, (node, length, epoch) in enumerate(zip(nodes, lengths, epochs, strict=True), 1):
        node.is_voter(number, epoch)
        for _ in range(length):
            node.append(no_op())
    return nodes


def test_the_first_record_of_an_epoch_proves_all_up_to_its_leader_change(tmp_path: Path) -> None:
    node = Node(tmp_path, voters=VOTERS)
    assert committed(node) == [0]

    node.append(no_op(), later_ms=1)
    assert committed(node) == [1]
    node.elect(2, later_ms=1)
    assert committed(node) == [1]
    node.append(no_op(), epoch=2, later_ms=1)
    assert committed(node) == [3]


def test_a_leader_that_stood_still_has_not_been_followed_meanwhile(tmp_path: Path) -> None:
    """Stopped, or its clock set, between two records that no majority may ever have seen."""
    node = Node(tmp_path, voters=VOTERS)
    for _ in range(3):
        node.append(no_op(), later_ms=3_600_000)
    assert committed(node) == [1]

    for _ in range(5_000 // STEADY_MS):
        node.append(no_op(), later_ms=3_600_000)
    assert committed(node) == [4]
    node.append(no_op(), later_ms=-7_200_000)
    assert committed(node) == [4]


def test_what_a_majority_has_is_committed_at_once(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, (9, 4, 2))

    assert committed(*nodes) == [5, 5, 3]
    assert committed(nodes[0], nodes[2]) == [3, 3]


def test_what_no_majority_has_is_not_settled_by_time(tmp_path: Path) -> None:
    """A voter far behind keeps a leader in office, and a third is down: nothing new is committed."""
    nodes = quorum(tmp_path, (100, 4, 2))

    assert committed(nodes[0]) == [96]
    assert committed(*nodes) == [5, 5, 3]


def test_a_voter_in_another_epoch_vouches_for_nothing(tmp_path: Path) -> None:
    """It may have got these records from a later leader, who has not made them his own yet."""
    nodes = quorum(tmp_path, (3, 3, 3), epochs=(1, 2, 2))

    assert committed(*nodes) == [1, 1, 1]


def test_a_voter_given_twice_and_a_node_that_is_no_voter_count_for_nothing(tmp_path: Path) -> None:
    first, second, third = quorum(tmp_path, (3, 3, 3))
    second.is_voter(1, 1)
    third.is_voter(7, 1)

    assert committed(first, second, third) == [1, 1, 1]


def test_an_old_leaders_tail_is_not_taken_beside_the_nodes_that_went_on(tmp_path: Path) -> None:
    old, *others = quorum(tmp_path, (4, 2, 2), epochs=(1, 2, 2))
    for node in others:
        node.elect(2)
        node.append(no_op(), epoch=2)

    assert committed(old, *others) == [1, 5, 5]


def test_what_a_snapshot_covers_is_committed_where_the_epoch_is_the_snapshots(tmp_path: Path) -> None:
    node, other = quorum(tmp_path, (3, 3, 0))[:2]
    node.snapshot(no_op())
    other.path.joinpath(f"{3:020}-{7:010}.checkpoint").write_bytes(b"of a log that went another way")
    for each in (node, other):
        (each.path / "meta.properties").unlink()
    node.append(no_op())

    assert committed(node) == [4]
    assert committed(other) == [1]


def test_the_newest_set_of_voters_counts_whoever_leads(tmp_path: Path) -> None:
    """With a second voter, what the first alone has is not committed any more (KIP-853)."""
    node = Node(tmp_path, voters=(1,))
    node.append(no_op())
    assert committed(node) == [2]

    node.set_voters((1, 2))
    node.append(no_op(), later_ms=1)
    assert committed(node) == [1]
    node.set_voters((2,))
    assert committed(node) == [5]


def test_directories_of_several_clusters_are_told_by_name(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, (1, 1, 1))
    found = [files_of(node.path) for node in nodes]
    assert one_cluster(found) == "CLUSTER"

    nodes[1].is_voter(2, 1, "ANOTHER")
    with pytest.raises(LogDirectoryError, match=r"several clusters: .*node-1: CLUSTER; .*node-2: ANOTHER"):
        one_cluster(found)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("meta.properties", b"node.id=one", r"meta\.properties: node\.id=one is not a number"),
        ("meta.properties", b"cluster.id=a'b", r"meta\.properties: cluster\.id=a'b is not a cluster id"),
        ("quorum-state", b"\xff{", "quorum-state: not a JSON object"),
        ("quorum-state", b"[]", "quorum-state: not a JSON object"),
    ],
)
def test_what_a_node_wrote_of_itself_and_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    node = Node(tmp_path)
    (node.path / name).write_bytes(content)

    with pytest.raises(LogDirectoryError, match=complaint):
        (identity_of if name == "meta.properties" else static_voters)(node.path)
