"""`python -m tests.lab.bench.logins`: connections that log in and send one request each.

It is a process of its own, because the load generator cannot log in. It uses more CPU time than the target,
but only that of the target counts. It prints one line of JSON, as loadgen.c does.
"""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from tests.lab.cluster.users import User
from tests.lab.hostile.client import Client

CLIENT_ADDRESS = "127.0.0.2"


async def log_in_often(
    address: str, user: User | None, context: ssl.SSLContext | None, count: int, concurrent: int, frame: bytes
) -> list[float]:
    """Return how many ms each connection took, from the first packet to the response of its request."""
    host, _, port = address.rpartition(":")
    took_ms: list[float] = []
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            since_s = time.perf_counter()
            opened = await asyncio.open_connection(
                host, int(port), local_addr=(CLIENT_ADDRESS, 0), ssl=context
            )
            async with Client(*opened) as client:
                if user is not None:
                    await client.log_in(user)
                await client.send(frame)
                await client.answer()
            took_ms.append(1000 * (time.perf_counter() - since_s))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrent):
            tasks.create_task(one_after_another())
    return took_ms


def latencies(took_ms: Sequence[float], seconds: float) -> dict[str, float]:
    """What a client of the bench prints: how many took how long."""
    parts = quantiles(took_ms, n=1000)
    return {
        "count": len(took_ms),
        "seconds": seconds,
        "p50_ms": parts[499],
        "p99_ms": parts[989],
        "p999_ms": parts[998],
        "most_ms": max(took_ms),
    }


def main(arguments: Sequence[str]) -> None:
    """ADDRESS MECHANISM USER PASSWORD CA CERTIFICATE COUNT CONCURRENT TEMPLATE; "-": none."""
    address, mechanism, name, password, ca, certificate, count, concurrent, template = arguments
    context = None
    if ca != "-":
        context = ssl.create_default_context(cafile=ca)
        if certificate != "-":
            context.load_cert_chain(certificate)
    user = None if mechanism == "-" else User(name, mechanism, password)
    since_s = time.perf_counter()
    took_ms = asyncio.run(
        log_in_often(address, user, context, int(count), int(concurrent), Path(template).read_bytes())
    )
    sys.stdout.write(json.dumps(latencies(took_ms, time.perf_counter() - since_s)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
