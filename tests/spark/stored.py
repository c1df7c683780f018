"""Tables and runs in memory, for tests of the manifest that need no Spark: the product reads them through it.

What the product asks of Delta's log, `entries_of`, is done here in Python. test_manifest.py compares both.
"""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest

from spark_audit.tables import keys, manifest, runs
from spark_audit.tables.delta import Tables
from spark_audit.tables.manifest import Entries, FileEntry
from spark_audit.tables.runs import Run

TABLES = Tables("/t")
SECRET = bytes(range(40))
NONE: Any = None
"""In place of a Spark session."""


@dataclass(frozen=True)
class File:
    """A file of a table, and what Delta's log says of it."""

    content: str
    day: str
    modified_ms: int
    rows: int = 1

    @property
    def said(self) -> str:
        return f"{self.rows} {self.day}..{self.day}"


@dataclass
class Cost:
    """What a job has opened."""

    files: int = 0
    runs: int = 0
    names: int = 0
    entries: int = 0


@dataclass
class Stored:
    """All files. Tables: name -> path -> file. Runs: directory -> name -> text."""

    key: keys.Key = SECRET
    tables: dict[str, dict[str, File]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    now_ms: int = 1_795_435_200_000
    _entries: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    """Table -> (modification time, path, hash), sorted."""
    _days: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    """Table -> day -> paths."""
    _sums: dict[str, int] = field(default_factory=dict)
    """Table -> all hashes together, in place of the digest."""

    def use(self, monkeypatch: pytest.MonkeyPatch) -> "Stored":
        for module in (manifest, runs):
            for name in ("read_text", "names_in", "write_new", "move", "sha256_of"):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, getattr(self, f"_{name}"))
        there = type("There", (), {"isDeltaTable": staticmethod(lambda _, path: path[3:] in self.tables)})
        monkeypatch.setattr(manifest, "DeltaTable", there)
        described = {**manifest._absent(), "columns": ["a string"]}
        monkeypatch.setattr(manifest, "_described", lambda *_: described)
        monkeypatch.setattr(manifest, "stream_state", lambda *_: ("", None))
        monkeypatch.setattr(manifest, "files_of", lambda _, path, since="": (path[3:], since))
        monkeypatch.setattr(manifest, "entries_of", self._entries_of)
        monkeypatch.setattr(manifest, "not_checked", lambda *_: self)
        monkeypatch.setattr(manifest, "read_state", lambda *_: NONE)
        monkeypatch.setattr(manifest, "_digest_of_rows", lambda *_: "")
        return self

    def collect(self) -> list[Any]:
        """No record has other columns than its line says."""
        return []

    def add(self, table: str, day: str, path: str = "", **fields: Any) -> str:
        """Add a file, as ingest does, and returns its path."""
        self.now_ms += 1
        path = path or f"date={day}/{self.now_ms}"
        values: dict[str, Any] = {"content": path, "day": day, "modified_ms": self.now_ms, **fields}
        self._put(table, path, File(**values))
        return path

    def remove(self, table: str, path: str) -> None:
        file = self.tables[table].pop(path)
        entry = self._entry(path, file)
        self._entries[table].remove(entry)
        self._days[table][file.day].remove(path)
        self._sums[table] ^= entry[2]

    def change(self, table: str, path: str, **fields: Any) -> None:
        file = self.tables[table][path]
        self.remove(table, path)
        self._put(table, path, replace(file, **fields))

    def _put(self, table: str, path: str, file: File) -> None:
        self.tables.setdefault(table, {})[path] = file
        entry = self._entry(path, file)
        insort(self._entries.setdefault(table, []), entry)
        self._days.setdefault(table, {}).setdefault(file.day, set()).add(path)
        self._sums[table] = self._sums.get(table, 0) ^ entry[2]

    def _entry(self, path: str, file: File) -> tuple[int, str, int]:
        hashed = int.from_bytes(sha256(f"{path} {file.said}".encode()).digest())
        return file.modified_ms, path, hashed

    def _entries_of(
        self, files: Mapping[str, Any], until_ms: Mapping[str, int], wanted: str
    ) -> dict[str, Entries]:
        return {
            name: self._of_table(table, added, until_ms.get(name, -1), wanted)
            for name, (table, added) in files.items()
        }

    def _of_table(self, table: str, added: str, until_ms: int, wanted: str) -> Entries:
        """`added` is the path of the only file since a version. Looks at no old files if it need not."""
        each, there = self._entries.get(table, []), self.tables.get(table, {})
        if added:
            return Entries({added: self._said(table, added, False)}, "", _NOTHING)
        paths, closed = list[str](), self._sums.get(table, 0)
        for modified_ms, path, hashed in reversed(each):
            if modified_ms <= until_ms:
                break
            paths.append(path)
            closed ^= hashed
        listed = {path: self._said(table, path, False) for path in paths}
        days = [day for day in self._days.get(table, {}) if f"'{day}'" in wanted]
        of_days = there if wanted == manifest.EVERY_FILE else {p for d in days for p in self._days[table][d]}
        listed |= {path: self._said(table, path, True) for path in of_days if path not in listed}
        self.cost.entries += len(listed)
        newest_ms, everything = each[-1][0] if each else -1, _text_of(self._sums.get(table, 0))
        return Entries(listed, _text_of(closed), {"until_ms": newest_ms, "digest": everything})

    def _said(self, table: str, path: str, is_closed: bool) -> FileEntry:
        return FileEntry(f"{table}/{path}", self.tables[table][path].said, is_closed)

    def _read_text(self, _: object, path: str) -> str:
        directory, _, name = path.rpartition("/")
        self.cost.runs += 1
        try:
            return self.texts[directory][name]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    def _names_in(self, _: object, directory: str) -> list[str]:
        names = list(self.texts.get(directory, ()))
        self.cost.names += len(names)
        return names

    def _write_new(self, _: object, path: str, text: str) -> None:
        directory, _, name = path.rpartition("/")
        if name in self.texts.setdefault(directory, {}):
            raise FileExistsError(path)
        self.texts[directory][name] = text

    def _move(self, _: object, source: str, target: str) -> None:
        (one, _, name), (other, _, _) = source.rpartition("/"), target.rpartition("/")
        self.texts.setdefault(other, {})[name] = self.texts[one].pop(name)

    def _sha256_of(self, _: object, uri: str) -> str:
        self.cost.files += 1
        table, _, path = uri.partition("/")
        return sha256(self.tables[table][path].content.encode()).hexdigest()

    # Jobs, as jobs.py and retention.py call the manifest.

    def reconcile(self, day: str, **judged: Any) -> manifest.Manifest:
        """Judge a day and write its page. Return what it has found."""
        found = manifest.check(NONE, TABLES, self.key, manifest.of_days([day]))
        intended: dict[str, object] = {"reconciled": [], "outputs": {}}
        state = {manifest.UNFINISHED: runs.RECONCILE, **found.rewriting, manifest.INTENDED: intended}
        begun = manifest.sign(NONE, found, runs.RECONCILE, found.checked, **state)
        since: Any = self.add("reconciled", day)
        left = manifest.appended(NONE, TABLES, found, "reconciled", since)
        content = {"days": [day], "open": {}, **judged}
        outputs = {f"/out/{day}/findings.json": sha256(str(self.now_ms).encode()).hexdigest()}
        done = {"judged": content, "outputs": outputs, **found.rewriting}
        signed = manifest.sign(NONE, begun, runs.RECONCILE, left, **done)
        manifest.summarize(NONE, signed)
        return found

    def report(self, day: str) -> None:
        found = manifest.check(NONE, TABLES, self.key, manifest.of_days([day]))
        outputs = {f"/out/{day}/report.html": sha256(str(self.now_ms).encode()).hexdigest()}
        manifest.sign(NONE, found, "report", found.checked, outputs=outputs, **found.unfinished)

    def compact(self, day: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Make one file of those of a day."""
        rewritten = manifest.of_days([day])
        begun = manifest.begin(NONE, TABLES, self.key, lambda rows, *_: rows, "compact", rewritten)
        for table in ("audit", "metadata_log"):
            old = {path: file for path, file in self.tables[table].items() if file.day == day}
            for path in old:
                self.remove(table, path)
            if old:
                content = "".join(file.content for file in old.values())
                self.add(table, day, content=content, rows=len(old))
        meanwhile()
        manifest.end(NONE, TABLES, begun, "compact")

    def found(self, *days: str, whole: bool = False) -> list[str]:
        """The checks of what a job of these days finds; of `verify`, if `whole`."""
        wanted = manifest.EVERY_FILE if whole else manifest.of_days(days or ["1999-01-01"])
        faults = manifest.check(NONE, TABLES, self.key, wanted, whole=whole).faults
        return [fault.check for fault in faults]

    @property
    def present(self) -> dict[str, str]:
        """The runs that jobs read."""
        return self.texts["/t/runs"]

    @property
    def archived(self) -> dict[str, str]:
        return self.texts["/t/runs/summarized"]

    def read(self) -> Sequence[Run]:
        return runs.read_runs(NONE, "/t/runs", self.key)[0]


_NOTHING = manifest._absent()["all"]


def _text_of(number: int) -> str:
    """So that nothing has the digest of nothing, as in the product."""
    return f"{number:064x}" if number else manifest.digest_of({})
