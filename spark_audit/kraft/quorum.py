"""How far the directories of several nodes, and snapshots, prove that Kafka's metadata log is committed.

log_import.py passes the scans of all directories. A record is committed if a majority of the voters has it on
disk, in the epoch of the leader that wrote it: none of them may be in a later epoch. A node makes snapshots
only of committed records. Reads two small files of a node: its identity (meta.properties) and its epoch
(quorum-state). Knows neither Spark nor tables.
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
class NodeIdentity:
    """The content of meta.properties, beside the directory or in it. None if there is no such file."""

    node_id: int | None
    cluster_id: str | None


def identity_of(directory: Path) -> NodeIdentity:
    """Read meta.properties. LogDirectoryError if it cannot be read."""
    for place in (directory.resolve().parent, directory):
        text = _text(place / META_PROPERTIES)
        if text is not None:
            settings = dict(
                line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#"
            )
            node_id, cluster_id = settings.get("node.id"), settings.get("cluster.id")
            return NodeIdentity(_number(place, node_id), _cluster_id(place, cluster_id))
    return NodeIdentity(None, None)


def one_cluster(directories: Sequence[Directory]) -> str | None:
    """Return the cluster id of the directories, None if none has it. LogDirectoryError if they differ."""
    by_path = {each.path: identity_of(each.path).cluster_id for each in directories}
    ids = {each for each in by_path.values() if each is not None}
    if len(ids) > 1:
        named = "; ".join(f"{path}: {cluster_id}" for path, cluster_id in by_path.items())
        raise LogDirectoryError(f"the directories are of several clusters: {named}")
    return ids.pop() if ids else None


def static_voters(directory: Path) -> frozenset[int] | None:
    """Return the voters in quorum-state, which a node writes only with a static quorum; None otherwise."""
    voters = _quorum_state(directory).get("currentVoters")
    if not isinstance(voters, list) or not voters:
        return None
    return frozenset(each["voterId"] for each in voters)


def mark_committed(found: Sequence[Directory], scans: Sequence[Scan]) -> None:
    """Mark in each scan what snapshots and a majority prove, or time alone if there is no majority."""
    points = [(each.end_offset - 1, each.epoch) for directory in found for each in directory.snapshots]
    shown, agreed = _majority(found, scans)
    points += [agreed] if agreed is not None else []
    for scan in scans:
        for offset, epoch in points:
            scan.commit_with(offset, epoch)
        if not shown:
            scan.commit(scan.settled_end)


def _majority(found: Sequence[Directory], scans: Sequence[Scan]) -> tuple[bool, tuple[int, int] | None]:
    """Return whether a majority in one epoch is present, and the last record (offset, epoch) that it has."""
    voters = next((each.voters for each in sorted(scans, key=_newest, reverse=True) if each.voters), None)
    epoch = max((each.epochs[-1][0] for each in scans if each.epochs), default=None)
    if voters is None or epoch is None:
        return False, None
    ends: dict[int, int] = {}
    for directory, scan in zip(found, scans, strict=True):
        node_id = identity_of(directory.path).node_id
        # Read after the log, so that no record of the log is of a later epoch than this.
        if node_id in voters and _quorum_state(directory.path).get("leaderEpoch") == epoch:
            # A directory that is passed twice counts once.
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
        state = {} if text is None else json.loads(text)
    except ValueError:
        state = None
    if not isinstance(state, dict):
        raise LogDirectoryError(f"{directory / QUORUM_STATE}: not a JSON object: {text}")
    return state


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def _cluster_id(place: Path, text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", text.strip()):
        raise LogDirectoryError(f"{place / META_PROPERTIES}: cluster.id={text} is not a cluster id")
    return None if text is None else text.strip()


def _number(place: Path, text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise LogDirectoryError(f"{place / META_PROPERTIES}: node.id={text} is not a number") from error
