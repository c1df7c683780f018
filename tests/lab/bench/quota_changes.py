"""How soon a changed quota holds: `python -m tests.lab.bench.quota_changes`.

Three brokers, a proxy before each, a client at each that asks all the while and has no quota; then one is set
through the first proxy. Told apart: the time until it is acknowledged, and from there until each client
hears the first answer under it. What Kafka's tool takes to start and to end, and a pause that a client was
told before, is in neither.
"""

import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter

from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import kafka as kafka_jars
from tests.lab.cluster.settings import write_users
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.side_by_side.dialogue import Dialogue
from tests.session.conversation import produce
from tests.support.topic_requests import record_batch
from tests.support.two_sides import limit_request

ROUNDS = 25
PASSWORDS = {"admin": "of-admin", "alice": "of-alice"}
BEFORE_S, BETWEEN_S = 0.3, 0.002
PAUSE = threading.Event()
"""Never set."""


def alter(admin: Dialogue, limit: float | None) -> None:
    """alice's producer_byte_rate."""
    answer = admin.must(ApiKey.ALTER_CLIENT_QUOTAS, 1, limit_request("alice", limit))
    assert [entry.error_code for entry in answer.entries] == [0]


def throttled_at_s(address: str, client_id: str) -> float:
    """When the first answer tells to wait; a topic she may not write to is paid for all the same."""
    dialogue = Dialogue(address, client_id=client_id).log_in("alice", PASSWORDS["alice"])
    asked = produce("nobodys", records=record_batch(100))
    while not dialogue.must(ApiKey.PRODUCE, 9, asked).throttle_time_ms:
        PAUSE.wait(BETWEEN_S)
    heard_s = perf_counter()
    dialogue.close()
    return heard_s


def measure(addresses: Sequence[str]) -> None:
    admin = Dialogue(addresses[0]).log_in("admin", PASSWORDS["admin"])
    taken_ms: list[float] = []
    after_ms: list[list[float]] = [[] for _ in addresses]
    with ThreadPoolExecutor() as pool:
        for number in range(ROUNDS):
            clients = [pool.submit(throttled_at_s, address, f"c{number}") for address in addresses]
            PAUSE.wait(BEFORE_S)
            since_s = perf_counter()
            alter(admin, 1.0)
            acknowledged_s = perf_counter()
            for times, client in zip(after_ms, clients, strict=True):
                times.append(1e3 * (client.result() - acknowledged_s))
            taken_ms.append(1e3 * (acknowledged_s - since_s))
            alter(admin, None)
    tell("acknowledged after", taken_ms)
    for number, times in enumerate(after_ms, 1):
        tell(f"proxy {number}: first answer under it, from then", times)


def tell(what: str, times: list[float]) -> None:
    sys.stdout.write(f"{what}: {median(times):.1f} ms ({min(times):.1f} to {max(times):.1f})\n")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-quotas-") as name:
        directory = Path(name)
        stack = Stack(
            StackSettings(
                directory=directory / "stack",
                libs=kafka_jars.libs(),
                brokers=3,
                proxy_changes={"users.file": str(write_users(directory, PASSWORDS))},
            )
        )
        with stack.running():
            measure([each.wiring.listeners["SASL_PLAINTEXT"] for each in stack.nodes])


if __name__ == "__main__":
    main()
