"""Runs that a job signs with a key of its own: who has the public keys can verify them, and write none."""

import json
import time
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from proxy.audit.checkpoints import Checkpoint, Signer
from spark_audit import __main__ as command_line
from spark_audit.reconcile.log_signatures import read_public_keys
from spark_audit.tables import delta, manifest
from spark_audit.tables.acknowledgements import acknowledgements
from spark_audit.tables.delta import Tables
from spark_audit.tables.files import AuditError
from spark_audit.tables.keys import (
    UNKNOWN,
    Key,
    Keys,
    PublicKeys,
    fits,
    read_cosignatures,
    read_keys,
    sealed,
)
from spark_audit.tables.runs import (
    ACCEPT,
    RECONCILE,
    SUMMARIZE,
    Fault,
    Run,
    newest_of,
    read_runs,
    write_run,
)
from tests.support.signing import key_file, pem, public_key, signing_key

pytestmark = [pytest.mark.spec("D14", "D8")]

SECRET = bytes(range(40))
NOW_MS = 1_795_435_200_000
CONTENT = {"run": 3, "job": "reconcile", "time_ms": NOW_MS, "tables": {}}
START = "ab" * 32
PUBLIC = [public_key("auditor", role="run"), public_key("proxy-1")]
OURS = Keys(PUBLIC, run=Signer("auditor", signing_key("auditor")))
VERIFIER = Keys(PUBLIC)


def judged(key: Key, text: tuple[str, str], start: str = START) -> bool:
    body, link = text
    return fits(start, body, link, json.loads(body + "}"), key)


def signed_by(name: str, **content: object) -> tuple[str, str]:
    return sealed(START, {**CONTENT, **content}, Keys([], run=Signer(name, signing_key(name))), None)


def linked(body: str) -> tuple[str, str]:
    """What somebody writes who computes the link again."""
    return body, sha256((START + body).encode()).hexdigest()


class TwoKeys:
    """The runs in a directory, of a job that has changed its key from `first` to `second`."""

    def __init__(self, spark: SparkSession, directory: str, public: PublicKeys) -> None:
        self.spark, self.directory, self.public = spark, directory, public
        self.first, self.second = (
            Keys(public, run=Signer("auditor", signing_key(name))) for name in ("first", "second")
        )

    def write(self, key: Key, before: Run, job: str, time_ms: int) -> Run:
        content = {"job": job, "tables": {}, "time_ms": time_ms}
        return write_run(self.spark, self.directory, key, before, content)

    def read(self, *, whole: bool = False) -> tuple[list[Run], list[Fault]]:
        return read_runs(self.spark, self.directory, Keys(self.public), whole=whole)


def test_the_public_key_verifies_a_run_and_nothing_else_fits() -> None:
    body, link = sealed(START, CONTENT, OURS, None)

    assert json.loads(body + "}")["signed_with"] == "ed25519"
    assert judged(VERIFIER, (body, link))
    assert judged(OURS, (body, link))
    assert not judged(VERIFIER, (body, link), start="cd" * 32)
    assert not judged(VERIFIER, linked(body.replace('"tables":{}', '"tables":{"audit":1}')))
    assert not judged(VERIFIER, linked(body.replace('"run":3', '"run":4')))
    assert not judged(VERIFIER, linked(body + ',"more":1'))
    assert not judged(VERIFIER, (body, "0" * 64))


@pytest.mark.parametrize(
    "forged",
    [
        # The key of a proxy signs no runs, even in the name of the job.
        signed_by("proxy-1"),
        sealed(START, CONTENT, Keys([], run=Signer("auditor", signing_key("proxy-1"))), None),
        signed_by("unknown"),
        sealed(START, CONTENT, None, None),
        sealed(START, CONTENT, SECRET, None),
        linked('{"run":3,"time_ms":1,"signed_with":"ed25519","note":7'),
        linked('{"run":3,"signed_with":"ed25519"'),
    ],
)
def test_who_has_no_key_of_a_job_signs_no_run(forged: tuple[str, str]) -> None:
    assert not judged(VERIFIER, forged)


def test_a_run_counts_if_its_key_was_valid_then() -> None:
    body, link = sealed(START, CONTENT, OURS, None)
    until = Keys([public_key("auditor", role="run", not_after_ms=NOW_MS)])
    retired = Keys([public_key("auditor", role="run", not_after_ms=NOW_MS - 1)])
    replaced = Keys([*retired.public, public_key("auditor", "second", role="run")])
    by_second = sealed(START, CONTENT, Keys([], run=Signer("auditor", signing_key("second"))), None)

    assert judged(until, (body, link))
    assert not judged(retired, (body, link))
    assert judged(replaced, by_second)


@pytest.mark.spark
@pytest.mark.slow
def test_a_key_that_has_ended_signs_no_run_after_one_of_a_later_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody has kept the key, and writes times at which it was valid."""
    public = [
        public_key("auditor", "first", role="run", not_after_ms=NOW_MS),
        public_key("auditor", "second", role="run", not_before_ms=NOW_MS),
    ]
    runs = TwoKeys(spark, str(tmp_path), public)
    first, second, written = runs.first, runs.second, runs.write

    def found(whole: bool) -> list[str]:
        return [fault.check for fault in runs.read(whole=whole)[1]]

    newest = written(first, newest_of([]), RECONCILE, NOW_MS - 2)
    newest = written(second, newest, RECONCILE, NOW_MS + 1)
    assert found(whole=False) == found(whole=True) == []
    for job in (RECONCILE, ACCEPT, SUMMARIZE):
        forged = written(first, newest, job, NOW_MS - 1)
        assert "manifest.run_altered" in found(whole=False)
        assert found(whole=True) == ["manifest.run_altered"]
        Path(runs.directory, f"{forged.number:08}.json").unlink()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("job", [ACCEPT, SUMMARIZE])
def test_a_key_that_has_ended_begins_nothing_anew_after_several_runs_of_its_own(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    """Jobs read from the newest summary on. Before it, there may be more than one run of the forger."""
    ended_ms = time.time_ns() // 1_000_000 - 3_600_000
    public = [
        public_key("auditor", "first", role="run", not_after_ms=ended_ms),
        public_key("auditor", "second", role="run", not_before_ms=ended_ms),
    ]
    runs = TwoKeys(spark, str(tmp_path), public)
    first, second, written = runs.first, runs.second, runs.write

    def found() -> list[str]:
        return [fault.check for fault in runs.read()[1]]

    newest = written(first, newest_of([]), RECONCILE, ended_ms - 5)
    # As it is after each change of keys: the newest summary is of the old one.
    newest = written(first, newest, SUMMARIZE, ended_ms - 4)
    assert found() == []
    newest = written(second, newest, RECONCILE, ended_ms + 1)
    assert found() == []
    newest = written(first, newest, RECONCILE, ended_ms - 3)
    written(first, newest, job, ended_ms - 2)

    assert found() == ["manifest.run_altered"] * 2


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D15")
def test_a_clock_that_was_ahead_once_is_one_finding_and_no_later_run_is_doubted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its key has no end. Those after it have, long before the time that the run says."""
    year_ms = 365 * 86_400_000
    public = [
        public_key("auditor", "first", role="run"),
        public_key("auditor", "second", role="run", not_after_ms=NOW_MS + year_ms),
    ]
    written_by = TwoKeys(spark, str(tmp_path), public)
    first, second = written_by.first, written_by.second

    def written(key: Key, before: Run, time_ms: int) -> Run:
        return written_by.write(key, before, RECONCILE, time_ms)

    newest = written(first, newest_of([]), NOW_MS)
    ahead = written(first, newest, NOW_MS + 10 * year_ms)
    newest = written(first, ahead, NOW_MS + 1)
    written(second, newest, NOW_MS + 2)

    for whole in (False, True):
        runs, [fault] = written_by.read(whole=whole)
        assert all(run.fits for run in runs)
        assert (fault.check, fault.severity) == ("manifest.run_time", "medium")
        assert fault.evidence == {"run": 2, "link": ahead.link}
        assert fault.explanation.startswith(
            "run 2 of the manifest has the time 2036-11-20T12:00:00+00:00, and run 3, which follows it,"
            " 2026-11-23T12:00:00+00:00: the clock of the first one's host was ahead"
        )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D15")
def test_a_job_signs_nothing_with_a_key_that_is_not_valid_now(spark: SparkSession, tmp_path: Path) -> None:
    """Each later job would take its run for a forged one."""
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    ended = Keys([public_key("auditor", role="run", not_after_ms=1_000)], run=OURS.run)
    runs = manifest.check(spark, tables, ended)

    with pytest.raises(AuditError) as raised:
        manifest.sign(spark, runs, RECONCILE, runs.signed)

    text = str(raised.value)
    assert text.startswith("--run-key: its public key is valid from 1970-01-01T00:00:00+00:00 to 1970-01-01")
    assert text.endswith(": set the clock, or pass a key that is valid now")
    assert manifest.runs_of(spark, tables, ended) == []


def test_runs_with_the_old_secret_still_fit() -> None:
    old = sealed(START, CONTENT, SECRET, None)

    assert judged(SECRET, old)
    assert judged(Keys(PUBLIC, chain=SECRET), old)
    assert not judged(Keys(PUBLIC, chain=bytes(40)), old)
    assert not judged(VERIFIER, old)


def test_a_job_without_its_key_signs_nothing_after_a_signed_run() -> None:
    for key, before in ((VERIFIER, None), (None, "ed25519"), (SECRET, "ed25519")):
        with pytest.raises(AuditError, match="pass the key of the job with --run-key"):
            sealed(START, CONTENT, key, before)


def test_key_files_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    public, private = tmp_path / "audit.pub", key_file(tmp_path, "auditor")
    public.write_text(
        pem("auditor", "name: auditor", "role: run") + pem("proxy-1", "name: proxy-1", "role: audit")
    )

    keys = read_keys(None, str(public), str(private))
    assert isinstance(keys, Keys)
    assert judged(keys, sealed(START, CONTENT, keys, None))
    with pytest.raises(AuditError, match="--run-key: pass --public-keys"):
        read_keys(None, None, str(private))
    with pytest.raises(AuditError, match="does not have its public key with `role: run`"):
        read_keys(None, str(public), str(key_file(tmp_path, "proxy-1")))
    with pytest.raises(AuditError, match="No such file"):
        read_keys(None, str(tmp_path / "none"), None)


@pytest.mark.spec("S14")
def test_one_file_has_the_keys_of_controllers_and_of_all_others(tmp_path: Path) -> None:
    """A controller's key alone proves no trail, and without one no log is verified."""
    of_log, others, all_keys = (tmp_path / f"{name}.pub" for name in ("log", "others", "all"))
    of_log.write_text(pem("controller"))
    others.write_text(
        pem("auditor", "name: auditor", "role: run") + pem("proxy-1", "name: proxy-1", "role: audit")
    )
    all_keys.write_text(of_log.read_text() + others.read_text())
    (tmp_path / "secret").write_bytes(SECRET)

    assert read_keys(None, str(of_log), None) is None
    assert read_keys(str(tmp_path / "secret"), str(of_log), None) == SECRET
    for path in (others, all_keys):
        keys = read_keys(None, str(path), None)
        assert isinstance(keys, Keys)
        assert [each.role for each in keys.public] == ["run", "audit"]
    assert read_public_keys(str(others)) is None
    for path in (of_log, all_keys):
        found = read_public_keys(str(path))
        assert found is not None
        assert (len(found), signing_key("controller").id in found) == (1, True)


def test_cosignatures_are_read_whoever_has_written_them() -> None:
    link = "ab" * 32
    note = Signer("proxy-1", signing_key("proxy-1")).signed(
        Checkpoint("proxy-1", "boot-1", 5, link, NOW_MS).text()
    )
    keys = [public_key("witness", not_after_ms=NOW_MS), public_key("witness", "next"), *PUBLIC]

    def read(name: str, key: str, time_ms: int = NOW_MS) -> list[tuple[str, str]]:
        found = read_cosignatures(signer(name, key).cosigned(note, time_ms), keys)
        return [(each.name, each.why) for each in found]

    def signer(name: str, key: str) -> Signer:
        return Signer(name, signing_key(key))

    assert read("witness", "witness") == read("witness", "next") == [("witness", "")]
    assert read("witness.w1", "witness") == [("witness.w1", "")]
    assert "not valid" in read("witness", "witness", NOW_MS + 1000)[0][1]
    # The key of a job cosigns nothing; nor does a name that nobody knows.
    assert read("auditor", "auditor") == [("auditor", UNKNOWN)]
    assert read("somebody", "witness") == [("somebody", UNKNOWN)]
    cosigned = signer("witness", "witness").cosigned(note, NOW_MS)
    line = cosigned.removeprefix(note)
    of_other = note.replace("boot-1", "boot-2") + line
    assert "is of another checkpoint" in read_cosignatures(of_other, keys)[0].why
    raw = b64decode(line.split()[-1])
    for wrong in (raw[:4], raw[:20], raw[:-1], raw + b"x", raw[:4] + bytes(72), raw[:-1] + b"x"):
        found = read_cosignatures(f"{note}\u2014 witness {b64encode(wrong).decode()}\n", keys)
        assert all(each.why for each in found)
        assert found or len(wrong) == 4, "without any byte it is no signed note"
    assert read_cosignatures(note, keys) == read_cosignatures("no note", keys) == []


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_a_manifest_moves_from_the_secret_to_signatures_and_not_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = Tables(str(tmp_path / "tables"))
    delta.create_tables(spark, tables)
    both = Keys(PUBLIC, SECRET, OURS.run)

    def run(key: Key) -> None:
        runs = manifest.check(spark, tables, key)
        manifest.sign(spark, runs, "reconcile", runs.signed)

    def faults(key: Key) -> list[str]:
        return [fault.check for fault in manifest.check(spark, tables, key).faults]

    run(SECRET)
    with pytest.raises(AuditError, match="pass it with --chain-key"):
        manifest.check(spark, tables, VERIFIER)
    run(both)
    assert faults(both) == faults(Keys(PUBLIC, SECRET)) == []
    # Without the old secret its runs cannot be verified.
    assert faults(VERIFIER) == ["manifest.run_altered"]
    for key in (None, SECRET):
        with pytest.raises(AuditError, match="signed with --run-key: pass --public-keys"):
            manifest.check(spark, tables, key)
    # Somebody with the old secret, who has read the newest run.
    newest = manifest.check(spark, tables, both).newest
    body, link = sealed(newest.link, {**CONTENT, "tables": {}}, SECRET, None)
    Path(tables.root, "runs", "00000003.json").write_text(f'{body},"link":"{link}"}}')
    assert faults(both) == ["manifest.run_altered"]
    Path(tables.root, "runs", "00000003.json").unlink()
    # From here on public keys are enough.
    runs = manifest.check(spark, tables, both)
    manifest.sign(spark, runs, ACCEPT, runs.now)
    run(OURS)
    assert faults(VERIFIER) == []


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.spec("D15")
def test_a_finding_is_acknowledged_with_the_key_of_the_job_and_with_no_other(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, other = Tables(str(tmp_path / "tables")), Tables(str(tmp_path / "other"))
    for each in (tables, other):
        delta.create_tables(spark, each)
        runs = manifest.check(spark, each, OURS)
        judged = {"days": ["2026-11-23"], "open": {"f" * 16: "2026-11-23"}}
        manifest.sign(spark, runs, "reconcile", runs.signed, judged=judged)
    public = tmp_path / "audit.pub"
    public.write_text(
        pem("auditor", "name: auditor", "role: run") + pem("proxy-1", "name: proxy-1", "role: audit")
    )
    keys = {name: str(key_file(tmp_path, name)) for name in ("auditor", "proxy-1", "nobody")}

    def acknowledge(*arguments: str, of: Tables = tables) -> tuple[int, str]:
        options = "--why", "see OPS-17", "--by", "erin", "--public-keys", str(public), *arguments
        code = command_line.main(["acknowledge", of.root, "f" * 16, *options])
        return code, capsys.readouterr().err

    def known() -> dict[str, tuple[str, str]]:
        return dict(acknowledgements(manifest.runs_of(spark, tables, VERIFIER)))

    def faults() -> list[str]:
        return [fault.check for fault in manifest.check(spark, tables, VERIFIER).faults]

    for name in ("proxy-1", "nobody"):
        code, error = acknowledge("--run-key", keys[name])
        assert (code, "does not have its public key with `role: run`" in error) == (2, True)
    code, error = acknowledge()
    assert (code, "pass the key of the job with --run-key" in error) == (2, True)
    assert known() == {}

    assert acknowledge("--run-key", keys["auditor"]) == (0, "")
    assert known() == {"f" * 16: ("see OPS-17", "erin")}
    assert faults() == []
    # Who has the key of a proxy writes one, with its key, in the name of the job.
    file = Path(tables.root, "runs", "00000002.json")
    text = file.read_text(encoding="utf-8")
    first = manifest.runs_of(spark, tables, VERIFIER)[0]
    forger = Keys(PUBLIC, run=Signer("auditor", signing_key("proxy-1")))
    entry = [{"id": "f" * 16, "why": "nothing", "by": "mallory"}]
    file.unlink()
    write_run(
        spark, str(file.parent), forger, first, {"job": "acknowledge", "acknowledged": entry, "tables": {}}
    )
    assert (known(), faults()) == ({}, ["manifest.run_altered"])
    # Removed: the finding is open again, and the next run shows that one is missing.
    file.unlink()
    assert (known(), faults()) == ({}, [])
    file.write_text(text, encoding="utf-8")
    runs = manifest.check(spark, tables, OURS)
    manifest.sign(spark, runs, "report", runs.signed)
    file.unlink()
    assert (known(), faults()) == ({}, ["manifest.run_missing", "manifest.run_altered"])
    # Replayed: at another number, and in another trail with a run of the same number.
    file.write_text(text, encoding="utf-8")
    assert faults() == []
    Path(tables.root, "runs", "00000004.json").write_text(text, encoding="utf-8")
    assert faults() == ["manifest.run_altered"]
    Path(other.root, "runs", "00000002.json").write_text(text, encoding="utf-8")
    assert acknowledgements(manifest.runs_of(spark, other, VERIFIER)) == {}
    assert [each.check for each in manifest.check(spark, other, VERIFIER).faults] == ["manifest.run_altered"]
