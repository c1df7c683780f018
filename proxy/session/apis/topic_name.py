"""What a topic may be called, and which topics are Kafka's own.

Asked where a broker looks at the name before it asks for a right.
"""

import re

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kept by brokers for themselves; no client's transaction may write to them."""

_MAX_LENGTH = 249
_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{_MAX_LENGTH}}}")


def is_valid(name: str) -> bool:
    """Whether there can be a topic of that name."""
    return name not in (".", "..") and _LEGAL.fullmatch(name) is not None
