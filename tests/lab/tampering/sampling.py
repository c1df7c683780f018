"""Random edits by the hundred thousand: `make tamper EDITS=100000 SEED=1`.

Each edit is made in two boots of a proxy of its own, without the key. Edit `number` of a seed is always the
same one. Spark's workers make the lines, and one pass of the real checks judges a whole batch. What is looked
up on the page is the edit's cell; an edit that the page calls harmless must have no finding either.
"""

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from proxy.audit.chain import Chain, sealed
from proxy.net.audit.spool_files import decode_line, encode_line
from spark_audit import schema as S
from spark_audit.ingest import decode
from spark_audit.reconcile.chain import boots, chain, columns, successions
from spark_audit.reconcile.gaps import gaps
from spark_audit.tables import manifest, runs
from spark_audit.tables.files import read_text
from spark_audit.trail.audit_records import deduplicate, later_copies, sequence_index
from tests.lab.tampering.page import PAGE, read
from tests.lab.tampering.scene import SECRET, scene, token
from tests.lab.tampering.tables import NOT_RECONCILED, OTHER_VALUES
from tests.lab.tampering.topics import (
    AUDIT_TOPIC,
    DELETE,
    DUPLICATE,
    EDIT,
    INSERT,
    MOVE,
    SPOOL,
    WITHOUT_KEY,
    Cell,
    flipped,
)
from tests.spark.audit_trail import NOON_MS
from tests.spark.frames import KAFKA, moment

FOR_MANY_ROWS = {
    "spark.driver.memory": "4g",
    # This run is long enough for the second compiler.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
}
BATCH = 20_000
"""Edits that are judged at once: half a million records."""
PLACEHOLDER = 99_999_999
RUNS_EACH = 20
"""One of so many edits is of the file of a run."""
ROWS = T.StructType([*KAFKA, T.StructField("column", T.StringType())])
"""A row of the topic, and the column that is edited in the table afterwards, null for none."""
OF_KAFKA = (S.KAFKA_TOPIC, S.KAFKA_PARTITION, S.KAFKA_OFFSET, S.KAFKA_TIMESTAMP)
"""These columns are compared with the topics only, which the random edits leave out."""
Pair = tuple[bytes, bytes]
Pairs = list[Pair]


class Template(NamedTuple):
    """The bodies of the lines of both boots, with the keys of the boots and the links that the second has."""

    keys: tuple[bytes, bytes]
    bodies: tuple[tuple[bytes, ...], tuple[bytes, ...]]
    end: bytes
    """The link of the last record of the first boot, which the second one names."""


def template() -> Template:
    made = scene(PLACEHOLDER).sealed()
    boots = made["first"], made["second"]
    bodies = [tuple(line.value.rpartition(b',"chain":"')[0] for line in boot) for boot in boots]
    end = json.loads(boots[0][-1].value)["chain"].encode()
    return Template((boots[0][0].key, boots[1][0].key), (bodies[0], bodies[1]), end)


def copy_of(base: Template, number: int) -> tuple[Pairs, Pairs]:
    """Keys and lines of both boots of a proxy of its own."""
    old, new = token(PLACEHOLDER).encode(), f"k{number:08}".encode()
    made: list[Pairs] = []
    end = base.end
    for key, bodies in zip(base.keys, base.bodies, strict=True):
        own = key.replace(old, new)
        links = Chain(own, SECRET)
        pairs: Pairs = []
        for body in bodies:
            text = body.replace(old, new).replace(base.end, end)
            links.last = links.after(text)
            pairs.append((own, sealed(text, links.last)))
        made.append(pairs)
        end = pairs[-1][1][-66:-2]
    return made[0], made[1]


def other_value(chance: random.Random, value: Any) -> Any:
    others: tuple[Any, ...] = (None, True, -1, 2**40, "another", "x" * 9, ["x"], {}, 0.5)
    if isinstance(value, int) and not isinstance(value, bool):
        others = (*others, value + chance.choice((-1, 1, 1_000)))
    if isinstance(value, str):
        others = (*others, value[:-1], f"{value}é", value.swapcase())
    chosen = chance.choice(others)
    return chosen if type(chosen) is not type(value) or chosen != value else "yet another"


def _with_field(chance: random.Random, pair: Pair) -> tuple[str, Pair]:
    text = json.loads(pair[1])
    holder = text if chance.random() < 0.15 else text["data"]
    name = chance.choice([name for name in holder if name not in ("data", "chain")])
    holder[name] = other_value(chance, holder[name])
    return name, (pair[0], json.dumps(text, separators=(",", ":")).encode())


class Made(NamedTuple):
    """One edit: its cell, what the topic has after it, and the offset and column of an edit in the table."""

    cell: Cell
    pairs: Sequence[tuple[bytes, bytes | None]]
    column: tuple[int, str] | None = None


Kind = Callable[[random.Random, Pairs, Pairs], Made]


def _at(chance: random.Random, pairs: Pairs, last: int = 0) -> int:
    return chance.randrange(len(pairs) - last)


def _in_either(chance: random.Random, first: Pairs, second: Pairs) -> int:
    """Any record but the newest one, which may not have been shipped yet."""
    return chance.randrange(len(first) + len(second) - 1)


def _field(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    at = _at(chance, pairs)
    name, pairs[at] = _with_field(chance, pairs[at])
    return Made(_of_topic(name, EDIT), pairs)


def _byte(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    at = _at(chance, pairs)
    key, value = pairs[at]
    place = chance.randrange(len(value))
    pairs[at] = key, value[:place] + bytes([value[place] ^ chance.randrange(1, 256)]) + value[place + 1 :]
    return Made(_of_topic("a byte", EDIT), pairs)


def _cut(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs: list[tuple[bytes, bytes | None]] = [*first, *second]
    at = chance.randrange(len(pairs))
    key, value = pairs[at]
    assert value is not None
    if chance.random() < 0.3:
        pairs[at] = key, None
        return Made(_of_topic("no value", EDIT), pairs)
    pairs[at] = key, value[: chance.randrange(len(value))]
    return Made(_of_topic("no JSON", EDIT), pairs)


def _key(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    at = _at(chance, pairs)
    key, value = pairs[at]
    pairs[at] = chance.choice((key + b"x", key[:-1], key[1:], b"")), value
    return Made(_of_topic("key", EDIT), pairs)


def _delete(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    del pairs[_in_either(chance, first, second)]
    return Made(_of_topic("a record", DELETE), pairs)


def _delete_boot(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    return Made(_of_topic("all records of a boot", DELETE), second)


def _insert(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    """A record at a sequence that no process has written."""
    key, value = chance.choice([*first, *second])
    text = json.loads(value)
    text["data"]["sequence"] = len(first) + chance.randrange(50)
    text["id"] = f"{key.decode()}/{text['data']['sequence']}"
    pair = key, json.dumps(text, separators=(",", ":")).encode()
    return Made(_of_topic("a record", INSERT), [*first, *second, pair])


def _move(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    """To the place of another record, which is overwritten by it or not."""
    pairs = [*first, *second]
    at, other = chance.sample(range(len(pairs)), 2)
    text, own = json.loads(pairs[at][1]), json.loads(pairs[other][1])
    text["id"] = own["id"]
    text["data"] |= {name: own["data"][name] for name in ("proxy_id", "boot_id", "sequence")}
    moved = pairs[other][0], json.dumps(text, separators=(",", ":")).encode()
    pairs[other] = moved
    if chance.random() < 0.5 and at != len(pairs) - 1:
        del pairs[at]
    same = (at < len(first)) == (other < len(first))
    return Made(
        _of_topic("a record to another sequence" if same else "a record to another boot", MOVE), pairs
    )


def _reorder(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    boot = chance.choice((first, second))
    one, other = chance.sample(range(len(boot)), 2)
    swapped = list(boot)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    pairs = [*swapped, *second] if boot is first else [*first, *swapped]
    return Made(_of_topic("a record to another offset", MOVE), pairs)


def _copy(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    return Made(_of_topic("a record", DUPLICATE), [*pairs, chance.choice(pairs)])


def _other_copy(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    _, pair = _with_field(chance, chance.choice(pairs))
    return Made(_of_topic("a record, with other content", DUPLICATE), [*pairs, pair])


def _column(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    pairs = [*first, *second]
    name = chance.choice([name for name in S.AUDIT.names if name not in OF_KAFKA])
    return Made(Cell("table audit", name, EDIT, NOT_RECONCILED), pairs, (_at(chance, pairs), name))


def _spool(chance: random.Random, first: Pairs, second: Pairs) -> Made:
    """A byte of the first boot's spool. Of its last line only what others have witnessed would be missing."""
    raw = [encode_line(key, value) for key, value in first]
    at = _at(chance, first, last=1)
    place = chance.randrange(len(raw[at]) - 1)
    prefix = raw[at].index(b"{")
    raw[at] = flipped(raw[at], place)
    found = [decode_line(part + b"\n") for part in b"".join(raw).split(b"\n")[:-1]]
    name = "a checksum" if place < 9 else "a key" if place < prefix else "a line"
    pairs = [pair for pair in found if pair is not None]
    return Made(Cell(SPOOL, f"a byte of {name}", EDIT, WITHOUT_KEY), [*pairs, *second])


def _of_topic(item: str, action: str) -> Cell:
    return Cell(AUDIT_TOPIC, item, action, WITHOUT_KEY)


KINDS: tuple[tuple[Kind, int], ...] = (
    (_field, 30),
    (_column, 20),
    (_byte, 10),
    (_move, 8),
    (_delete, 8),
    (_insert, 5),
    (_reorder, 5),
    (_other_copy, 5),
    (_copy, 4),
    (_cut, 4),
    (_key, 3),
    (_spool, 6),
    (_delete_boot, 1),
)
"""Each kind of edit with its share."""


def edit_of(base: Template, seed: int, number: int) -> Made:
    """Edit `number` of a seed."""
    chance = random.Random(f"{seed}/{number}")
    (kind,) = chance.choices([kind for kind, _ in KINDS], [share for _, share in KINDS])
    return kind(chance, *copy_of(base, number))


def rows_of(base: Template, seed: int, number: int) -> Iterator[tuple[Any, ...]]:
    """The rows of ROWS of one edit."""
    made, time = edit_of(base, seed, number), moment(NOON_MS)
    for offset, (key, value) in enumerate(made.pairs):
        column = made.column[1] if made.column is not None and made.column[0] == offset else None
        yield key, value, "audit", number % BATCH, offset, time, None, column


def found_in(spark: SparkSession, base: Template, seed: int, numbers: range) -> set[int]:
    """The edits of which a check of the trail finds something."""
    # The workers that make the lines import this module.
    spark.sparkContext.environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[3])
    slices = spark.sparkContext.defaultParallelism * 2
    made = spark.sparkContext.parallelize(numbers, slices).flatMap(partial(rows_of, base, seed))
    kafka = spark.createDataFrame(made, ROWS).persist()
    checked = kafka.transform(decode.check_audit).persist()
    audit = checked.transform(decode.audit_rows).transform(partial(_with_columns_edited, kafka)).persist()
    index = sequence_index(audit).persist()
    once = deduplicate(audit, later_copies(audit, index).persist())
    checks = (gaps(audit, index), chain(once, SECRET), boots(successions(once)), columns(audit))
    named = reduce(DataFrame.unionByName, checks).select(
        F.regexp_extract(S.EVIDENCE, r"k(\d{8})", 1).alias("number")
    )
    found = {int(row[0]) for row in named.distinct().collect() if row[0]}
    bad = checked.transform(decode.quarantine_rows).select(S.KAFKA_PARTITION).distinct().collect()
    spark.catalog.clearCache()
    return found | {numbers.start - numbers.start % BATCH + row[0] for row in bad}


def _with_columns_edited(kafka: DataFrame, audit: DataFrame) -> DataFrame:
    edits = kafka.where(F.col("column").isNotNull()).select(
        F.col("partition").alias(S.KAFKA_PARTITION), F.col("offset").alias(S.KAFKA_OFFSET), "column"
    )
    joined = audit.join(F.broadcast(edits), [S.KAFKA_PARTITION, S.KAFKA_OFFSET], "left")
    return joined.select(*(_edited(field) for field in S.AUDIT))


def _edited(field: T.StructField) -> Column:
    """The column, with another value where it is the edited one."""
    if field.name in OF_KAFKA:
        return F.col(field.name)
    text = OTHER_VALUES[type(field.dataType)].format(f"`{field.name}`")
    is_edited = F.coalesce(F.col("column") == field.name, F.lit(False))
    return F.when(is_edited, F.expr(text).cast(field.dataType)).otherwise(F.col(field.name)).alias(field.name)


def runs_not_found(seed: int, count: int, texts: Sequence[str]) -> list[str]:
    """Random edits of the files of runs: those after which a run still fits."""
    chance, missed = random.Random(f"{seed}/runs"), []
    links = [runs._SEED, *(json.loads(text)["link"] for text in texts)]
    for _ in range(count):
        at = chance.randrange(len(texts))
        text = texts[at]
        place = chance.randrange(len(text))
        kind = chance.choice(("byte", "cut", "another run"))
        edited = {
            "byte": text[:place] + chr(ord(text[place]) ^ chance.randrange(1, 32)) + text[place + 1 :],
            "cut": text[:place],
            "another run": texts[at - 1],
        }[kind]
        if runs._run(at + 1, edited, links[at], SECRET).fits:
            missed.append(f"run {at + 1}: {kind} at {place}")
    return missed


def some_runs(spark: SparkSession, directory: str) -> list[str]:
    """The texts of a few signed runs."""
    chained = manifest.Manifest(directory, SECRET, [], {}, {}, [], {})
    for job in ("reconcile", "report", "compact", "expire", "reconcile"):
        chained = manifest.sign(spark, chained, job, {})
    return [read_text(spark, runs._place(directory, number)) for number in range(1, 6)]


def missed(
    spark: SparkSession, base: Template, seed: int, numbers: range, page: Mapping[Cell, str]
) -> list[str]:
    """The edits whose cell on the page says something else than what was found."""
    found, wrong = found_in(spark, base, seed, numbers), []
    for number in numbers:
        cell = edit_of(base, seed, number).cell
        if (number in found) == page[cell].startswith("["):
            wrong.append(f"edit {number}: {' / '.join(cell)}: {'found' if number in found else 'not found'}")
    return wrong


def run(spark: SparkSession, count: int, seed: int, report: Callable[[str], None]) -> int:
    """Make `count` edits. Exit code 1 if one of them is judged otherwise than the page says."""
    page, base, wrong = read(PAGE.read_text(encoding="utf-8")), template(), list[str]()
    of_runs = count // RUNS_EACH
    started, cpu_before = perf_counter(), cpu_seconds()
    with TemporaryDirectory() as directory:
        wrong += runs_not_found(seed, of_runs, some_runs(spark, directory))
    for first in range(0, count - of_runs, BATCH):
        numbers = range(first, min(first + BATCH, count - of_runs))
        wrong += missed(spark, base, seed, numbers, page)
        report(f"{numbers.stop} of {count - of_runs} edits of records, {len(wrong)} of them wrong")
    for line in wrong:
        report(line)
    seconds, cpu = perf_counter() - started, cpu_seconds() - cpu_before
    report(
        f"{count} edits, {of_runs} of them of runs, in {seconds:.0f} s, {cpu:.0f} s of CPU;"
        f" {len(wrong)} are judged otherwise than the page says"
    )
    return int(bool(wrong))


def cpu_seconds() -> float:
    """The CPU time of this process and all below it: the JVM, and Spark's workers, also those that ended."""
    ticks, parents = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")
