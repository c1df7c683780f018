"""The groups of a session: which names are valid, and how many (SPEC A8).

Tokens, certificates and the users file name groups; `Principal.groups` has the result of `group_names`. What
exceeds a limit is an error and never truncated: a group that is left out might be one that an ACL denies.
"""

import re
from collections.abc import Iterable

MAX_GROUPS = 1_000
MAX_NAME_BYTES = 249
"""As of a topic's name."""
MAX_BYTES = 16_384
"""All names of a session together, in UTF-8."""


_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
"""Unicode's categories Cc and Cs."""


def has_controls(name: str) -> bool:
    """Whether a name contains a control character, or half of a surrogate pair, which JSON can express."""
    return _CONTROLS.search(name) is not None


def group_names(names: Iterable[str], prefix: str = "") -> tuple[str, ...]:
    """Return the groups, sorted, each once and with the prefix; ValueError: a wrong name, or too many."""
    named = set(names)
    if not named:
        return ()
    if "" in named:
        raise ValueError("the name of a group is empty")
    groups = tuple(sorted(prefix + name for name in named))
    if any(map(has_controls, groups)):
        raise ValueError("the name of a group contains a control character or is not text")
    if "*" in groups:
        # In an ACL it would stand for all.
        raise ValueError("a group is named *")
    if len(groups) > MAX_GROUPS:
        raise ValueError(f"{len(groups)} groups, limit {MAX_GROUPS}")
    sizes = [len(group.encode()) for group in groups]
    if max(sizes, default=0) > MAX_NAME_BYTES:
        raise ValueError(f"the name of a group has {max(sizes)} bytes, limit {MAX_NAME_BYTES}")
    if sum(sizes) > MAX_BYTES:
        raise ValueError(f"the names of the groups have {sum(sizes)} bytes, limit {MAX_BYTES}")
    return groups
