"""Other ACLs that decide beside those in effect and change nothing (SPEC D19, decision 0154).

ProtectedResources passes on each decision that is made, with what it was made on. What a session remembers is
made once, so a request of which all is remembered costs nothing here. The same StandardAuthorizer decides, on
the same image with the candidate's ACLs, by all groups of the session that these name. An error of it is
counted and never raised. proxy.app.candidate reads the file and records what was found.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta, without_ended
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import NOT_READY, Action, Decision, RequestContext, formatted
from proxy.security.standard import StandardAuthorizer

MAX_DIFFERENCES = 100
"""The differences of one interval that are stored one by one. Others are counted."""

SAME, NEWLY_ALLOWED, NEWLY_DENIED, ERROR = "same", "newly_allowed", "newly_denied", "error"


class Difference(NamedTuple):
    """A decision in effect, and what the candidate would have decided. `by_type`: KIP-679."""

    principal: str
    groups: tuple[str, ...]
    """Those that decide by the candidate."""
    host: str
    action: Action
    by_type: bool
    decision: Decision
    candidates: Decision


class Shadow:
    """One candidate and what it would have decided."""

    def __init__(
        self,
        authorizer: StandardAuthorizer,
        acls: AclsImage,
        digest: str,
        counts: dict[str, int] | None = None,
    ) -> None:
        """`authorizer`: with the settings in effect. `counts`: those of the candidate before, continued."""
        self.digest = digest
        """SHA-256 of the file, in hex."""
        self.counts = (
            dict.fromkeys((SAME, NEWLY_ALLOWED, NEWLY_DENIED, ERROR), 0) if counts is None else counts
        )
        """The number of decisions by outcome."""
        self.last_error: str | None = None
        self._authorizer = authorizer
        self._candidate = MetadataImage(acls=acls)
        self._made_of: MetadataImage | None = None
        self._image = self._candidate
        self._differences: dict[Difference, int] = {}
        self._more = 0

    def compare(self, context: RequestContext, actions: Sequence[Action], made: Sequence[Decision]) -> None:
        """Decide the same actions by the candidate. Before the log is loaded there is nothing to compare."""
        if context.image is None:
            return
        try:
            of_candidate = self._context(context, context.image)
            would = self._authorizer.authorize(of_candidate, actions)
            for action, decision, other in zip(actions, made, would, strict=True):
                self._take(of_candidate, action, False, decision, other)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a candidate, clients are served
            self._failed(error)

    def compare_by_type(self, context: RequestContext, action: Action, made: Decision) -> None:
        """Decide the same right by resource type. A search that is not at its end is not compared."""
        if context.image is None or made.rule == NOT_READY:
            return
        try:
            of_candidate = self._context(context, context.image)
            would = self._authorizer.authorize_by_resource_type(of_candidate, action[0], action[1])
            if would.rule != NOT_READY:
                self._take(of_candidate, action, True, made, would)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)

    def drain(self) -> tuple[dict[Difference, int], int]:
        """Return the differences since the last call with their counts, and the number of all others."""
        found = self._differences, self._more
        self._differences, self._more = {}, 0
        return found

    def end_acls(self, now_ms: int) -> bool:
        """Take some ACLs out whose end has come, as from the image in effect. Return False if none has."""
        before, self._candidate = self._candidate, without_ended(self._candidate, now_ms)
        if self._candidate is before:
            return False
        self._made_of = None
        return True

    def _context(self, context: RequestContext, image: MetadataImage) -> RequestContext:
        if self._made_of is not image:
            acls = self._candidate.acls
            if acls.networks != image.acls.networks:
                delta = AclsDelta(acls, compacted=False)
                delta.networks = image.acls.networks
                self._candidate = replace(self._candidate, acls=delta.apply())
            self._made_of, self._image = image, replace(image, acls=self._candidate.acls)
        of_candidate = replace(context, image=self._image, groups=None)
        # The session's context has only the groups that decide in the policy in effect.
        return replace(of_candidate, groups=self._authorizer.deciding_groups(of_candidate))

    def _take(
        self, context: RequestContext, action: Action, by_type: bool, made: Decision, would: Decision
    ) -> None:
        if made.allowed == would.allowed:
            self.counts[SAME] += 1
            return
        self.counts[NEWLY_DENIED if made.allowed else NEWLY_ALLOWED] += 1
        who = str(context.principal), context.groups or (), context.host
        found = Difference(*who, action, by_type, made, would)
        if found in self._differences or len(self._differences) < MAX_DIFFERENCES:
            self._differences[found] = self._differences.get(found, 0) + 1
        else:
            self._more += 1

    def _failed(self, error: Exception) -> None:
        self.counts[ERROR] += 1
        self.last_error = formatted(error)
