"""(h) Cosignatures: what witnesses have signed of the checkpoints of others (tables/keys.py).

A witness's record is in its own trail, which its own checkpoints sign. The cosignature is for those who have
the note alone, and has to be right all the same. Like checkpoints, of each witness, process and key the first
and the newest are verified, in the driver.
"""

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.reconcile.finding import findings, register, sentence
from spark_audit.tables.delta import frame_of
from spark_audit.tables.keys import UNKNOWN, PublicKeys, read_cosignatures

register(
    """
checkpoints.cosignature (high): A witness's cosignature of a checkpoint is not by the key that it names.
    Check the public keys that the job was given; if they are right, the record is forged.
"""
)

_ORIGIN = "^([^\n]+)\n"
_LAST_KEY_ID = "\n\u2014 \\S+ ([A-Za-z0-9+/]{5})[^\n]*\n$"
_WITNESS, _WHY, _ORIGIN_OF = "witness", "why", "origin"
VALID, INVALID = "valid", "invalid"
_JUDGED = S.struct(
    *((name, S.AUDIT[name].dataType) for name in (*S.RECORD_KEY, S.DATE)),
    *((name, S.AUDIT[S.EVENT].dataType) for name in (_ORIGIN_OF, _WITNESS, _WHY)),
)


def cosignatures(few: DataFrame, keys: PublicKeys) -> tuple[Mapping[str, int], DataFrame]:
    """Return how many cosignatures were verified, by verdict, and those that are wrong as findings.

    `few` has all records but traffic. Those by keys that are not known are counted only.
    """
    is_note = (F.col(S.EVENT) == "witnessed") & F.col(S.MESSAGE).rlike(_LAST_KEY_ID)
    row = F.struct(S.SEQUENCE, S.DATE, S.MESSAGE)
    origin = F.regexp_extract(S.MESSAGE, _ORIGIN, 1).alias(_ORIGIN_OF)
    key_id = F.regexp_extract(S.MESSAGE, _LAST_KEY_ID, 1)
    bounds = few.where(is_note).groupBy(*S.BOOT_KEY, origin, key_id)
    each = bounds.agg(F.array_distinct(F.array(F.max(row), F.min(row))).alias("rows"))
    counts = Counter({VALID: 0, INVALID: 0, UNKNOWN: 0})
    wrong = []
    for read in each.select(*S.BOOT_KEY, _ORIGIN_OF, F.inline("rows")).collect():
        for name, why in read_cosignatures(read[S.MESSAGE], keys):
            counts[why if why == UNKNOWN else INVALID if why else VALID] += 1
            if why not in ("", UNKNOWN):
                place = [read[column] for column in (*S.RECORD_KEY, S.DATE, _ORIGIN_OF)]
                wrong.append((*place, name, why))
    found = findings(
        frame_of(few.sparkSession, wrong, _JUDGED),
        check="checkpoints.cosignature",
        date=S.DATE,
        explanation=sentence(
            "process {proxy_id}/{boot_id} recorded at sequence {sequence} a checkpoint of {origin} with a"
            " cosignature of {witness} that {why}"
        ),
        evidence=[*S.RECORD_KEY, _WITNESS, _WHY],
    )
    return dict(counts), found
