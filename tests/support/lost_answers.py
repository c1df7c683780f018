"""A metadata log whose next commit is not answered for: made or not, the controller cannot tell.

Set as the class of a running controller's log; the log is itself again after that commit.
"""

from typing import Any

from forwarding.net.log import CommittedOffsets, CommitUnknown, MetadataLog


class LosingTheAnswer(MetadataLog):
    """Commits (or not), and then the answer is lost on the way."""

    commits = True

    async def append(self, entries: Any, forward_id: str | None) -> CommittedOffsets:
        if self.commits:
            await super().append(entries, forward_id)
        await self.resign()
        self.__class__ = MetadataLog  # type: ignore[assignment] # once only
        raise CommitUnknown("the answer was lost")


class LosingTheRequest(LosingTheAnswer):
    commits = False
