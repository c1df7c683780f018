"""What the service remembers between its runs changes no finding: it is what the tables have now."""

import shutil
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.past import MOST_CHANGED, Past
from spark_audit.reconcile.reconciliation import reconcile
from spark_audit.reconcile.sessions import TRAFFIC
from spark_audit.tables import delta, plans
from spark_audit.tables.delta import Tables, empty_frame
from spark_audit.tables.retention import compact, days_to_reconcile, expire
from spark_audit.trail.audit_records import sequence_index
from tests.spark import delta_log
from tests.spark.audit_trail import Clock
from tests.spark.frames import log_frame
from tests.spark.sealed import Line, table
from tests.spark.tampered import EDITED, HOUR_MS, a_true_trail, sealed_boots

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.spec("D8", "D9"),
    pytest.mark.usefixtures("not_held"),
]

KINDS = [kind for kind in EDITED if kind != "unaudited"]
"""What was done to the two boots of each proxy. The other one is of two processes."""


@dataclass
class Place:
    """Tables in which all but the end of a trail has come, and what a service remembers of them."""

    spark: SparkSession
    tables: Tables
    lines: list[Line]
    came: int = 0
    past: Past = field(default_factory=Past)

    def come(self, *, until: int | None = None) -> None:
        """Ingest the lines from `came` on."""
        new = self.lines[self.came : until]
        delta.append_once(table(self.spark, new, self.came), self.tables.audit, "test", self.came)
        self.came += len(new)

    def read(self, day: str | None = None) -> tuple[DataFrame, DataFrame, DataFrame]:
        """The table, and what a run gets that judges this day, or the last."""
        version = delta.version(self.spark, self.tables.audit)
        audit = delta.read_table(self.spark, self.tables.audit, S.AUDIT, version)
        files = delta.files_by_day(self.spark, self.tables.audit, version)
        return audit, *self.past.read(audit, files, [day or str(max(self.days()))])

    def days(self) -> list[date]:
        rows = delta.read_table(self.spark, self.tables.audit).select(S.DATE).distinct().collect()
        return sorted(row[S.DATE] for row in rows if row[S.DATE] is not None)

    def counts(self) -> tuple[DataFrame | None, Set[date]]:
        return self.past.counts(delta.files_by_day(self.spark, self.tables.audit))

    def known(self) -> Set[date]:
        return self.counts()[1]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Each proxy is tampered with in another way, over two weeks: its boots have records of two days."""
    made = a_true_trail(KINDS, Clock(step_ms=HOUR_MS))
    by_name = {kind: [each for each in made.processes if each.proxy_id == kind] for kind in KINDS}
    edited = [EDITED[kind](sealed_boots(by_name[kind], None)) for kind in KINDS]
    lines = [line for boots in edited for boot in boots for line in boot]
    place = Place(spark, Tables(str(tmp_path_factory.mktemp("past") / "tables")), lines)
    delta.create_tables(spark, place.tables)
    delta.append_once(log_frame(spark, made.log), place.tables.metadata_log, "test", 0)
    place.come(until=len(lines) - 4)
    return place


@pytest.fixture
def place(whole: Place, tmp_path: Path) -> Place:
    tables = Tables(str(tmp_path / "tables"))
    shutil.copytree(whole.tables.root, tables.root)
    return Place(whole.spark, tables, whole.lines, whole.came)


def rows(of: DataFrame) -> list[str]:
    return sorted(row[0] for row in of.select(F.to_json(F.struct(*sorted(of.columns)))).collect())


def late(place: Place) -> None:
    """A process ships again what it wrote on the first days: copies on old days, in another order."""
    place.lines = [*place.lines[: place.came], *place.lines[40:30:-1]]
    place.come()


def expired(place: Place) -> None:
    expire(place.spark, place.tables, place.days()[4], None, lambda new, *_: new.limit(0), force=True)


def deleted(place: Place) -> None:
    delta_log.with_a_vector(
        place.spark, place.tables.audit, f"date = '{place.days()[2]}' AND sequence % 2 = 0"
    )


def replaced(place: Place) -> None:
    """The table of another trail, whose days have the same names."""
    shutil.rmtree(place.tables.audit)
    delta_log.forget(place.spark)
    delta.create_tables(place.spark, place.tables)
    place.lines = place.lines[19:]
    place.came = 0
    place.come()


def mapped(place: Place) -> None:
    delta_log.mapped_to_another(place.tables.audit)
    delta_log.forget(place.spark)


def without_a_day(place: Place) -> None:
    """Somebody edits Delta's log: the records of a file have no day, and those of another one a new day."""
    first, second, *_ = delta_log.actions(place.tables.audit, "add")
    changed = [
        {"add": {**each, "partitionValues": {S.DATE: day}}}
        for each, day in ((first, None), (second, "2026-1-2"))
    ]
    delta_log.commit(place.tables.audit, *changed)
    delta_log.forget(place.spark)


def compacted(place: Place) -> None:
    compact(place.spark, place.tables, 168, None, lambda new, *_: new.limit(0))


def agrees(place: Place) -> None:
    """Of these tables, what is remembered is what a run without a memory reads."""
    found = days_to_reconcile(place.spark, place.tables, *place.counts())
    assert found == days_to_reconcile(place.spark, place.tables)
    audit, index, few = place.read()
    assert rows(index) == rows(sequence_index(audit))
    without_traffic = audit.where(~F.col(S.EVENT).isin(*TRAFFIC)).drop(S.LINE, S.BODY_SHA256)
    assert rows(few) == rows(without_traffic)


@pytest.mark.long
def test_a_run_that_remembers_the_past_finds_what_a_full_one_finds(place: Place) -> None:
    place.read()
    late(place)
    day = str(place.days()[len(place.days()) // 2])
    audit, index, few = place.read(day)
    assert len(place.known()) > 5
    nothing = empty_frame(place.spark, S.QUARANTINE)
    log = delta.read_table(place.spark, place.tables.metadata_log, S.METADATA_LOG)
    # What follows is the same for both, and takes much less time so.
    plans.adapt_plans(place.spark, place.tables)

    warm = reconcile(audit, nothing, log, days=[day], index=index, few=few)

    assert len({row[S.CHECK] for row in warm.findings}) > 1
    assert warm == reconcile(audit, nothing, log, days=[day])


@pytest.mark.long
def test_what_is_remembered_is_what_the_tables_have_after_jobs(place: Place) -> None:
    place.read()
    closed = set(place.days()[:-1])
    assert place.known() == closed
    place.come()
    assert place.known() == closed
    agrees(place)

    late(place)
    assert 0 < len(closed - place.known()) <= MOST_CHANGED
    agrees(place)
    for job in (expired, compacted):
        job(place)
        agrees(place)
    assert 0 < len(place.known()) < len(place.days())


@pytest.mark.long
@pytest.mark.parametrize("edit", [deleted, replaced, without_a_day, mapped])
def test_what_is_remembered_is_what_the_tables_have_after_edits(
    place: Place, edit: Callable[[Place], None]
) -> None:
    place.read()
    before = place.known()
    edit(place)

    assert len(place.known()) == (len(before) - 2 if edit is without_a_day else 0)
    agrees(place)
    agrees(place)


@pytest.mark.long
def test_bytes_that_are_edited_in_an_old_file_are_seen_when_the_past_is_read_again(place: Place) -> None:
    """As docs/reconciliation.md says. Delta's log says the same as before."""
    _, _, few = place.read()
    before = rows(few)
    first, second = (each["path"] for each in delta_log.actions(place.tables.audit, "add")[:2])
    root = Path(place.tables.audit)
    shutil.copy(root / first, root / second)
    (root / second).with_name(f".{Path(second).name}.crc").unlink(missing_ok=True)

    assert rows(place.read()[2]) == before
    place.past.forget()
    audit, index, few = place.read()
    assert rows(few) != before
    assert rows(index) == rows(sequence_index(audit))
