"""What /readyz says: why traffic should not come yet, and what does not work although it may.

Made by each process of its parts at the moment of the question. Each line has two forms: one for everybody,
and one with addresses, users and errors for who has a credential of the HTTP port.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from proxy.net.runtime.cause import Cause

READY = "ready"
NOT_YET = Cause("no connection yet")
BEING_READ = Cause("it is being read")


@dataclass(frozen=True, slots=True)
class Note:
    """One line, for everybody and for operators."""

    public: str
    detailed: str

    @classmethod
    def of(cls, what: str, cause: Cause | None = None) -> "Note":
        """`what` is so because of `cause`."""
        if cause is None:
            return cls(what, what)
        return cls(f"{what}: {cause.reason}", f"{what}: {cause.text(detailed=True)}")

    def said_by(self, who: str) -> "Note":
        """The same of one of several."""
        return Note(f"{who}: {self.public}", f"{who}: {self.detailed}")


@dataclass(frozen=True, slots=True)
class Readiness:
    """Ready, unless something is `blocked`."""

    blocked: tuple[Note, ...] = ()
    """Why no client can be served."""
    others: tuple[Note, ...] = ()
    """What does not work all the same."""
    headline: str = READY

    def text(self, *, detailed: bool) -> str:
        """A line each; the first one begins with "ready" or "not ready"."""
        lines = [f"not ready: {_form(note, detailed)}" for note in self.blocked] or [self.headline]
        return "\n".join(dict.fromkeys([*lines, *(_form(note, detailed) for note in self.others)])) + "\n"

    def encoded(self) -> bytes:
        """For `decoded`, in another process."""
        return json.dumps(
            [[(note.public, note.detailed) for note in notes] for notes in self._notes]
        ).encode()

    @classmethod
    def decoded(cls, page: bytes) -> "Readiness":
        """What `encoded` made."""
        blocked, others = (tuple(Note(*forms) for forms in notes) for notes in json.loads(page))
        return cls(blocked, others)

    @property
    def _notes(self) -> tuple[tuple[Note, ...], tuple[Note, ...]]:
        return self.blocked, self.others


def degraded(what: str, cause: Cause | None) -> Iterable[Note]:
    """A line about what does not work; none without a cause."""
    return () if cause is None else (Note.of(f"degraded: {what}", cause),)


def _form(note: Note, detailed: bool) -> str:
    return note.detailed if detailed else note.public
