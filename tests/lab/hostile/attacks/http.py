"""The HTTP listener, which nobody logs in to."""

import asyncio
from contextlib import suppress

from tests.lab.hostile.attack import Found, Size, attack
from tests.lab.hostile.client import Client, addresses
from tests.lab.hostile.target import Target


@attack()
async def slow_http_requests(target: Target, size: Size, found: Found) -> None:
    """Many connections that send an HTTP request byte by byte, and never its end."""
    count = size.of(200, 3_000)
    clients = []
    for source in list(addresses(20)) * (count // 20):
        with suppress(OSError):
            clients.append(await Client.open(target.http, source))
    found.connections = len(clients)
    ends = asyncio.get_running_loop().time() + size.of(1, 15)
    while asyncio.get_running_loop().time() < ends:
        for client in clients:
            if not client.writer.is_closing():
                client.writer.write(b"G")
        await asyncio.sleep(0.1)
    for client in clients:
        client.cut()


@attack()
async def a_flood_of_scrapes(target: Target, size: Size, found: Found) -> None:
    """GET /metrics, /quotas, /audit, /readyz again and again, on several connections at a time."""
    ends = asyncio.get_running_loop().time() + size.of(1, 20)
    count = 0

    async def scrape(path: str) -> None:
        nonlocal count
        while asyncio.get_running_loop().time() < ends:
            with suppress(OSError):
                async with await Client.open(target.http) as client:
                    await client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    await client.reader.read()
                    count += 1

    async with asyncio.TaskGroup() as tasks:
        for path in ("/metrics", "/quotas", "/audit", "/readyz") * 3:
            tasks.create_task(scrape(path))
    found.connections = 12
    found.facts["answered"] = count
