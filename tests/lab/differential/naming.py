"""The names that cases speak of: those that both sides always have, those of one case, and ones nobody has.

`t-` and `x-` begin the topics, so that prefixed ACLs divide them. A topic id stands in a case as `topic_id`
of its name; each side puts its own id in its place.
"""

import hashlib
import re
from dataclasses import dataclass

READ_TOPICS = {"t-alpha": 2, "t-beta": 1, "x-gamma": 1}
"""With records, never changed; name to partitions."""

SINK_TOPICS = {"t-sink": 2, "x-sink": 1}
"""What cases produce to."""

MISSING_TOPICS = ("t-ghost", "x-ghost")
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


_OF_A_CASE = re.compile(r"\*?[a-z]+-(\d+)-|marker-(\d+)")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one case."""

    number: int

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Made before the case where it changes topics."""
        return f"t-{self.number}-one", f"x-{self.number}-two"

    @property
    def new_topics(self) -> tuple[str, ...]:
        return f"t-{self.number}-new", f"x-{self.number}-new"

    @property
    def own_groups(self) -> tuple[str, ...]:
        """With offsets committed before the case."""
        return f"g-{self.number}-one", f"h-{self.number}-two"

    @property
    def new_groups(self) -> tuple[str, ...]:
        return f"g-{self.number}-new", f"h-{self.number}-new"

    @property
    def starred_group(self) -> str:
        """One whose name begins like the wildcard."""
        return f"*g-{self.number}-star"

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        return f"q-{self.number}-one", f"r-{self.number}-two"

    @property
    def users(self) -> tuple[str, ...]:
        """Users whose credentials and quotas the case may change."""
        return f"u-{self.number}-one", f"u-{self.number}-two"

    def knows(self, name: str) -> bool:
        """Whether answers about it can be compared: it is no other case's, and not Penstock's own."""
        own = _OF_A_CASE.match(name)
        return not name.startswith(("__penstock", "penstock-")) and (
            own is None or int(own[1] or own[2]) == self.number
        )


def topic_id(name: str) -> bytes:
    """What stands for the topic's id in a case; of a missing topic it is an id that nobody has."""
    return hashlib.md5(f"topic {name}".encode(), usedforsecurity=False).digest()
