"""The digest of what a metadata image has in effect: the same at every process that replayed to its offset.

It is a homomorphic multiset hash, LtHash (Bellare and Micciancio 1997; Lewi et al. 2019): each element is
expanded to 1,024 numbers of 16 bits, and the numbers of all elements are added. So a change costs one
expansion for the element before it and one for that after it, and the digest depends neither on the order of
the records nor on which of them compaction has removed. A plain sum of short hashes could be forged
(Wagner 2002). proxy.metadata.delta has the elements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256, shake_128
from typing import Any, Final, TypeVar

_LANES: Final = 1_024
_LANE_BYTES: Final = 4
"""Lanes of 32 bits, of which the lower 16 count: a sum or a difference never reaches the next lane."""
_BYTES: Final = _LANES * _LANE_BYTES
_LOWER: Final = int.from_bytes(b"\xff\xff\0\0" * _LANES, "little")
_CARRY: Final = int.from_bytes(b"\0\0\x01\0" * _LANES, "little")

EMPTY: Final = 0
"""The sum of no elements."""

Key = TypeVar("Key")
Value = TypeVar("Value")


def digest(total: int) -> bytes:
    """Return the 32 bytes that stand for a sum."""
    return sha256(total.to_bytes(_BYTES, "little")).digest()


class Sum:
    """The sum of an image, as changes are made to the image."""

    def __init__(self, total: int) -> None:
        self.total = total

    def change(
        self,
        of: Callable[[Key, Value], bytes],
        before: Mapping[Key, Value],
        changes: Mapping[Key, Value | None],
    ) -> None:
        """Replace the elements of the keys in `changes`; None: there is none any more.

        `of`: returns the `element` of a value.
        """
        for key, value in changes.items():
            known = before.get(key)
            if known is not None:
                self.total = ((self.total | _CARRY) - _expanded(of(key, known))) & _LOWER
            if value is not None:
                self.total = (self.total + _expanded(of(key, value))) & _LOWER


def element(*fields: Any) -> bytes:
    """Return an element: a JSON array of its kind and its fields, so that others can compute it."""
    return json.dumps(fields, separators=(",", ":")).encode()


def _expanded(element: bytes) -> int:
    return int.from_bytes(shake_128(element).digest(_BYTES), "little") & _LOWER
