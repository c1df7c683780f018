"""A file that changes on disk: who reads it gets whole contents, and keeps the last good one."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from proxy.audit.record import AuditEvent
from proxy.net.files import watched_file as watched_file_module
from proxy.net.files.watched_file import FileReloads, WatchedFile

pytestmark = pytest.mark.spec("A4", "O3")


class Reader:
    """Keeps what it is given; refuses what begins with "bad"."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def take(self, content: bytes) -> None:
        if content.startswith(b"bad"):
            raise ValueError("line 1: bad")
        self.contents.append(content)


class Watching:
    """A file with `first` in it, a reader, and the metric."""

    def __init__(self, directory: Path, first: bytes = b"first", kind: str = "acls") -> None:
        self.path = directory / "acls.json"
        self.path.write_bytes(first)
        self.registry = CollectorRegistry()
        self.reader = Reader()
        self.reloads = FileReloads(self.registry)
        self.file = WatchedFile(self.path, kind, self.reader.take, self.reloads)

    def put(self, content: bytes) -> None:
        """The careful way: another file, renamed into place."""
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        new.rename(self.path)

    def counted(self, outcome: str) -> float | None:
        labels = {"file_kind": "acls", "outcome": outcome}
        return self.registry.get_sample_value("penstock_file_reloads_total", labels)


@pytest.fixture
def watching(tmp_path: Path) -> Watching:
    return Watching(tmp_path)


@pytest.mark.spec("D1")
def test_a_changed_file_is_in_the_audit_whether_it_was_taken_or_not(watching: Watching) -> None:
    events: list[AuditEvent] = []
    watching.reloads.record = events.append
    watching.file.load()
    for content in (b"second", b"bad"):
        watching.put(content)
        watching.file.look()

    about = {"file": str(watching.path), "file.kind": "acls"}
    assert [(event.event, event.settings, event.message) for event in events] == [
        (
            "configuration_changed",
            {**about, "outcome": "loaded", "file.sha256": sha256(b"second").hexdigest()},
            None,
        ),
        (
            "configuration_changed",
            {**about, "outcome": "failed", "file.sha256": sha256(b"bad").hexdigest()},
            "line 1: bad",
        ),
    ]


@pytest.mark.spec("D1")
def test_nothing_to_guess_a_password_from_is_in_the_audit(tmp_path: Path) -> None:
    watching, events = Watching(tmp_path, kind="users"), list[AuditEvent]()
    watching.reloads.record = events.append
    watching.file.load()
    watching.put(b"alice: secret")
    watching.file.look()

    (event,) = events
    assert event.settings == {"file": str(watching.path), "file.kind": "users", "outcome": "loaded"}


@pytest.mark.parametrize(
    ("puts", "read", "counts"),
    [
        pytest.param([], [b"first"], (0, 0), id="the first content is not read again"),
        pytest.param([b"second"], [b"first", b"second"], (1, 0), id="another file in its place"),
        pytest.param([b"bad", b"first"], [b"first", b"first"], (1, 1), id="the last good content put back"),
    ],
)
def test_a_file_put_in_place_of_the_old_is_taken_at_the_next_look(
    watching: Watching, puts: list[bytes], read: list[bytes], counts: tuple[int, int]
) -> None:
    watching.file.load()
    watching.file.look()
    for content in puts:
        watching.put(content)
        watching.file.look()

    assert watching.reader.contents == read
    assert (watching.counted("loaded"), watching.counted("failed")) == counts


def test_a_file_that_is_not_there_at_the_start_is_the_callers_error(watching: Watching) -> None:
    watching.path.unlink()

    with pytest.raises(FileNotFoundError):
        watching.file.load()


def test_a_file_that_is_wrong_at_the_start_is_the_callers_error(tmp_path: Path) -> None:
    watching = Watching(tmp_path, first=b"bad")

    with pytest.raises(ValueError, match="line 1"):
        watching.file.load()


def test_a_file_that_is_written_where_it_lies_is_taken_once_two_looks_agree(watching: Watching) -> None:
    watching.file.load()
    with watching.path.open("r+b") as file:
        file.write(b"half ")
        file.flush()
        watching.file.look()
        file.write(b"and half")
        file.flush()
        watching.file.look()
    assert watching.reader.contents == [b"first"]

    watching.file.look()

    assert watching.reader.contents == [b"first", b"half and half"]


def test_a_link_that_points_elsewhere_is_another_file(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(name.encode())
    watching.path.unlink()
    watching.path.symlink_to(tmp_path / "one")
    watching.file.load()
    (tmp_path / "link").symlink_to(tmp_path / "two")
    (tmp_path / "link").rename(watching.path)
    watching.file.look()

    assert watching.reader.contents == [b"one", b"two"]


def test_a_file_that_was_only_touched_is_not_handed_on(watching: Watching) -> None:
    watching.file.load()
    os.utime(watching.path, ns=(1, 1))
    watching.file.look()
    watching.file.look()

    assert watching.reader.contents == [b"first"]
    assert watching.counted("loaded") == 0


def test_a_broken_file_leaves_the_last_good_one_and_is_told_once(watching: Watching) -> None:
    watching.file.load()
    watching.put(b"bad")
    with capture_logs() as lines:
        watching.file.look()
        watching.file.look()

    assert watching.reader.contents == [b"first"]
    assert (watching.counted("loaded"), watching.counted("failed")) == (0, 1)
    assert lines == [
        {
            "event": "Failed to reload file; keeping the previous version",
            "log_level": "warning",
            "file": str(watching.path),
            "file_kind": "acls",
            "error": "line 1: bad",
        }
    ]


def test_a_file_that_went_away_is_told_once_and_taken_when_it_is_back(watching: Watching) -> None:
    watching.file.load()
    watching.path.unlink()
    watching.file.look()
    watching.file.look()
    assert watching.counted("failed") == 1

    watching.put(b"second")
    # It may have got the old one's inode, and then looks as if it were written where it lies.
    watching.file.look()
    watching.file.look()

    assert watching.reader.contents == [b"first", b"second"]
    assert (watching.counted("loaded"), watching.counted("failed")) == (1, 1)


def test_a_file_that_is_far_too_large_is_not_read_into_memory(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_file_module, "MAX_BYTES", 10)
    watching.file.load()
    watching.put(b"12345678901")
    watching.file.look()

    assert watching.reader.contents == [b"first"]
    assert watching.counted("failed") == 1
