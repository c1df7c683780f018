"""Turns a check's own columns into rows of table `findings`.

A finding's id is a hash of its check and its evidence, so that a scheduler can tell new findings from known
ones. So evidence must not contain anything that differs between runs: sort what is collected.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S

SAMPLE = 20
"""The evidence of one finding names at most this many sequences or offsets."""
ABSENT = "(not recorded)"
"""In an explanation: what the record does not have."""
_FAULT = "fault"


def fault(holds: Column, check: str, severity: str, *explanation: Column) -> Column:
    """Returns struct(check, severity, explanation) if `holds` is true, null otherwise.

    Without an explanation it is empty: for checks that pass one explanation of all faults to `findings`.
    """
    described = F.struct(
        F.lit(check).alias(S.CHECK),
        F.lit(severity).alias(S.SEVERITY),
        F.concat(F.lit(""), *explanation).alias(S.EXPLANATION),
    )
    return F.when(F.coalesce(holds, F.lit(False)), described)


def with_every_fault(rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
    """Returns one row per row and fault that holds, with the fault's check, severity and explanation."""
    found = rows.withColumn(_FAULT, F.explode(F.array_compact(F.array(*faults))))
    return found.select("*", f"{_FAULT}.*").drop(_FAULT)


def with_first_fault(rows: DataFrame, faults: Sequence[Column]) -> DataFrame:
    """Returns the rows for which a fault holds, with the check, severity and explanation of the first one."""
    found = rows.withColumn(_FAULT, F.coalesce(*faults)).where(F.col(_FAULT).isNotNull())
    return found.select("*", f"{_FAULT}.*").drop(_FAULT)


def findings(
    faults: DataFrame,
    *,
    date: str,
    evidence: Sequence[Column | str],
    check: str | Column | None = None,
    severity: str | Column | None = None,
    explanation: Column | None = None,
    identity: Sequence[Column | str] | None = None,
) -> DataFrame:
    """Returns rows of table `findings`. `date` names the column with the day on which the fault shows.

    Without check, severity or explanation, the column of that name is used. `identity` are the columns that
    the id depends on, by default the evidence.
    """
    proof = F.to_json(F.struct(*evidence))
    name = _column(S.CHECK, check)
    what = proof if identity is None else F.to_json(F.struct(*identity))
    digest = F.substring(F.sha2(F.concat_ws("|", name, what), 256), 1, 16)
    return faults.select(
        digest.alias(S.ID),
        name.alias(S.CHECK),
        _column(S.SEVERITY, severity).alias(S.SEVERITY),
        F.col(date).cast("date").alias(S.DATE),
        _column(S.EXPLANATION, explanation).alias(S.EXPLANATION),
        proof.alias(S.EVIDENCE),
    )


def sample(column: str | Column) -> Column:
    """Aggregates to the smallest SAMPLE distinct values of a group, in order."""
    return F.slice(F.sort_array(F.collect_set(column)), 1, SAMPLE)


def sentence(template: str, *columns: str | Column) -> Column:
    """Returns the template with `%s` replaced by each column, of any type. Null is shown as ABSENT."""
    return F.format_string(template, *(or_else(column, ABSENT) for column in columns))


def or_else(column: str | Column, otherwise: str) -> Column:
    """Returns the column, of any type, as text, and `otherwise` for null."""
    text = (F.col(column) if isinstance(column, str) else column).cast("string")
    return F.coalesce(text, F.lit(otherwise))


def _column(name: str, value: str | Column | None) -> Column:
    if value is None:
        return F.col(name)
    return F.lit(value) if isinstance(value, str) else value
