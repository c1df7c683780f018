"""The topics that the topology of a Streams application names (KIP-1071).

Read where a member tells its topology and where a group is described: requests and answers have the same
shape.
"""

from collections.abc import Iterator
from typing import Any


def topics_of_subtopology(subtopology: Any) -> Iterator[str]:
    """All of them, some perhaps twice."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from internal_topics_of(subtopology)


def internal_topics_of(subtopology: Any) -> Iterator[str]:
    """Those that the broker makes for the application where they are missing."""
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name
