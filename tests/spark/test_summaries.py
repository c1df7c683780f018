"""Summaries of runs: what a job costs does not grow with the trail, and nobody can change one in silence."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from datetime import date, timedelta

import pytest

from proxy.audit.checkpoints import Signer
from spark_audit.tables import keys, manifest, runs
from spark_audit.tables.acknowledgements import ACKNOWLEDGE, acknowledged_by_day, acknowledgements, day_of
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import Keys
from tests.spark.stored import NONE, SECRET, TABLES, Cost, Stored
from tests.support.signing import public_key, signing_key

pytestmark = [pytest.mark.spec("D7", "D8", "D14")]

FIRST_DAY = date(2026, 1, 1)
GUESS = bytes(40)
DAYS = [str(FIRST_DAY + timedelta(days=number)) for number in range(366)]


def hour_of_a_service(stored: Stored, day: str) -> Cost:
    stored.cost = Cost()
    for _ in range(3):
        stored.add("audit", day)
    stored.add("metadata_log", day)
    assert stored.reconcile(day).faults == []
    stored.report(day)
    return stored.cost


@pytest.mark.long
@pytest.mark.slow
def test_the_last_hour_of_a_year_costs_no_more_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were hashed, runs that were read, names and entries that were listed; no times."""
    costs = a_trail_of(monkeypatch, days=365)

    first, last = costs[1], costs[-1]
    for of_first, of_last in zip(first, last, strict=True):
        assert {name: most for name, most in asdict(of_last).items() if most > asdict(of_first)[name]} == {}


def test_the_last_hour_of_a_week_costs_no_more_than_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = a_trail_of(monkeypatch, days=7)

    assert [asdict(each) for each in costs[6]] == [asdict(each) for each in costs[1]]


def a_trail_of(monkeypatch: pytest.MonkeyPatch, days: int) -> list[list[Cost]]:
    """Return what each hour of each day has cost. The tables are compacted each night."""
    stored, costs = Stored().use(monkeypatch), list[list[Cost]]()
    for number in range(days):
        costs.append([hour_of_a_service(stored, DAYS[number]) for _ in range(24)])
        stored.cost = Cost()
        stored.compact(DAYS[number])
    assert stored.found(whole=True) == []
    return costs


@pytest.fixture(scope="module")
def week() -> Stored:
    """Some days, each compacted but the last."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        stored = Stored().use(monkeypatch)
        for number in range(3):
            for _ in range(9):
                hour_of_a_service(stored, DAYS[number])
            if number < 2:
                stored.compact(DAYS[number])
    return stored


@pytest.fixture
def stored(week: Stored, monkeypatch: pytest.MonkeyPatch) -> Stored:
    return deepcopy(week).use(monkeypatch)


def test_what_is_in_memory_here_has_summaries_and_closed_files(stored: Stored) -> None:
    first, *_ = stored.read()

    assert first.content["job"] == runs.SUMMARIZE
    assert first.number > 30
    assert len(stored.present) <= 13
    assert sorted(stored.archived)[-1] < sorted(stored.present)[0]
    assert len(stored.archived) + len(stored.present) == stored.read()[-1].number
    assert stored.found() == stored.found(*DAYS[:3]) == stored.found(whole=True) == []


def summary_of(stored: Stored) -> str:
    return min(stored.present)


def edited(text: str) -> str:
    return text.replace('"time_ms":1', '"time_ms":2', 1)


def signed_by(stored: Stored, key: keys.Key) -> None:
    """A summary that says that nothing is wrong with an empty trail, as the newest run."""
    newest = stored.read()[-1]
    fields = {"job": runs.SUMMARIZE, "tables": {}, "acknowledged": [], "outputs": {}}
    runs.write_run(NONE, "/t/runs", key, runs.Run(newest.number, newest.link, True, {}), fields)


def older_in_place(stored: Stored) -> None:
    older = max(name for name, text in stored.archived.items() if json.loads(text)["job"] == runs.SUMMARIZE)
    stored.present[summary_of(stored)] = stored.archived[older]


def put_back(stored: Stored) -> None:
    """All runs as they were at the summary before."""
    older = max(name for name, text in stored.archived.items() if json.loads(text)["job"] == runs.SUMMARIZE)
    stored.present.clear()
    stored.present[older] = stored.archived[older]


def all_signed_with_a_guess(stored: Stored) -> None:
    stored.present.clear()
    link = "ab" * 32
    fields = {"job": runs.SUMMARIZE, "tables": {}}
    runs.write_run(NONE, "/t/runs", GUESS, runs.Run(99, link, True, {}), fields)


MISSING, ALTERED, TABLE = "manifest.run_missing", "manifest.run_altered", "manifest.table_altered"
OF_RUNS: dict[str, tuple[Callable[[Stored], object], set[str]]] = {
    "the newest summary removed": (lambda s: s.present.pop(summary_of(s)), {MISSING, ALTERED}),
    "the newest summary edited": (
        lambda s: s.present.update({summary_of(s): edited(s.present[summary_of(s)])}),
        {ALTERED},
    ),
    "the newest summary damaged": (lambda s: s.present.update({summary_of(s): "{"}), {MISSING, ALTERED}),
    "an older summary in its place": (older_in_place, {ALTERED}),
    "the newest summary and all after it removed": (lambda s: s.present.clear(), {TABLE}),
    "all after the newest summary removed": (
        lambda s: [s.present.pop(name) for name in sorted(s.present)[1:]],
        {TABLE},
    ),
    "put back as they were at the summary before": (put_back, {TABLE}),
    "a run since the summary removed": (lambda s: s.present.pop(sorted(s.present)[2]), {MISSING, ALTERED}),
    "a summary with another key": (lambda s: signed_by(s, GUESS), {ALTERED}),
    "a summary without a key": (lambda s: signed_by(s, None), {ALTERED}),
    "only a summary with another key": (all_signed_with_a_guess, {ALTERED, TABLE}),
}


@pytest.mark.parametrize("kind", OF_RUNS)
def test_what_is_done_to_summaries_is_found_by_each_job(stored: Stored, kind: str) -> None:
    edit, expected = OF_RUNS[kind]
    edit(stored)

    assert set(stored.found()) == expected
    # Who reads all runs misses none before a summary that cannot be read.
    assert expected - {MISSING} <= set(stored.found(whole=True))
    again = set(stored.found())
    stored.reconcile(DAYS[2])
    assert set(stored.found()) >= again & {MISSING, ALTERED}, "also after the next run"


OF_NOBODY: dict[str, str] = {
    "arrays in arrays": "[" * 100_000,
    "half a character": r'{"run":N,"job":"summarize","follows":"\ud800","link":"%s"}' % ("0" * 64),
    "a time that is a word": '{"run":N,"job":"reconcile","time_ms":"noon"}',
    "a time that no calendar has": '{"run":N,"job":"reconcile","time_ms":-1e300}',
    "what it intends is no object": '{"run":N,"job":"reconcile","unfinished":"reconcile","intended":[7]}',
    "with a key that the job does not have": '{"run":N,"job":"reconcile","signed_with":"ed25519"}',
}


@pytest.mark.parametrize("form", OF_NOBODY)
def test_a_run_of_any_content_is_a_finding(stored: Stored, form: str) -> None:
    number = stored.read()[-1].number + 1
    stored.present[f"{number:08}.json"] = OF_NOBODY[form].replace("N", str(number))

    found = manifest.check(NONE, TABLES, stored.key)

    assert [row["check"] for row in manifest.findings(found, manifest.output_faults(found, {}))] == [ALTERED]
    stored.reconcile(DAYS[2])
    assert stored.found(whole=True) == [ALTERED]


def test_a_file_with_another_number_is_no_run(stored: Stored) -> None:
    stored.archived["00000000.json"] = stored.archived["00000001.json"]
    assert stored.found(whole=True) == [], "nor does the first run follow from it"

    name = sorted(stored.present)[2]
    stored.present[f"0{name}"] = stored.present.pop(name)
    assert set(stored.found()) == {MISSING, ALTERED}, "as if it was removed"


def test_the_next_run_signs_nothing_that_an_unsigned_one_says(stored: Stored) -> None:
    """Somebody without the key says that an `expire` has begun: the tables are not compared until it ends."""
    newest = stored.read()[-1]
    said = {"job": manifest.EXPIRE, "tables": {}, manifest.UNFINISHED: manifest.EXPIRE}
    runs.write_run(NONE, "/t/runs", None, runs.Run(newest.number, newest.link, True, {}), said)
    stored.reconcile(DAYS[2])

    stored.change("audit", closed_file(stored, "audit"), content="edited")
    stored.add("expired", DAYS[0])

    assert sorted(stored.found(whole=True)) == [ALTERED, TABLE, TABLE]


def test_a_killed_job_is_unfinished_whatever_an_unsigned_run_says(stored: Stored) -> None:
    found = manifest.check(NONE, TABLES, stored.key)
    manifest.sign(NONE, found, manifest.EXPIRE, found.signed, **{manifest.UNFINISHED: manifest.EXPIRE})
    newest = stored.read()[-1]
    said = {"job": "report", "tables": {}}
    runs.write_run(NONE, "/t/runs", None, runs.Run(newest.number, newest.link, True, {}), said)

    stored.report(DAYS[2])

    assert sorted(stored.found()) == [ALTERED, "manifest.unfinished"]


def test_a_stolen_secret_of_before_makes_no_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody with the HMAC secret that signed the runs before there was a private key."""
    ours = Keys([public_key("auditor", role="run")], SECRET, Signer("auditor", signing_key("auditor")))
    stored = Stored(ours).use(monkeypatch)
    for _ in range(9):
        hour_of_a_service(stored, DAYS[0])
    assert stored.read()[0].content["job"] == runs.SUMMARIZE
    assert stored.read()[0].content["signed_with"] == keys.SIGNED

    signed_by(stored, SECRET)

    assert stored.found() == [ALTERED]
    # Of a proxy, in the name of the job.
    stored.present.pop(max(stored.present))
    signed_by(stored, Keys([], run=Signer("auditor", signing_key("proxy-1"))))
    assert stored.found() == [ALTERED]


def closed_file(stored: Stored, table: str) -> str:
    [path] = [path for path, file in stored.tables[table].items() if file.day == DAYS[0]]
    return path


def until_ms(stored: Stored, table: str) -> int:
    return int(stored.read()[-1].content["tables"][table]["closed"]["until_ms"])


def replaced(stored: Stored) -> None:
    """A closed file by another one with its time, so that as many are there as before."""
    stored.remove("audit", closed_file(stored, "audit"))
    stored.add("audit", DAYS[0], modified_ms=until_ms(stored, "audit"))


def table_removed(stored: Stored) -> None:
    for path in list(stored.tables["reconciled"]):
        stored.remove("reconciled", path)
    del stored.tables["reconciled"]


OF_FILES: dict[str, Callable[[Stored], object]] = {
    "removed": lambda s: s.remove("audit", closed_file(s, "audit")),
    "with fewer records": lambda s: s.change("audit", closed_file(s, "audit"), rows=1),
    "moved to another day": lambda s: s.change("audit", closed_file(s, "audit"), day=DAYS[1]),
    "a file of the metadata log removed": lambda s: s.remove("metadata_log", closed_file(s, "metadata_log")),
    "a file of table reconciled added, with an old time": lambda s: s.add(
        "reconciled", DAYS[0], modified_ms=1
    ),
    "a file of table reconciled removed": lambda s: s.remove("reconciled", min(s.tables["reconciled"])),
    "table reconciled removed": table_removed,
    "a file replaced by another one": replaced,
}


@pytest.mark.parametrize("kind", OF_FILES)
def test_what_is_done_to_closed_files_in_deltas_log_is_found_by_each_job(stored: Stored, kind: str) -> None:
    OF_FILES[kind](stored)

    assert stored.found() == stored.found(whole=True) == [TABLE]
    for _ in range(9):
        stored.reconcile(DAYS[2])
    assert stored.found() == [TABLE], "no summary covers it"
    with pytest.raises(AuditError, match="nothing was changed"):
        stored.compact(DAYS[2])


def test_bytes_of_a_closed_file_are_compared_by_jobs_of_its_day_and_by_verify(stored: Stored) -> None:
    stored.change("audit", closed_file(stored, "audit"), content="edited")

    assert stored.found() == stored.found(DAYS[2]) == [], "as docs/tampering.md says"
    assert stored.found(DAYS[0]) == stored.found(whole=True) == [TABLE]
    # Neither a summary nor another job that signs all files makes it right.
    for _ in range(9):
        stored.reconcile(DAYS[2])
    stored.compact(DAYS[2])
    assert stored.found(whole=True) == [TABLE]
    # And nobody makes another file of it.
    with pytest.raises(AuditError, match="nothing was changed"):
        stored.compact(DAYS[0])


def test_a_file_of_an_ingest_whose_clock_is_slow_is_no_finding(stored: Stored) -> None:
    """Its time is that of a closed file. It is read as a new one, and closed with the next summary."""
    late = stored.add("audit", DAYS[0], modified_ms=until_ms(stored, "audit") - 1)
    stored.cost = Cost()

    found = manifest.check(NONE, TABLES, SECRET, manifest.of_days([DAYS[2]]))

    assert found.faults == []
    assert late in found.now["audit"]["files"]
    assert late not in found.now["audit"]["known"]
    for _ in range(9):
        assert stored.reconcile(DAYS[2]).faults == []
    assert late not in stored.read()[-1].content["tables"]["audit"]["files"]
    stored.change("audit", late, content="edited")
    assert stored.found(whole=True) == [TABLE]


def test_a_run_with_a_list_of_files_is_missed_by_jobs_that_need_it_and_by_verify(stored: Stored) -> None:
    name = max(name for name, text in stored.archived.items() if json.loads(text)["job"] == "compact")
    text = stored.archived.pop(name)

    assert stored.found() == []
    assert stored.found(DAYS[0]) == [MISSING]
    assert set(stored.found(whole=True)) == {MISSING, ALTERED}
    stored.archived[name] = edited(text)
    assert stored.found(DAYS[0]) == [ALTERED]
    assert stored.found(whole=True) == [ALTERED]
    # With it, a closed file of another day could be removed: without a list, nobody knows its name.
    stored.remove("audit", closed_file(stored, "audit"))
    assert ALTERED in stored.found()


def test_other_old_runs_are_missed_by_verify(stored: Stored) -> None:
    name = min(stored.archived)
    text = stored.archived.pop(name)

    assert stored.found() == stored.found(*DAYS[:3]) == []
    assert stored.found(whole=True) == [MISSING, ALTERED]
    stored.archived[name] = edited(text)
    assert stored.found(whole=True) == [ALTERED]


def test_a_job_that_began_before_a_summary_writes_no_run_of_the_past(stored: Stored) -> None:
    slow = manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE)
    for _ in range(6):
        hour_of_a_service(stored, DAYS[2])
    assert f"{slow.newest.number + 1:08}.json" not in stored.present

    with pytest.raises(AuditError, match="another job has written run"):
        manifest.sign(NONE, slow, "report", slow.checked)


def test_a_summary_that_was_killed_before_runs_were_moved_counts(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "move_summarized", lambda *_: None)
    for _ in range(9):
        hour_of_a_service(stored, DAYS[2])
    assert len(stored.present) > 20
    stored.cost = Cost()
    assert stored.found() == []
    assert stored.cost.runs <= 13

    monkeypatch.undo()
    stored.use(monkeypatch)
    for _ in range(5):
        hour_of_a_service(stored, DAYS[2])
    assert len(stored.present) <= 13
    assert stored.found(whole=True) == []


def test_a_summary_repeats_what_still_counts(stored: Stored) -> None:
    """Findings that are open, what was acknowledged, and what was written."""
    stored.reconcile(DAYS[0], open={"a": DAYS[0], "b": DAYS[0]})
    found = manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE)
    entry = [{"id": "a", "why": "known", "by": "erin"}]
    manifest.sign(NONE, found, ACKNOWLEDGE, found.checked, acknowledged=entry)
    stored.reconcile(DAYS[1], open={"c": DAYS[1]})
    stored.reconcile(DAYS[1])
    found = manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE)
    wrote = manifest._signed_outputs(found)

    for _ in range(20):
        hour_of_a_service(stored, DAYS[2])
    read = stored.read()

    assert read[0].content["job"] == runs.SUMMARIZE
    assert acknowledgements(read)["a"] == ("known", "erin")
    assert day_of(read, "b") == DAYS[0]
    with pytest.raises(AuditError, match="no reconciliation of these tables has found 'c'"):
        day_of(read, "c")
    assert acknowledged_by_day(read)[date.fromisoformat(DAYS[0])] == 1
    found = manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE)
    of_day = f"/out/{DAYS[0]}/findings.json"
    assert manifest._signed_outputs(found)[of_day] == wrote[of_day]
    [fault] = manifest.output_faults(found, {of_day: "other"})
    assert f"not as run {wrote[of_day][0]} wrote it" in fault.explanation
    [cut] = manifest.output_faults(found, {}, found.newest.number + 1)
    assert cut.check == "manifest.cut"


def test_no_summary_is_written_while_a_job_is_unfinished(stored: Stored) -> None:
    manifest.begin(
        NONE, TABLES, SECRET, lambda rows, _expired, _known: rows, "compact", manifest.of_days([DAYS[2]])
    )
    before = summary_of(stored)
    for _ in range(13):
        found = manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE)
        manifest.sign(NONE, found, "report", found.checked, **found.unfinished)
        manifest.summarize(NONE, manifest.check(NONE, TABLES, SECRET, manifest.NO_FILE))

    assert summary_of(stored) == before
    assert stored.found() == ["manifest.unfinished"]
    stored.compact(DAYS[2])
    assert summary_of(stored) > before
    assert stored.found(whole=True) == []


def test_days_of_an_edited_findings_json_are_no_sql() -> None:
    assert manifest.of_days(["2026-11-23", "2026-11-24"]) == "first_day IN ('2026-11-23', '2026-11-24')"
    with pytest.raises(ValueError, match="Invalid isoformat"):
        manifest.of_days(["') OR true OR first_day IN ('"])
