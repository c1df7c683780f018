"""The two sides: a Kafka broker with its own authorizer, and Penstock before a Kafka broker without one.

    with both_sides(libs, directory) as (broker, proxy):
        dialogue = proxy.dialogue("alice")

Both know the same users by PLAIN, and `admin` is a super user of both. Everything else about a side (what it
holds, what its ids are) is in its `Side` too, so that one request serves both.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.at_once import at_once
from tests.lab.cluster.settings import write_users
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.side_by_side.dialogue import Dialogue, Heard
from tests.lab.side_by_side.guarded import GuardedBroker

ADMIN = "admin"
GUESTS = ("alice", "bob", "carol")
_ADMIN_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class ControllerAt:
    """Where a side takes Envelopes, and who may send them."""

    address: str
    user: str | None = None
    """None: without a login."""
    password: str = field(default="", repr=False)


@dataclass(slots=True)
class Side:
    """One of the two that are compared."""

    name: str
    address: str
    """host:port of its SASL_PLAINTEXT listener."""
    passwords: Mapping[str, str]
    topic_ids: dict[bytes, bytes] = field(default_factory=dict)
    """What stands for a topic's id in the cases, to the id it has here (see naming)."""
    controller: ControllerAt | None = None
    _admin: Dialogue | None = None
    _served: dict[int, tuple[int, int]] = field(default_factory=dict)

    def dialogue(self, user: str) -> Dialogue:
        """A new connection, logged in."""
        dialogue = Dialogue(self.address)
        dialogue.log_in(user, self.passwords[user])
        return dialogue

    def admin(self, api_key: int, version: int, message: Any) -> Any:
        """An answer to the super user, on a connection that is kept; RuntimeError when there is none.

        `version`: a broker of an older release gets its highest one instead.
        """
        if api_key != ApiKey.API_VERSIONS:
            self._served = self._served or self.versions()
            version = min(version, self._served.get(api_key, (0, version))[1])
        if self._admin is None or not self._admin.usable:
            self._admin = Dialogue(self.address, _ADMIN_TIMEOUT_S)
            self._admin.log_in(ADMIN, self.passwords[ADMIN])
        outcome = self._admin.ask(api_key, version, message)
        if not isinstance(outcome, Heard):
            raise RuntimeError(f"{self.name}: {ApiKey.name_of(api_key)} of admin: {outcome}")
        return outcome.message

    def versions(self) -> dict[int, tuple[int, int]]:
        """What it serves: api key to lowest and highest version."""
        asked = types.ApiVersionsRequest(client_software_name="differential", client_software_version="1")
        answer = self.admin(ApiKey.API_VERSIONS, 4, asked)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()


@contextmanager
def both_sides(libs: Path, directory: Path) -> Iterator[tuple[Side, Side]]:
    """The guarded broker and the proxy, started at the same time."""
    passwords = {user: secrets.token_urlsafe(12) for user in (ADMIN, *GUESTS)}
    broker = GuardedBroker(libs, directory / "broker", passwords).broker
    of_stack = directory / "stack"
    of_stack.mkdir(parents=True)
    changes = {"users.file": str(write_users(of_stack, passwords))}
    stack = Stack(StackSettings(directory=of_stack, libs=libs, proxy_changes=changes))
    with ExitStack() as down:
        down.callback(stack.stop)
        down.callback(broker.stop)
        starts: list[Callable[[], None]] = [broker.start, stack.start]
        at_once(starts)
        forwarder = stack.wiring.proxy
        ours = ControllerAt(stack.wiring.controller, forwarder.name, forwarder.password)
        sides = (
            Side("broker", broker.sasl_plaintext, passwords, controller=ControllerAt(broker.controller)),
            Side("proxy", stack.entrance().bootstrap, passwords, controller=ours),
        )
        for side in sides:
            down.callback(side.close)
        yield sides
