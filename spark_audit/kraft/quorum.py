"""What several nodes' directories, and snapshots, prove of how far Kafka's metadata log is committed.

Fed by kraft_import with the scans of all directories. A record is committed when a majority of the voters has
it on disk and was given it by the leader that wrote it, which is so when none of them has gone on to a later
epoch; a node makes snapshots of what is committed only. Reads the two small files in which a node writes down
who it is (meta.properties) and in which epoch it is (quorum-state). Knows neither Spark nor tables.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_audit.kraft.commit import Scan
from spark_audit.kraft.log_directory import Directory, LogDirectoryError, unreadable

QUORUM_STATE, META_PROPERTIES = "quorum-state", "meta.properties"


@dataclass(frozen=True, slots=True)
class Identity:
    """As meta.properties beside the directory says, or in it; None where there is no such file."""

    node_id: int | None
    cluster_id: str | None


def identity_of(directory: Path) -> Identity:
    """LogDirectoryError for a file that is there and cannot be read."""
    for place in (directory.resolve().parent, directory):
        text = _text(place / META_PROPERTIES)
        if text is not None:
            told = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")
            return Identity(_number(place, told.get("node.id")), _cluster_id(place, told.get("cluster.id")))
    return Identity(None, None)


def one_cluster(directories: Sequence[Directory]) -> str | None:
    """The id of the cluster that all are of, None where none tells it. LogDirectoryError for several."""
    told = {each.path: identity_of(each.path).cluster_id for each in directories}
    ids = {each for each in told.values() if each is not None}
    if len(ids) > 1:
        named = "; ".join(f"{path}: {cluster_id}" for path, cluster_id in told.items())
        raise LogDirectoryError(f"the directories are of several clusters: {named}")
    return ids.pop() if ids else None


def voters_told(directory: Path) -> frozenset[int] | None:
    """The voters that the node itself wrote down; only those of a static quorum stand there."""
    voters = _quorum_state(directory).get("currentVoters")
    if not isinstance(voters, list) or not voters:
        return None
    return frozenset(each["voterId"] for each in voters)


def commit_what_is_proven(found: Sequence[Directory], scans: Sequence[Scan]) -> None:
    """Of each scan what snapshots and a majority prove; by time alone only where there is no majority."""
    points = [(each.end_offset - 1, each.epoch) for directory in found for each in directory.snapshots]
    shown, agreed = _majority(found, scans)
    points += [agreed] if agreed is not None else []
    for scan in scans:
        for offset, epoch in points:
            scan.commit_with(offset, epoch)
        if not shown:
            scan.commit(scan.settled_end)


def _majority(found: Sequence[Directory], scans: Sequence[Scan]) -> tuple[bool, tuple[int, int] | None]:
    """Whether directories of a majority in one epoch are there; the last record (offset, epoch) it has."""
    voters = next((each.voters for each in sorted(scans, key=_newest, reverse=True) if each.voters), None)
    epoch = max((each.epochs[-1][0] for each in scans if each.epochs), default=None)
    if voters is None or epoch is None:
        return False, None
    ends: dict[int, int] = {}
    for directory, scan in zip(found, scans, strict=True):
        node_id = identity_of(directory.path).node_id
        # After the log was read: what was there by then has come in no later epoch than this.
        if node_id in voters and _quorum_state(directory.path).get("leaderEpoch") == epoch:
            # One that is given twice counts once.
            ends[node_id] = max(ends.get(node_id, 0), _end_in(scan, epoch))
    needed = len(voters) // 2 + 1
    if len(ends) < needed:
        return False, None
    end = sorted(ends.values(), reverse=True)[needed - 1]
    return True, (end - 1, epoch) if end else None


def _end_in(scan: Scan, epoch: int) -> int:
    return scan.end if scan.epochs and scan.epochs[-1][0] == epoch else 0


def _newest(scan: Scan) -> tuple[int, int]:
    return (scan.epochs[-1][0] if scan.epochs else -1, scan.end)


def _quorum_state(directory: Path) -> dict[str, object]:
    text = _text(directory / QUORUM_STATE)
    try:
        told = {} if text is None else json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise LogDirectoryError(f"{directory / QUORUM_STATE}: not what a node writes there: {text}")
    return told


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def _cluster_id(place: Path, told: str | None) -> str | None:
    if told is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", told.strip()):
        raise LogDirectoryError(f"{place / META_PROPERTIES}: cluster.id={told} is no id of a cluster")
    return None if told is None else told.strip()


def _number(place: Path, told: str | None) -> int | None:
    try:
        return None if told is None else int(told)
    except ValueError as error:
        raise LogDirectoryError(f"{place / META_PROPERTIES}: node.id={told} is no number") from error
