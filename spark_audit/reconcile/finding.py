"""What every check ends with: rows of the finding table from a check's own columns.

A finding's id is a hash of its check and its evidence, so that a scheduler can tell a new one from one
it has seen. Evidence must therefore hold nothing that changes from run to run: sort what is collected.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S

SAMPLE = 20
"""So many sequences or offsets stand as examples in the evidence of one finding."""


def findings(
    faults: DataFrame,
    *,
    check: str | Column,
    severity: str | Column,
    date: str,
    explanation: Column,
    evidence: list[Column | str],
) -> DataFrame:
    """Closes a check. `date` names the column with the day on which the fault shows."""
    proof = F.to_json(F.struct(*evidence))
    named = F.lit(check) if isinstance(check, str) else check
    number = F.substring(F.sha2(F.concat_ws("|", named, proof), 256), 1, 16)
    return faults.select(
        number.alias(S.ID),
        named.alias(S.CHECK),
        (F.lit(severity) if isinstance(severity, str) else severity).alias(S.SEVERITY),
        F.col(date).cast("date").alias(S.DATE),
        explanation.alias(S.EXPLANATION),
        proof.alias(S.EVIDENCE),
    )


def sample(column: str | Column) -> Column:
    """The smallest values of a group, in order."""
    return F.slice(F.sort_array(F.collect_set(column)), 1, SAMPLE)


def words(template: str, *columns: str | Column) -> Column:
    """A sentence with values in it: `%s` for each column, of whatever type; null is told as null."""
    shown = [
        F.coalesce((F.col(c) if isinstance(c, str) else c).cast("string"), F.lit("null")) for c in columns
    ]
    return F.format_string(template, *shown)
