"""Turns a check's own columns into rows of table `findings`.

A finding's id is a hash of its check and its evidence, so that a scheduler knows which findings are new. So
evidence must not contain anything that differs between runs: sort what is collected.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_audit import schema as S

SAMPLE = 20
"""The evidence of one finding names at most this many sequences or offsets."""
MOST_ALIKE, EXAMPLES = 50, 20
"""More findings of one kind on one day are one finding with so many examples."""
ABSENT = "(not recorded)"
"""In an explanation: what the record does not have."""
_FAULT = "fault"


class Kind(NamedTuple):
    """A kind of finding: how bad it is and, for the reader of a finding, what it is and what to do next."""

    severity: str
    what: str
    next: str


KINDS: dict[str, Kind] = {}
"""Check -> its kind."""
FAMILIES: dict[str, str] = {}
"""Family of checks, which is the part of a check's name before the dot -> what is true without a finding."""
_ROW = re.compile(r"([a-z._]+)(?: \(([a-z]+)\))?: (.+)")


def register(rows: str) -> None:
    """Register the kinds of findings of a module, where their names are used.

    A row is `family: what is true without a finding.`, or `family.check (severity): what it is.` with what to
    do next on the indented lines below it.
    """
    for row in re.split(r"\n(?! )", rows.strip()):
        head, *after = row.splitlines()
        name, severity, text = re.fullmatch(_ROW, head).groups()  # type: ignore[union-attr]  # Or it fails.
        if severity is None:
            FAMILIES[name] = text
        else:
            KINDS[name] = Kind(severity, text, " ".join(map(str.strip, after)))


def fault(holds: Column, check: str, *explanation: Column) -> Column:
    """Return struct(check, severity, explanation) if `holds` is true, null otherwise.

    Without an explanation it is empty: for checks that pass one explanation of all faults to `findings`.
    """
    described = F.struct(
        F.lit(check).alias(S.CHECK),
        F.lit(KINDS[check].severity).alias(S.SEVERITY),
        F.concat(F.lit(""), *explanation).alias(S.EXPLANATION),
    )
    return F.when(F.coalesce(holds, F.lit(False)), described)


def with_every_fault(rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
    """Return one row per row and fault that holds, with the fault's check, severity and explanation."""
    found = rows.withColumn(_FAULT, F.explode(F.array_compact(F.array(*faults))))
    return found.select("*", f"{_FAULT}.*").drop(_FAULT)


def with_first_fault(rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
    """Return the rows for which a fault holds, with the check, severity and explanation of the first one."""
    found = rows.withColumn(_FAULT, F.coalesce(*faults)).where(F.col(_FAULT).isNotNull())
    return found.select("*", f"{_FAULT}.*").drop(_FAULT)


def findings(
    faults: DataFrame,
    *,
    evidence: Sequence[Column | str],
    date: str = S.DATE,
    check: str | None = None,
    severity: str | None = None,
    explanation: Column | None = None,
    identity: Sequence[Column | str] | None = None,
) -> DataFrame:
    """Return rows of table `findings`. `date` names the column with the day on which the fault shows.

    Or with all days on which a part of it is, as an array: then there is one row for each, with one id.

    Without check or explanation, the columns of that name are used, and `severity`. With a check, `severity`
    is for findings that are not as bad, or worse, than others of their kind. `identity` are the columns that
    the id depends on, by default the evidence.
    """
    proof = F.to_json(F.struct(*evidence))
    name = F.col(S.CHECK) if check is None else F.lit(check)
    if check is not None:
        severity = severity or KINDS[check].severity
    what = proof if identity is None else F.to_json(F.struct(*identity))
    digest = F.substring(F.sha2(F.concat_ws("|", name, what), 256), 1, S.ID_DIGITS)
    several = isinstance(faults.schema[date].dataType, T.ArrayType)
    day = F.explode_outer(date) if several else F.col(date).cast("date")
    return faults.select(
        digest.alias(S.ID),
        name.alias(S.CHECK),
        (F.col(S.SEVERITY) if severity is None else F.lit(severity)).alias(S.SEVERITY),
        day.alias(S.DATE),
        (F.col(S.EXPLANATION) if explanation is None else explanation).alias(S.EXPLANATION),
        proof.alias(S.EVIDENCE),
    )


def collected(found: DataFrame) -> list[Row]:
    """Return findings to the driver, `grouped` if they are many: a bounded number for each day."""
    few = found.limit(MOST_ALIKE + 1).collect()
    return few if len(few) <= MOST_ALIKE else found.transform(grouped).collect()


def grouped(found: DataFrame) -> DataFrame:
    """Return findings, with those of one check and day as one if they are more than MOST_ALIKE.

    Its id is a hash of theirs: if another one comes, it is another finding, not yet acknowledged.
    """
    alike = Window.partitionBy(S.CHECK, S.DATE)
    place = F.row_number().over(alike.orderBy(S.ID))
    numbered = found.withColumns({"place": place, "alike": F.count(F.lit(1)).over(alike)})
    alone = F.when(F.col("alike") <= MOST_ALIKE, F.col(S.ID))
    worst = F.min(F.array_position(F.array(*map(F.lit, S.SEVERITIES)), F.col(S.SEVERITY)))
    shown = (F.col("place") <= EXAMPLES) | alone.isNotNull()
    example = F.when(shown, F.struct(S.ID, S.EXPLANATION, S.EVIDENCE))
    each = numbered.groupBy(S.CHECK, S.DATE, "alike", alone.alias("alone")).agg(
        F.element_at(F.array(*map(F.lit, S.SEVERITIES)), worst.cast("int")).alias(S.SEVERITY),
        F.sort_array(F.collect_list(example)).alias("examples"),
        F.sha2(F.concat_ws("|", S.CHECK, F.array_sort(F.collect_list(S.ID))), 256).alias("digest"),
    )
    first = F.col("examples")[0]
    proofs = F.array_join(F.transform("examples", lambda example: example[S.EVIDENCE]), ",")
    many = F.concat(F.lit('{"findings":'), F.col("alike"), F.lit(',"examples":['), proofs, F.lit("]}"))
    is_alone = F.col("alone").isNotNull()
    return each.select(
        F.coalesce("alone", F.substring("digest", 1, S.ID_DIGITS)).alias(S.ID),
        S.CHECK,
        S.SEVERITY,
        S.DATE,
        F.when(is_alone, first[S.EXPLANATION])
        .otherwise(sentence("{alike} findings of this kind, such as: {first}", first=first[S.EXPLANATION]))
        .alias(S.EXPLANATION),
        F.when(is_alone, first[S.EVIDENCE]).otherwise(many).alias(S.EVIDENCE),
    )


def sample(column: str | Column) -> Column:
    """Aggregate to the smallest SAMPLE distinct values of a group, in order."""
    return F.slice(F.sort_array(F.collect_set(column)), 1, SAMPLE)


def sentence(template: str, **named: Column) -> Column:
    """Return the template with each `{name}` replaced by that argument, or by the column of that name.

    It may be of any type. Null is shown as ABSENT.
    """
    names = re.findall(r"{(\w+)}", template)
    columns = (or_else(named.get(name, name), ABSENT) for name in names)
    return F.format_string(re.sub(r"{\w+}", "%s", template), *columns)


def or_else(column: str | Column, otherwise: str) -> Column:
    """Return the column, of any type, as text, and `otherwise` for null."""
    text = (F.col(column) if isinstance(column, str) else column).cast("string")
    return F.coalesce(text, F.lit(otherwise))
