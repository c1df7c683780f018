"""The memory of clients' requests and of responses to them, for all clients (queued.max.request.bytes).

A session takes room for a whole frame before it holds more than a little of it, so a frame that has begun can
always be completed. Frames without room wait in the order of arrival, within the part of their owner.
Responses that clients have not read yet are counted apart, so that they never make requests wait: an owner
with too many of them gets no further request decided, and so does one with too many requests that the
controller or the broker has not responded to. Clients before their login have a share of their own,
in which each address is an owner; after it each principal is one. `Limits` are those of one client;
`fault_of_size` checks a frame against them before its body arrives, and `needed_bytes` says how much of a
frame is needed before it is parsed (SPEC O6).
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from struct import Struct

from proxy.security.authorizer import network_of
from proxy.security.principal import ANONYMOUS
from proxy.session.authentication import Authentication
from proxy.wire.api_keys import ApiKey

DEFAULT_MAX_ELEMENTS = 50_000

FREE_BYTES = 16 * 1024
STRANGERS_FREE_BYTES = 4 * 1024
"""A frame up to this size needs no room: there are many, and waiting would cost more than their memory."""
STRANGERS_SHARE = 0.25
OWNERS_PART = 0.5
"""The largest part of its share that an owner may use; a single frame may be larger."""

_INT16 = Struct(">h").unpack_from
_MIN_FRAME_BYTES = 10
_KEY_END = 6
_HEAD_BYTES = 14
"""Up to the client id: length, API key, version, correlation id, length of the client id."""
_PRODUCE = int(ApiKey.PRODUCE)

_STREAMING_HEAD_BYTES = 4_096
"""By then a Produce request that streams has shown its head, however long its client id and topic are."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much memory one client may take, in bytes."""

    socket_request_max_bytes: int
    decoded_request_max_bytes: int
    """The size of a request that is decoded whole; Produce requests of one topic are not."""
    sasl_server_max_receive_size: int
    """The size of any request before the login is complete."""
    decoded_request_max_elements: int = DEFAULT_MAX_ELEMENTS
    """The number of elements in all arrays of a request that is decoded whole."""


@dataclass(slots=True, eq=False)
class Account:
    """The memory of one session."""

    owner: Hashable
    stranger: bool
    frame_bytes: int = 0
    """The size of a frame that is not complete yet."""
    input_bytes: int = 0
    """The memory of requests that wait for a turn, or for a response."""
    unread_bytes: int = 0
    """The size of responses that the client has not read, or that are not complete."""
    waiting: "Waiting | None" = None

    @property
    def is_empty(self) -> bool:
        return not (self.frame_bytes or self.input_bytes or self.unread_bytes or self.waiting)


@dataclass(slots=True, eq=False)
class Waiting:
    """A session that waits: for room for a frame, or for responses of its owner to be read."""

    number: int
    account: Account | None
    """None: the session waits no longer."""
    size_bytes: int
    granted: Callable[[], None]


class _Lines:
    """Queues of waiting sessions by owner, in the order of arrival."""

    def __init__(self) -> None:
        self._by_owner: dict[Hashable, deque[Waiting]] = {}

    def add(self, waiting: Waiting, owner: Hashable) -> None:
        self._by_owner.setdefault(owner, deque()).append(waiting)

    def first(self, owner: Hashable) -> Waiting | None:
        """Return the owner's session that has waited longest."""
        line = self._by_owner.get(owner)
        while line and line[0].account is None:
            line.popleft()
        if not line:
            self._by_owner.pop(owner, None)
            return None
        return line[0]

    def firsts(self) -> list[tuple[Hashable, Waiting]]:
        """Return the session of each owner that has waited longest."""
        return [(owner, first) for owner in list(self._by_owner) if (first := self.first(owner)) is not None]

    def pop(self, owner: Hashable) -> None:
        self._by_owner[owner].popleft()

    def __bool__(self) -> bool:
        return bool(self._by_owner)


class _Use:
    """Counts bytes in total and by owner."""

    def __init__(self) -> None:
        self.total = 0
        self.by_owner: dict[Hashable, int] = {}

    def add(self, owner: Hashable, size_bytes: int) -> None:
        self.total += size_bytes
        left = self.by_owner.get(owner, 0) + size_bytes
        if left:
            self.by_owner[owner] = left
        else:
            self.by_owner.pop(owner, None)


class _Share:
    """The memory of clients before, or after, their login."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.frames, self.unread, self.taken = _Use(), _Use(), _Use()
        self.input_bytes = self.held_bytes = 0
        self.taken_by: dict[Account, int] = {}
        """The memory of requests that were decoded and have no response yet; few sessions have large ones."""
        self.for_room, self.for_readers, self.for_responses = _Lines(), _Lines(), _Lines()

    @property
    def used_bytes(self) -> int:
        return self.frames.total + self.unread.total + self.input_bytes

    def fits(self, size_bytes: int) -> bool:
        """Whether there is room; a frame larger than the limit has room if there is no other."""
        return not self.frames.total or self.frames.total + size_bytes <= self.limit_bytes

    def fits_owner(self, owner: Hashable, size_bytes: int) -> bool:
        own = self.frames.by_owner.get(owner, 0)
        return not own or own + size_bytes <= self.limit_bytes * OWNERS_PART

    def is_over(self, owner: Hashable, use: _Use) -> bool:
        own = use.by_owner.get(owner, 0)
        if own > self.limit_bytes * OWNERS_PART:
            return True
        return use.total > self.limit_bytes and own * len(use.by_owner) > self.limit_bytes

    def may_take(self, owner: Hashable) -> bool:
        return not (self.is_over(owner, self.unread) or self.is_over(owner, self.taken))


class RequestMemory:
    """The memory of all sessions, and the queues for it."""

    def __init__(self, limit_bytes: int) -> None:
        self._shares = {False: _Share(limit_bytes), True: _Share(int(limit_bytes * STRANGERS_SHARE))}
        self.waiting = 0
        """The number of sessions that wait."""
        self._next_number = 0

    def limit(self, limit_bytes: int) -> None:
        """Change the limit. What is held stays; waiting sessions may have room now."""
        for stranger, share in self._shares.items():
            share.limit_bytes = int(limit_bytes * STRANGERS_SHARE) if stranger else limit_bytes
            self._grant_room(share)
            self._grant_readers(share)

    @property
    def used_bytes(self) -> int:
        return sum(share.used_bytes for share in self._shares.values())

    def is_short(self, *, stranger: bool) -> bool:
        """Whether half of the memory is used: then only what is necessary should be read."""
        share = self._shares[stranger]
        return share.used_bytes * 2 > share.limit_bytes

    def take(self, account: Account, size_bytes: int, granted: Callable[[], None]) -> bool:
        """Whether there is room for the frame; if not, `granted` is called once there is."""
        share, owner = self._shares[account.stranger], account.owner
        is_first = share.for_room.first(owner) is None
        if is_first and share.fits(size_bytes) and share.fits_owner(owner, size_bytes):
            account.frame_bytes = size_bytes
            share.frames.add(owner, size_bytes)
            return True
        self._wait(account, size_bytes, granted, share.for_room)
        return False

    def complete(self, account: Account) -> None:
        """Free the room of a frame that is complete."""
        if account.frame_bytes:
            share = self._shares[account.stranger]
            share.frames.add(account.owner, -account.frame_bytes)
            account.frame_bytes = 0
            self._grant_room(share)

    def has_held(self, *, stranger: bool) -> bool:
        """Whether there are responses that clients have not read, or requests without a response."""
        return self._shares[stranger].held_bytes > 0

    def may_take(self, account: Account, granted: Callable[[], None]) -> bool:
        """Whether its owner has read enough responses, and has few enough requests without one; if not,
        `granted` is called once it has."""
        share = self._shares[account.stranger]
        if share.may_take(account.owner):
            return True
        self._wait(account, 0, granted, share.for_responses)
        return False

    def may_respond(self, account: Account, granted: Callable[[], None]) -> bool:
        """Whether its owner has read enough responses; if not, `granted` is called once it has."""
        share = self._shares[account.stranger]
        if not share.is_over(account.owner, share.unread):
            return True
        self._wait(account, 0, granted, share.for_readers)
        return False

    def set_held(self, account: Account, input_bytes: int, unread_bytes: int, taken_bytes: int = 0) -> None:
        """Set how much is held besides the frame, whether there is room or not."""
        share, read = self._shares[account.stranger], account.unread_bytes - unread_bytes
        responded = share.taken_by.pop(account, 0) - taken_bytes
        if taken_bytes:
            share.taken_by[account] = taken_bytes
        share.input_bytes += input_bytes - account.input_bytes
        if read:
            share.unread.add(account.owner, -read)
        if responded:
            share.taken.add(account.owner, -responded)
        share.held_bytes -= read + responded
        account.input_bytes, account.unread_bytes = input_bytes, unread_bytes
        if read > 0 or responded > 0:
            self._grant_readers(share)

    def leave(self, account: Account) -> None:
        """Free everything, and wait no longer."""
        if account.waiting is not None:
            account.waiting.account = None
            account.waiting = None
            self.waiting -= 1
        self.set_held(account, 0, 0)
        self.complete(account)
        self._grant_room(self._shares[account.stranger])  # It may have been the first of its owner.

    def _wait(self, account: Account, size_bytes: int, granted: Callable[[], None], lines: _Lines) -> None:
        self._next_number += 1
        self.waiting += 1
        account.waiting = Waiting(self._next_number, account, size_bytes, granted)
        lines.add(account.waiting, account.owner)

    def _grant_room(self, share: _Share) -> None:
        while share.for_room:
            # The session that has waited longest, of those whose owner has room.
            eligible = [
                (first.number, owner, first)
                for owner, first in share.for_room.firsts()
                if share.fits_owner(owner, first.size_bytes)
            ]
            if not eligible:
                return
            _, owner, first = min(eligible, key=lambda each: each[0])
            if not share.fits(first.size_bytes):
                return
            share.for_room.pop(owner)
            share.frames.add(owner, first.size_bytes)
            self._granted(first)

    def _grant_readers(self, share: _Share) -> None:
        for owner, _ in share.for_readers.firsts():
            while not share.is_over(owner, share.unread) and (first := share.for_readers.first(owner)):
                share.for_readers.pop(owner)
                self._granted(first)
        for owner, _ in share.for_responses.firsts():
            while share.may_take(owner) and (first := share.for_responses.first(owner)):
                share.for_responses.pop(owner)
                self._granted(first)

    def _granted(self, waiting: Waiting) -> None:
        account = waiting.account
        assert account is not None
        account.waiting, account.frame_bytes = None, account.frame_bytes + waiting.size_bytes
        self.waiting -= 1
        waiting.granted()


class SessionMemory:
    """The memory of one session. Its requests and its responses wait independently."""

    __slots__ = ("_authentication", "_host", "_memory", "_requests", "_responses")

    def __init__(self, memory: RequestMemory, authentication: Authentication, host: str) -> None:
        self._memory = memory
        self._authentication = authentication
        self._host = host
        self._requests = Account(host, stranger=True)
        self._responses = Account(host, stranger=True)

    @property
    def owner(self) -> Hashable:
        """The owner of its memory and turns: its principal, or its address before the login (IPv6: the /64
        network)."""
        principal = self._authentication.principal
        if self._authentication.known and principal != ANONYMOUS:
            return principal.principal_type, principal.name
        return network_of(self._host)

    @property
    def frame_bytes(self) -> int:
        """The size of the frame that there is room for."""
        return self._requests.frame_bytes

    def take(self, size_bytes: int, granted: Callable[[], None]) -> bool:
        """Whether there is room for a frame of this size; if not, `granted` is called once there is."""
        return self._memory.take(self._named(self._requests), size_bytes, granted)

    def complete(self) -> None:
        """Free the room of a frame that is complete."""
        self._memory.complete(self._requests)

    def may_take(self, granted: Callable[[], None]) -> bool:
        """Whether a request may be decided; if not, `granted` is called once others have their responses, and
        these have been read."""
        account, memory = self._requests, self._memory
        if account.is_empty and not memory.has_held(stranger=self._authentication.under_way):
            return True  # Whose it is does not matter.
        return memory.may_take(self._named(account), granted)

    def may_hold(self, size_bytes: int, granted: Callable[[], None]) -> bool:
        """Whether there is room for a response of this size; if not, `granted` is called once there is."""
        account = self._named(self._responses)
        if not self._memory.may_respond(account, granted):
            return False
        self._memory.set_held(account, 0, account.unread_bytes + size_bytes)
        return True

    def count(self, input_bytes: int, unread_bytes: int, taken_bytes: int = 0) -> None:
        """Set how much is held besides the frame. Small amounts are not counted."""
        input_bytes = input_bytes if input_bytes > FREE_BYTES else 0
        unread_bytes = unread_bytes if unread_bytes > FREE_BYTES else 0
        taken_bytes = taken_bytes if taken_bytes > FREE_BYTES else 0
        input_bytes += taken_bytes
        if taken_bytes or input_bytes != self._requests.input_bytes:
            self._memory.set_held(self._named(self._requests), input_bytes, 0, taken_bytes)
        if unread_bytes != self._responses.unread_bytes:
            self._memory.set_held(self._named(self._responses), 0, unread_bytes)

    def leave(self) -> None:
        """Free everything, and wait no longer."""
        for account in (self._requests, self._responses):
            if not account.is_empty:
                self._memory.leave(account)

    def _named(self, account: Account) -> Account:
        """Set the owner of an empty account; it does not change while the account holds anything."""
        if account.is_empty:
            account.owner, account.stranger = self.owner, self._authentication.under_way
        return account


def fault_of_size(
    limits: Limits, data: memoryview, position: int, length: int, *, stranger: bool, bare_token: bool
) -> str | None:
    """Return the fault in the length of the frame at `position`, before its body arrives; None: none.

    `stranger`: the client has not logged in. `bare_token`: the frame is nothing but a SASL token.
    """
    key, limit, minimum = "socket.request.max.bytes", limits.socket_request_max_bytes, _MIN_FRAME_BYTES
    if stranger:
        key, limit = "sasl.server.max.receive.size", limits.sasl_server_max_receive_size
        minimum = 0 if bare_token else _MIN_FRAME_BYTES
    if length < minimum:
        return f"a request of {length} bytes, the least is {minimum}"
    if length > limit:
        return f"a request of {length} bytes, more than {key}, which is {limit}"
    limit = limits.decoded_request_max_bytes
    if stranger or length <= limit or _may_be_produce(data, position):
        # Only Produce requests may be larger; without its API key the frame may be one.
        return None
    if len(data) - position < _header_bytes(data, position):
        return None  # It may be one that gets a response.
    name = ApiKey.name_of(_INT16(data, position + 4)[0])
    return f"{name} of {length} bytes, more than decoded.request.max.bytes, which is {limit}"


def needed_bytes(limits: Limits, data: memoryview, position: int, length: int) -> int:
    """Return how many bytes of an incomplete frame are needed before it is parsed again."""
    header_bytes = _header_bytes(data, position)
    if length > limits.decoded_request_max_bytes and len(data) - position < header_bytes:
        return min(4 + length, header_bytes)
    if len(data) - position < _STREAMING_HEAD_BYTES and _may_be_produce(data, position):
        # It may stream once more of its head is here; waiting for all of it would hold its records.
        return min(4 + length, _STREAMING_HEAD_BYTES)
    return 4 + length


def _header_bytes(data: memoryview, position: int) -> int:
    """Return the size of the header, its length prefix included, if it has no tagged fields."""
    if len(data) - position < _HEAD_BYTES:
        return _HEAD_BYTES
    client_id_bytes: int = _INT16(data, position + _HEAD_BYTES - 2)[0]
    return _HEAD_BYTES + max(0, client_id_bytes) + 1


def _may_be_produce(data: memoryview, position: int) -> bool:
    return len(data) - position < _KEY_END or _INT16(data, position + 4)[0] == _PRODUCE
