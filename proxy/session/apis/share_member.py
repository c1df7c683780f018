"""What the id of a member of a share group may look like (KIP-932).

Asked where a broker looks at it after the right on the group, and before any right on a topic.
"""

_MAX_LENGTH = 36
"""Of a UUID as people write it."""


def is_member_id(member_id: str | None) -> bool:
    """Whether a broker takes it."""
    return member_id is not None and 0 < len(member_id) <= _MAX_LENGTH
