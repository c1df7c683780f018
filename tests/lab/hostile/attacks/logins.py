"""Floods of logins whose check costs time."""

import asyncio
from contextlib import suppress

from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, Refused, addresses, plain_login
from tests.lab.hostile.target import BOB_BY_PLAIN, Target

PATIENCE_S = 5
ADDRESS_S = 0.1
"""Each address has a turn before the same one has another: one check, some 50 ms where a core is free."""
CHECKS, SCRYPT_BYTES = 4, 16 * 1024 * 1024
"""Passwords that are checked at a time, and the memory of each."""


@attack()
async def wrong_passwords_of_clients_that_left(target: Target, size: Size, found: Found) -> None:
    """Logins by PLAIN with wrong passwords from one address, whose connections are all closed at once (H4).

    Each costs some 50 ms of scrypt; nobody waits for the outcome. The first login of another user is timed.
    """
    await _wrong_passwords(target, size, found, hosts=1, leave=True)


@attack(only_long=True)
async def wrong_passwords_from_many_addresses(target: Target, size: Size, found: Found) -> None:
    """The same from many addresses, and all of them wait for their outcome."""
    await _wrong_passwords(target, size, found, hosts=100, leave=False)


async def _wrong_passwords(target: Target, size: Size, found: Found, hosts: int, leave: bool) -> None:
    count = size.of(300, 1_500)
    sources = list(addresses(hosts))
    clients = []
    for number in range(count):
        client = await Client.open(target.address, sources[number % hosts])
        clients.append(client)
        await client.send(plain_login(f"nobody-{number}", "wrong"))
    found.connections, found.more_bytes = count, CHECKS * SCRYPT_BYTES
    await asyncio.sleep(0.2)
    if leave:
        for client in clients:
            client.cut()
    loop = asyncio.get_running_loop()
    began = loop.time()
    error = "no answer"
    with suppress(TimeoutError):
        async with asyncio.timeout(size.of(20, 120)):
            error = await _login(target)
    seconds = round(loop.time() - began, 2)
    found.facts["first login s"] = seconds
    if error:
        found.faults.append(f"the first login of another user: {error} after {seconds} s")
    elif seconds > PATIENCE_S + hosts * ADDRESS_S:
        found.faults.append(f"the first login of another user took {seconds} s")
    for client in clients:
        client.cut()


async def _login(target: Target) -> str:
    """Of a user whose password was not verified before; what was wrong, or nothing."""
    try:
        async with await Client.logged_in(target.address, target.users[BOB_BY_PLAIN], "127.0.0.3"):
            return ""
    except (OSError, Refused, asyncio.IncompleteReadError) as error:
        return repr(error)
