"""The runs of a manifest: reading, proving and writing them, and the summaries that stand for older runs.

A run is one line of JSON, which ends with `link`. As in an audit line (reconcile/chain.py), this is the hash
of the link before and of the line up to there (keys.py). Field `follows` is the link before, so that each run
can be proven alone.

A run of job SUMMARIZE repeats what still counts of all runs before it. Jobs read from the newest summary on.
The runs before it are moved into directory `summarized`, where `verify` reads them (docs/decisions/0131).
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from spark_audit.tables import keys
from spark_audit.tables.files import AuditError, move, names_in, read_text, write_new

ACCEPT = "accept"
"""The job that signs the tables as they are. It begins a new chain of runs."""
RECONCILE, SUMMARIZE = "reconcile", "summarize"
CLOSES = "closes"
"""In a run: files that need not be hashed again, and the run with the list before (manifest.py)."""
_FOLLOWS = "follows"
_SUMMARIZED = "summarized"
_SEED = sha256(b"penstock audit runs").hexdigest()
_LINK = ',"link":"'
_TAIL = len(_LINK) + len(_SEED) + len('"}')
_AHEAD_MS = 300_000
"""The clocks of two hosts that run jobs differ by less than this."""
_NAME = r"(?!0{8})[0-9]{8}\.json|[1-9][0-9]{8,}\.json"
"""Of the file of a run: its number, which is not 0, with 8 digits or as many as it has."""
_MOST_RUNS, _MOST_FILES = 12, 1000
"""A summary is due after so many runs, or when a run lists so many files."""


class Fault(NamedTuple):
    """What contradicts the manifest. `evidence` is the same in every run."""

    check: str
    severity: str
    explanation: str
    evidence: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `fits`: its link follows from the run before, with the key if there is one."""

    number: int
    link: str
    fits: bool
    content: Mapping[str, Any]
    sha256: str = ""
    """Of its text, as it was read."""

    def __str__(self) -> str:
        return f"run {self.number} {self.link}" if self.number else "no run yet"


def read_runs(
    spark: SparkSession, directory: str, key: keys.Key, *, whole: bool = False
) -> tuple[list[Run], list[Fault]]:
    """Return the runs since the newest summary, or since the tables were accepted, and what is wrong.

    With `whole`, all runs since the tables were accepted. AuditError if the runs are signed and the key is
    not there.
    """
    runs: list[Run] = []
    faults: list[Fault] = []
    link, before, signed = _SEED, 0, dict[bytes, int]()
    texts = _texts(spark, directory, key, whole=whole)
    if not whole and texts and _has_ended(_run(*texts[0], None, key), key):
        # Its owner may have written several runs: which key signed before them is to be seen.
        whole, texts = True, _texts(spark, directory, key, whole=True)
    for number, text in texts:
        if not whole and not runs:
            signed |= _signed_before(spark, directory, number, key)
        run = _run(number, text, link, key, signed)
        if not whole and not runs and run.content.get("job") == SUMMARIZE:
            run, before = _run(number, text, None, key, signed), number - 1
        is_signed = run.content.get("signed_with") == keys.SIGNED
        if not is_signed and any(
            each.fits and each.content.get("signed_with") == keys.SIGNED for each in runs
        ):
            run = replace(run, fits=False)
        if run.content.get("job") == ACCEPT and run.fits:
            runs, faults, before = [], [], number - 1
        faults += [*_faults_of(run, before, key), *_times_of(newest_of(runs), run)]
        runs.append(run)
        link, before = run.link, number
        signed |= _signed_by(run, key)
    proven = newest_fitting(runs)
    signed_with = (proven if proven.number else newest_of(runs)).content.get("signed_with")
    if keys.secret_of(key) is None and signed_with == keys.KEYED:
        raise AuditError("the runs of these tables are signed with a key: pass it with --chain-key")
    if not isinstance(key, keys.Keys) and signed_with == keys.SIGNED:
        raise AuditError("the runs of these tables are signed with --run-key: pass --public-keys")
    return runs, faults


def newest_of(runs: Sequence[Run]) -> Run:
    """Return the newest run; one with number 0 if there is none."""
    return runs[-1] if runs else Run(0, _SEED, True, {})


def newest_fitting(runs: Sequence[Run]) -> Run:
    """Return the same of the runs that fit."""
    return newest_of([run for run in runs if run.fits])


def write_run(
    spark: SparkSession, directory: str, key: keys.Key, newest: Run, fields: Mapping[str, object]
) -> Run:
    """Write the run after `newest`. AuditError if there is one already, or if the key is missing."""
    number, start = newest.number + 1, _SEED if fields["job"] == ACCEPT else newest.link
    head = {"run": number, "job": fields["job"], "time_ms": time.time_ns() // 1_000_000, _FOLLOWS: start}
    content = {**head, **fields}
    body, link = keys.sealed(start, content, key, newest.content.get("signed_with"))
    try:
        # Its file may have been moved away by a summary meanwhile.
        if max(_numbers(spark, directory), default=0) >= number:
            raise FileExistsError
        write_new(spark, _place(directory, number), f'{body}{_LINK}{link}"}}')
    except FileExistsError as error:
        raise AuditError(
            f"another job has written run {number} of the manifest: run this one again"
        ) from error
    return Run(number, link, True, content)


def is_summary_due(runs: Sequence[Run]) -> bool:
    """Return whether there are many runs since the last summary, or a run with many files.

    `runs` are those of `read_runs`. Each job reads them, so these limits bound what it costs.
    """
    listed = max(_listed(run.content.get("tables")) + _listed(_closes(run)) for run in runs if run.fits)
    return len(runs) > _MOST_RUNS or listed > _MOST_FILES


def move_summarized(spark: SparkSession, directory: str, summary: Run) -> None:
    """Move the runs before a summary away. What a killed job has left is moved with the next summary."""
    for number in _numbers(spark, directory):
        if number < summary.number:
            move(spark, _place(directory, number), _place(f"{directory}/{_SUMMARIZED}", number))


def listed_files(
    spark: SparkSession,
    directory: str,
    key: keys.Key,
    newest: tuple[int, str],
    wanted: Mapping[str, set[str]] | None,
) -> tuple[dict[str, dict[str, str]], list[Fault]]:
    """Return table -> path -> text of the files that runs have closed, and which runs are not there.

    `newest` is number and link of the run with the newest list. Lists are read until the `wanted` paths are
    found, or to the first one.
    """
    found: dict[str, dict[str, str]] = {}
    place: tuple[int, str] | None = newest
    while place is not None:
        if wanted is not None and all(paths <= found.get(name, {}).keys() for name, paths in wanted.items()):
            break
        number, link = place
        try:
            run = _run(number, _text(spark, directory, number), None, key)
        except FileNotFoundError:
            return found, [_missing(number, number)]
        if not run.fits or run.link != link or CLOSES not in run.content:
            return found, [_altered(run, ", which lists files of the tables, was altered")]
        for name, files in _closes(run).items():
            found[name] = dict(files["files"]) | found.get(name, {})
        place = run.content[CLOSES]["before"]
    return found, []


_Files = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Table -> `files` -> path -> text, among other things."""


def _closes(run: Run) -> _Files:
    closed: _Files = run.content.get(CLOSES, {}).get("tables", {})
    return closed


def _listed(tables: _Files | None) -> int:
    return sum(len(each["files"]) for each in (tables or {}).values())


def _place(directory: str, number: int) -> str:
    return f"{directory}/{number:08}.json"


def _numbers(spark: SparkSession, directory: str) -> list[int]:
    names = names_in(spark, directory)
    return sorted(int(name[:-5]) for name in names if re.fullmatch(_NAME, name))


def _text(spark: SparkSession, directory: str, number: int) -> str:
    try:
        return read_text(spark, _place(directory, number))
    except FileNotFoundError:
        return read_text(spark, _place(f"{directory}/{_SUMMARIZED}", number))


def _texts(spark: SparkSession, directory: str, key: keys.Key, *, whole: bool) -> list[tuple[int, str]]:
    """Return number and text of all runs, or of those from the newest one on that needs none before it."""
    texts: dict[int, str] = {}
    numbers = _numbers(spark, directory)
    for number in reversed(numbers):
        texts[number] = _text(spark, directory, number)
        if not whole and _is_beginning(_run(number, texts[number], None, key), key):
            break
    if whole:
        for number in _numbers(spark, f"{directory}/{_SUMMARIZED}"):
            if number not in texts:
                texts[number] = _text(spark, directory, number)
    return sorted(texts.items())


def _is_beginning(run: Run, key: keys.Key) -> bool:
    # Who has the old secret of a manifest whose runs are signed by now could write a summary, too.
    signed = not isinstance(key, keys.Keys) or run.content.get("signed_with") == keys.SIGNED
    return run.fits and signed and run.content.get("job") in (ACCEPT, SUMMARIZE)


def _signed_before(spark: SparkSession, directory: str, number: int, key: keys.Key) -> dict[bytes, int]:
    """Return `_signed_by` of the run before the first one that is read. Empty if there is none."""
    try:
        return _signed_by(_run(number - 1, _text(spark, directory, number - 1), None, key), key)
    except FileNotFoundError:
        return {}


def _signed_by(run: Run, key: keys.Key) -> dict[bytes, int]:
    """Return the key with which a run is signed -> its time.

    It takes the place of an earlier run's time: if that was later, the owner of the key has put it right.
    """
    is_signed = run.fits and run.content.get("signed_with") == keys.SIGNED
    return {each.raw: run.content["time_ms"] for each in keys.signers(run.content, key) if is_signed}


def _has_ended(run: Run, key: keys.Key) -> bool:
    """Return whether a run is signed with a key that may sign no more."""
    own, now_ms = keys.signers(run.content, key), time.time_ns() // 1_000_000
    return bool(own) and not any(each.is_valid_at(now_ms) for each in own)


def _run(
    number: int,
    text: str,
    link_before: str | None,
    key: keys.Key,
    signed: Mapping[bytes, int] = MappingProxyType({}),
) -> Run:
    """Return a run. It fits if it follows from the link before; without one, from that which it names."""
    body, link = text[:-_TAIL], text[-_TAIL + len(_LINK) : -len('"}')]
    hashed = sha256(text.encode()).hexdigest()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return Run(number, link, False, {}, hashed)
    named = content.get(_FOLLOWS, link_before or _SEED)
    start = _SEED if content.get("job") == ACCEPT else link_before or str(named)
    # Else a member in place of the link's name could repeat one of the content, and JSON takes the last.
    is_whole = text == f'{body}{_LINK}{link}"}}' and content.get("run") == number
    fits = is_whole and named == start and keys.fits(start, body, link, content, key, signed)
    return Run(number, link, fits, content, hashed)


def _faults_of(run: Run, before: int, key: keys.Key) -> Iterator[Fault]:
    if run.number != before + 1:
        yield _missing(before + 1, run.number - 1)
    if not run.fits:
        why = "was altered, or does not follow from the run before"
        if key is not None:
            why += ", or is not signed with the key"
        yield _altered(run, f" {why}")


def _times_of(before: Run, run: Run) -> Iterator[Fault]:
    then, now = (each.content.get("time_ms") for each in (before, run))
    if before.fits and run.fits and type(then) is type(now) is int and then > now + _AHEAD_MS:
        text = (
            f"run {before.number} of the manifest has the time {keys.moment(then)}, and run {run.number},"
            f" which follows it, {keys.moment(now)}: the clock of the first one's host was ahead, or that of"
            " the second one's behind"
        )
        yield Fault("manifest.run_time", "medium", text, {"run": before.number, "link": before.link})


def _altered(run: Run, why: str) -> Fault:
    # With its text: a run that is altered once more is another finding, not yet acknowledged.
    evidence = {"run": run.number, "sha256": run.sha256}
    return Fault("manifest.run_altered", "critical", f"run {run.number} of the manifest{why}", evidence)


def _missing(first: int, last: int) -> Fault:
    named = f"run {first}" if first == last else f"runs {first} to {last}"
    text = f"{named} of the manifest cannot be found"
    return Fault("manifest.run_missing", "critical", text, {"first_run": first, "last_run": last})
