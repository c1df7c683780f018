"""Clients that have not logged in, and never will."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

from proxy.config.proxy import LimitsConfig
from proxy.net.clients.proxy_protocol import HEADER_TIMEOUT_S
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, Refused, addresses, frame
from tests.lab.hostile.normal import LOGIN, PLAIN_LOGIN
from tests.lab.hostile.place import BOB, NARROW, NARROW_BYTES, ORDINARY, Scene, with_limits
from tests.lab.hostile.target import Target

LARGEST_BYTES = 524_288
"""sasl.server.max.receive.size"""
SENT_BYTES = 400_000
TOKEN_BYTES = 60_000
"""As large as a Kerberos ticket of a user with many groups."""
HOSTS = 40
AT_A_TIME = 100
LOGIN_TIMEOUT_S = 2
_TIMEOUT = (
    {"login.timeout.ms": LOGIN_TIMEOUT_S * 1000} if "login_timeout_ms" in LimitsConfig.model_fields else {}
)
_ROOM = 150
_DESCRIPTORS = 300
FEW_CONNECTIONS = Scene("few-connections", with_limits({"max.connections": _ROOM, **_TIMEOUT}))
FEW_DESCRIPTORS = Scene(
    "few-descriptors",
    with_limits(_TIMEOUT),
    shell=f'ulimit -n {_DESCRIPTORS}; exec "$@"',
)
UNREAD_LOG = Scene("unread-log", ORDINARY.changes, shell='exec "$@" 2>"$PIPE"')
BALANCED = Scene("balanced", ORDINARY.changes, balancers=("127.0.1.0/27",))
FULL_LOG = Scene("full-log", ORDINARY.changes, shell='exec "$@" 2>/dev/full')


@attack(only_long=True)
async def nobody(_target: Target, size: Size, _found: Found) -> None:
    """Nobody attacks: what the others are compared with."""
    await asyncio.sleep(size.of(2, 20))


@attack(only_long=True)
async def strangers_that_are_silent(target: Target, size: Size, found: Found) -> None:
    """Thousands of connections on which nothing is ever sent: what one alone costs."""
    await _strangers(target, size.of(500, 9_000), size.of(2, 20), found, _say_nothing)


@attack()
async def strangers_with_large_frames(target: Target, size: Size, found: Found) -> None:
    """Each announces the largest request a stranger may send, sends 400 kB of it, and is silent (H2)."""
    await _strangers(target, size.of(300, 9_000), size.of(1, 60), found, _send_most_of_a_frame)


@attack(NARROW)
async def strangers_with_large_frames_and_little_memory(target: Target, size: Size, found: Found) -> None:
    """The same where queued.max.request.bytes is 16 MiB: of it, strangers have a quarter."""
    found.memory_bytes = NARROW_BYTES
    await _strangers(target, size.of(900, 5_000), size.of(1, 30), found, _send_most_of_a_frame)


@attack()
async def strangers_that_keep_others_out(target: Target, size: Size, found: Found) -> None:
    """Lengths that fill the strangers' memory, a few bytes each: an honest login must have room (H2)."""
    async with _Crowd(target, 200, found) as crowd:
        await crowd.all_do(_send_a_length)
        try:
            async with asyncio.timeout(size.of(5, 30)), await Client.open(target.address) as honest:
                message = t.SaslAuthenticateRequest(auth_bytes=bytes(TOKEN_BYTES))
                data = frame(ApiKey.SASL_AUTHENTICATE, 2, message)
                await honest.ask(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
                await honest.send(data[: TOKEN_BYTES // 2])
                await asyncio.sleep(0.3)
                await honest.send(data[TOKEN_BYTES // 2 :])
                await honest.answers(1)
        except TimeoutError:
            found.faults.append("a login with a token of 60 kB had no answer while others had sent lengths")


@attack()
async def strangers_that_pipeline_api_versions(target: Target, size: Size, found: Found) -> None:
    """Each sends 100 kB of pipelined ApiVersions requests, and reads none of the responses."""
    await _strangers(target, size.of(40, 1_000), size.of(1, 20), found, _pipeline_api_versions)


@attack(only_long=True)
async def strangers_that_send_byte_by_byte(target: Target, size: Size, found: Found) -> None:
    """A frame of 16 kB each, one byte at a time, as fast as they can."""

    async def drip(client: Client) -> None:
        data = struct.pack(">ihhih", 16_000, ApiKey.SASL_HANDSHAKE, 1, 1, 3_000)
        with suppress(TimeoutError):
            async with asyncio.timeout(size.of(3, 20)):
                for byte in data + bytes(15_000):
                    if not await client.send(bytes((byte,))):
                        return
                    await asyncio.sleep(0)

    async with _Crowd(target, size.of(50, 1_000), found) as crowd:
        await crowd.all_at_once(drip)


@attack()
async def strangers_that_come_and_go(target: Target, size: Size, found: Found) -> None:
    """Connections that are closed at once, or after one request, as fast as they can be made."""
    ends = asyncio.get_running_loop().time() + size.of(1.5, 20.0)
    count = 0

    async def come_and_go(source: str) -> None:
        nonlocal count
        while asyncio.get_running_loop().time() < ends:
            with suppress(OSError):
                async with await Client.open(target.address, source) as client:
                    count += 1
                    if count % 2:
                        await client.send(_api_versions())

    async with asyncio.TaskGroup() as tasks:
        for source in addresses(20):
            tasks.create_task(come_and_go(source))
    found.connections = 100  # Those that are being closed.
    found.facts["connections"] = count


@attack(only_long=True)
async def strangers_that_replace_each_other(target: Target, size: Size, found: Found) -> None:
    """Thousands stay, and then one comes for each that goes: as many objects are freed as are made."""
    async with _Crowd(target, size.of(300, 6_000), found) as crowd:
        await crowd.all_do(_ask_api_versions)
        await asyncio.sleep(size.of(1, 12))
        for turn in range(2):
            await crowd.replace_all()
            found.facts[f"connections after turn {turn + 1}"] = len(crowd.clients)
        await asyncio.sleep(size.of(1, 12))


@attack(FEW_CONNECTIONS, only_long=True)
async def strangers_that_take_every_connection(target: Target, _size: Size, found: Found) -> None:
    """As many as max.connections, silent or with a byte now and then: login.timeout.ms ends them (M5).

    Until then nobody else can come in, which max.connections says; whoever is in is served.
    """
    await _outstay(target, _ROOM, found)


@attack(FEW_DESCRIPTORS)
async def strangers_that_take_every_descriptor(target: Target, _size: Size, found: Found) -> None:
    """More connections than the process may have open: whoever is in is served, and the log says it (M4)."""
    await _outstay(target, _DESCRIPTORS, found)
    said = _log(target).lower()
    if not any(word in said for word in ("descriptor", "open files")):
        found.faults.append("the log says nothing of the limit on descriptors")


@attack(UNREAD_LOG, only_long=True)
async def malformed_strangers_and_an_unread_log(target: Target, size: Size, found: Found) -> None:
    """Strangers who send what no request is, while nobody reads the pipe that is stderr (M3)."""
    await _malformed(target, size.of(700, 3_000), found)


@attack(FULL_LOG, only_long=True)
async def malformed_strangers_and_a_full_log(target: Target, size: Size, found: Found) -> None:
    """The same while stderr is on a device that is full (M3)."""
    await _malformed(target, size.of(700, 3_000), found)


@attack()
async def malformed_strangers(target: Target, size: Size, found: Found) -> None:
    """The same with a log that takes every line: the lines they cause must be few (M3)."""
    before = len(_log(target))
    count = size.of(800, 20_000)
    await _malformed(target, count, found)
    found.facts["log bytes"] = len(_log(target)) - before


@attack(BALANCED)
async def balancers_without_headers(target: Target, size: Size, found: Found) -> None:
    """PROXY headers that are silent, endless, too long, one byte at a time, or of strangers (O14).

    Each connection is closed in time, and whoever comes through a balancer can log in meanwhile.
    """
    balanced = replace(target, address=target.reauth_address)
    async with _Crowd(balanced, size.of(200, 3_000), found) as crowd:
        behind = [each for each in crowd.clients if _is_balancer(each)]
        strangers = [each for each in crowd.clients if not _is_balancer(each)]
        kinds = (_say_nothing, _send_an_endless_line, _send_a_long_header, _drip_a_header)
        async with asyncio.TaskGroup() as tasks:
            for number, client in enumerate(behind):
                tasks.create_task(_done(kinds[number % len(kinds)], client))
            for client in strangers:
                tasks.create_task(_done(_send_a_header, client))
            if not await _logs_in_through_a_balancer(balanced):
                found.faults.append("a login through a balancer failed meanwhile")
        await asyncio.sleep(HEADER_TIMEOUT_S)
        stayed = [client for client in crowd.clients if not await _has_ended(client)]
        found.facts["of strangers"] = len(strangers)
        if stayed:
            found.faults.append(f"{len(stayed)} connections without a valid header were not closed")


def _is_balancer(client: Client) -> bool:
    return ip_address(client.writer.get_extra_info("sockname")[0]) in ip_network(BALANCED.balancers[0])


async def _logs_in_through_a_balancer(target: Target) -> bool:
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(10), await Client.open(target.address, "127.0.1.30") as client:
            await client.send(_HEADER)
            await client.ask(ApiKey.SASL_HANDSHAKE, 1, t.SaslHandshakeRequest(mechanism="PLAIN"))
            return True
    return False


_HEADER = b"PROXY TCP4 192.0.2.7 192.0.2.8 40000 9092\r\n"


async def _send_a_header(client: Client) -> None:
    await client.send(_HEADER)


async def _send_an_endless_line(client: Client) -> None:
    await client.send(b"PROXY TCP4 " + b"1" * 50_000)


async def _send_a_long_header(client: Client) -> None:
    await client.send(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff" + bytes(50_000))


async def _drip_a_header(client: Client) -> None:
    """A byte every 0.2 s: the whole takes longer than a header may."""
    for byte in _HEADER:
        with suppress(OSError, RuntimeError):
            await client.send(bytes((byte,)))
        await asyncio.sleep(0.2)


class _Crowd:
    """Many connections from several hosts, which are cut in the end."""

    def __init__(self, target: Target, count: int, found: Found) -> None:
        self._target = target
        self._count = count
        self._found = found
        self.clients: list[Client] = []

    async def __aenter__(self) -> "_Crowd":
        hosts = list(addresses(HOSTS))
        for first in range(0, self._count, AT_A_TIME):
            async with asyncio.TaskGroup() as tasks:
                for number in range(first, min(first + AT_A_TIME, self._count)):
                    tasks.create_task(self._open(hosts[number % HOSTS]))
        self._found.connections = len(self.clients)
        self._found.facts["connections"] = len(self.clients)
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            client.cut()

    async def all_do(self, act: Callable[[Client], Awaitable[None]]) -> None:
        for first in range(0, len(self.clients), AT_A_TIME):
            async with asyncio.TaskGroup() as tasks:
                for client in self.clients[first : first + AT_A_TIME]:
                    tasks.create_task(_patiently(act, client))

    async def all_at_once(self, act: Callable[[Client], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(_done(act, client))

    async def replace_all(self) -> None:
        """Cut each connection, a few at a time, and open another one."""
        left, self.clients = self.clients, []
        hosts = list(addresses(HOSTS))
        for first in range(0, len(left), 10):
            for client in left[first : first + 10]:
                client.cut()
            async with asyncio.TaskGroup() as tasks:
                for number in range(first, min(first + 10, len(left))):
                    tasks.create_task(self._open(hosts[number % HOSTS]))

    async def _open(self, source: str) -> None:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(10):
                self.clients.append(await Client.open(self._target.address, source))


async def _done(act: Callable[[Client], Awaitable[None]], client: Client) -> None:
    await act(client)


async def _patiently(act: Callable[[Client], Awaitable[None]], client: Client) -> None:
    """A peer that does not read is not waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await act(client)


async def _strangers(
    target: Target, count: int, stay_s: float, found: Found, act: Callable[[Client], Awaitable[None]]
) -> None:
    """So many come, each does that, and all stay for a while."""
    async with _Crowd(target, count, found) as crowd:
        for client in crowd.clients:
            client.deaf()
        await crowd.all_do(act)
        await asyncio.sleep(stay_s)


async def _outstay(target: Target, count: int, found: Found) -> None:
    """Come, and stay: who is still there long after login.timeout.ms, and can a user log in then?"""
    found.may_fail += [LOGIN, PLAIN_LOGIN]
    loop = asyncio.get_running_loop()
    async with _Crowd(target, count, found) as crowd:
        silent = len(crowd.clients) // 2
        ends = loop.time() + 2 * LOGIN_TIMEOUT_S
        while loop.time() < ends:
            for client in crowd.clients[silent:]:
                await _drip(client)
            await asyncio.sleep(0.5)
        stayed = [client for client in crowd.clients if not await _has_ended(client)]
        if stayed:
            found.faults.append(
                f"{len(stayed)} of {count} strangers were not closed in {2 * LOGIN_TIMEOUT_S} s"
            )
        if not stayed and not await _can_log_in(target):
            found.faults.append("a login failed after the strangers were closed")


async def _can_log_in(target: Target) -> bool:
    for _ in range(3):
        with suppress(OSError, asyncio.IncompleteReadError, Refused):
            async with await Client.logged_in(target.address, target.users[BOB]):
                return True
    return False


async def _drip(client: Client) -> None:
    """One byte; uvloop raises RuntimeError where the peer has left and nobody has read yet that it did."""
    with suppress(RuntimeError):
        await client.send(b"\0")


async def _has_ended(client: Client) -> bool:
    if client.writer.is_closing():
        return True
    try:
        async with asyncio.timeout(0.01):
            return await client.reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


async def _malformed(target: Target, count: int, found: Found) -> None:
    closed = 0
    hosts = list(addresses(HOSTS))

    async def one(number: int) -> None:
        nonlocal closed
        try:
            async with asyncio.timeout(5), await Client.open(target.address, hosts[number % HOSTS]) as client:
                await client.send(b"\x7f\xff\xff\xff12345")
                await client.reader.read(1)
        except TimeoutError:
            return
        except OSError:
            pass  # Cut off, which is as good.
        closed += 1

    for first in range(0, count, AT_A_TIME):
        async with asyncio.TaskGroup() as tasks:
            for number in range(first, min(first + AT_A_TIME, count)):
                tasks.create_task(one(number))
    found.connections = AT_A_TIME
    found.facts["closed"] = closed
    if closed < count:
        found.faults.append(f"{count - closed} of {count} malformed connections were not closed in 5 s")


def _log(target: Target) -> str:
    return Path(target.log).read_text(encoding="utf-8", errors="replace")


async def _say_nothing(_client: Client) -> None:
    return


async def _send_most_of_a_frame(client: Client) -> None:
    head = struct.pack(">ihhih", LARGEST_BYTES, ApiKey.SASL_HANDSHAKE, 1, 1, -1)
    await client.send(head + bytes(SENT_BYTES))


async def _send_a_length(client: Client) -> None:
    await client.send(struct.pack(">ihhih", LARGEST_BYTES, ApiKey.SASL_HANDSHAKE, 1, 1, -1) + bytes(20))


async def _ask_api_versions(client: Client) -> None:
    await client.send(_api_versions())
    await client.answers(1)


async def _pipeline_api_versions(client: Client) -> None:
    one = _api_versions()
    await client.send(one * (100_000 // len(one)))


def _api_versions() -> bytes:
    return frame(
        ApiKey.API_VERSIONS,
        3,
        t.ApiVersionsRequest(client_software_name="hostile", client_software_version="1"),
    )
