"""What of an answer is not compared, and why: one table. Everything that is not here has to be equal.

Read by comparing. A line is for one field of one API, or of all (`*`).
"""

from dataclasses import dataclass
from enum import Enum, auto


class How(Enum):
    """What is left of a field."""

    DROPPED = auto()
    """Nothing."""
    SET = auto()
    """Whether it says anything: it is not empty, null or -1."""
    GIVEN = auto()
    """As SET, and zero says nothing either."""
    LENGTH = auto()
    """How long it is."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """One line of the table."""

    api: str
    attribute: str
    how: How
    reason: str


IGNORED = (
    Ignored("*", "throttle_time_ms", How.DROPPED, "each side's own clock; quotas are compared elsewhere"),
    Ignored("*", "port", How.DROPPED, "each side's own address"),
    Ignored("*", "error_message", How.DROPPED, "each side's own words for the error code beside it"),
    Ignored("*", "batch_index_error_message", How.DROPPED, "each side's own words"),
    Ignored("*", "leader_epoch", How.DROPPED, "counts the restarts and elections of one cluster"),
    Ignored("*", "member_id", How.SET, "made up by the broker"),
    Ignored("*", "leader", How.SET, "a member's id"),
    Ignored("*", "producer_id", How.SET, "given out by the broker in blocks"),
    Ignored("*", "records", How.LENGTH, "holds ids and times of one broker"),
    Ignored(
        "DescribeProducers", "last_timestamp", How.DROPPED, "of a transaction's end, by the broker's clock"
    ),
    Ignored("Fetch", "session_id", How.GIVEN, "given out by the broker"),
    Ignored("DescribeTransactions", "transaction_start_time_ms", How.SET, "by the broker's clock"),
    *(
        Ignored("*", attribute, How.SET, "made up by the one who made the token")
        for attribute in ("token_id", "hmac")
    ),
    *(
        Ignored("*", attribute, How.SET, "by the clock of the one who made or renewed the token")
        for attribute in (
            "issue_timestamp",
            "issue_timestamp_ms",
            "expiry_timestamp",
            "expiry_timestamp_ms",
            "max_timestamp",
            "max_timestamp_ms",
        )
    ),
    Ignored("ListOffsets", "timestamp", How.SET, "of a transaction's end, by the broker's clock"),
    Ignored("ApiVersions", "finalized_features_epoch", How.DROPPED, "an offset of one metadata log"),
    Ignored("DescribeQuorum", "*", How.SET, "offsets, times and directories of one quorum"),
    Ignored("DescribeLogDirs", "log_dir", How.SET, "a path of one machine"),
    Ignored("DescribeLogDirs", "partition_size", How.DROPPED, "the internal topics' logs hold times and ids"),
    Ignored("DescribeLogDirs", "total_bytes", How.SET, "of one disk"),
    Ignored("DescribeLogDirs", "usable_bytes", How.SET, "of one disk"),
)

_LINES = {(line.api, line.attribute): line.how for line in IGNORED}


def how_to_treat(api: str, attribute: str) -> How | None:
    """What is left of the field; None: it is compared as it is."""
    for key in ((api, attribute), (api, "*"), ("*", attribute)):
        if key in _LINES:
            return _LINES[key]
    return None
