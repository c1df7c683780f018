"""Proves the assertions of a file before a change of ACLs is made (SPEC D18, decision 0153).

A change is rejected if it newly allows or denies a request that an assertion says something else about. So
one that does not hold anyway, because of the file or a setting, rejects what makes it worse and nothing else.
The controller asks before it commits; with Kafka's controllers the proxy asks before it forwards. A thread
proves: 10,000 ACLs take some tenths of a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from proxy.error_text import text_of
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.net.files.watched_file import FileReloads, WatchedFile
from proxy.policy.assertions import Assertion, parse_assertions, violations
from proxy.policy.policy import Policy, of_image
from proxy.wire import types
from proxy.wire.message import Message

FILE_KIND = "assertions"
MAX_CHARACTERS = 1_000
OF_ACLS = types.AccessControlEntryRecord, types.RemoveAccessControlEntryRecord

log = structlog.get_logger(__name__)


class PolicyGuard:
    """Guards the ACLs of one process. Without a file it rejects nothing."""

    def __init__(
        self, path: Path | None, settings: Callable[[], Mapping[str, str]], reloads: FileReloads
    ) -> None:
        """`settings`: those in effect of StandardAuthorizer. ValueError names what is wrong in the file."""
        self._settings = settings
        self._assertions: list[Assertion] = []
        self._loaded = asyncio.Event()
        self._turn = asyncio.Lock()
        self._policies: dict[tuple[object, ...], Policy] = {}
        self._file = None
        if path is not None:
            self._file = WatchedFile(path, FILE_KIND, self._load, reloads)
            try:
                self._file.load()
            except (OSError, ValueError) as error:
                raise ValueError(f"{path}: {text_of(error)}") from error

    @property
    def has_assertions(self) -> bool:
        return bool(self._assertions)

    def _load(self, content: bytes) -> None:
        self._assertions = parse_assertions(content.decode("utf-8"))
        self._loaded.set()

    async def run(self, image: Callable[[], MetadataImage], is_loaded: asyncio.Event) -> None:
        """Follow the file. Whenever it is read, log which assertions do not hold now."""
        if self._file is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._file.run())
            while await self._loaded.wait():
                await is_loaded.wait()
                self._loaded.clear()
                await self._report(image())

    async def _report(self, image: MetadataImage) -> None:
        try:
            async with self._turn:
                broken = await asyncio.to_thread(self._broken, image)
        except Exception:  # an error here must not end the process
            log.exception("the ACLs cannot be compared with the assertions")
            return
        for each in broken:
            log.warning("an assertion about the policy does not hold", assertion=each)

    async def refusal(self, image: MetadataImage, records: Sequence[Message]) -> str | None:
        """Return why these records must not change an image, None if they may."""
        if not self.has_assertions or not any(isinstance(each, OF_ACLS) for each in records):
            return None
        try:
            async with self._turn:
                return await asyncio.to_thread(self._refusal, image, records)
        except Exception as error:  # what cannot be proved is not done
            log.exception("a change of ACLs cannot be compared with the assertions")
            return f"The change cannot be compared with the assertions about the policy: {text_of(error)}"

    def _broken(self, image: MetadataImage) -> list[str]:
        return [str(each)[:MAX_CHARACTERS] for each in violations(self._policy(image), self._assertions)]

    def _refusal(self, image: MetadataImage, records: Sequence[Message]) -> str | None:
        delta = MetadataDelta(image, compacted=False)
        for record in records:
            if isinstance(record, OF_ACLS):
                delta.replay(record)
        old, new = self._policy(image), self._policy(delta.apply(image.offset + 1))
        found = violations(new, self._assertions, old)
        if not found:
            return None
        more = f" {len(found) - 1} more assertions would not hold." if len(found) > 1 else ""
        return f"After this change an assertion would not hold. {found[0]}"[:MAX_CHARACTERS] + more

    def _policy(self, image: MetadataImage) -> Policy:
        """Return the policy of an image; after a change that was let pass, it is known already."""
        settings, acls = self._settings(), image.acls
        key = image.digest, len(acls.ended), acls.networks, *sorted(settings.items())
        found = self._policies.pop(key, None)
        if found is None:
            found = of_image(image, settings)
        # The two used last: that before a change and that after it.
        self._policies = dict([*self._policies.items(), (key, found)][-2:])
        return found
