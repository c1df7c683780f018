"""A process that does nothing but audit: `python -m tests.support.audit_child SPOOL BOOTSTRAP COUNT BOOT_ID`.

It appends so many records as fast as its disk takes them, ships them as a proxy does, and says on its output
how far it is: `appended N` and `shipping N` now and then, and once the topic has all of the spool
`shipped S MAX_RSS_KIB CPU_MS WALL_MS`: for how long the loop was held at most since the first was taken, in
time of its own thread and by the clock, which other processes hold too.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path

import uvloop

from proxy.audit.record import AuditEvent, Author
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.delivery import AuditDelivery
from proxy.net.audit.spool import Spool
from proxy.net.runtime.clock import now_ms
from tests.support.controllers import endpoint_of

STEP = 500
SPOOL_BYTES = 4 << 30


async def main(directory: Path, bootstrap: str, count: int, boot_id: str) -> None:
    sink = AuditDelivery(endpoint_of(bootstrap), "away")
    author = Author(role="proxy", proxy_id="proxy-1", boot_id=boot_id)
    audit = AuditLog(author, Spool(directory, SPOOL_BYTES), sink, now_ms)
    audit.start({})
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(audit.run())
        for number in range(count):
            audit.append(
                AuditEvent(event="authorization", granted=False, count=number, resource_name="t" * 40)
            )
            if number % STEP == 0:
                await audit.wait_until_durable()
                say(f"appended {number}")
        await audit.wait_until_durable()
        say(f"appended {count}")
        while not audit.shipper.shipped_count:  # noqa: ASYNC110 - a counter has no event
            await asyncio.sleep(0.05)  # Nobody is there yet.
        await shipped(audit)
        running.cancel()
    await audit.close(5_000)


async def shipped(audit: AuditLog) -> None:
    """Until the topic has all; looks every ms or two how long the loop was held meanwhile."""
    loop, began_ms, told = asyncio.get_running_loop(), now_ms(), 0
    longest_cpu_s = longest_wall_s = 0.0
    cpu_s, wall_s = time.thread_time(), loop.time()
    while audit.unshipped_count:
        await asyncio.sleep(0.001)
        now_cpu_s, now_wall_s = time.thread_time(), loop.time()
        longest_cpu_s = max(longest_cpu_s, now_cpu_s - cpu_s)
        longest_wall_s = max(longest_wall_s, now_wall_s - wall_s)
        cpu_s, wall_s = now_cpu_s, now_wall_s
        if audit.shipper.shipped_count - told >= STEP * 4:
            told = audit.shipper.shipped_count
            say(f"shipping {told}")
    held = f"{longest_cpu_s * 1000:.1f} {longest_wall_s * 1000:.1f}"
    say(f"shipped {(now_ms() - began_ms) / 1000:.2f} {peak_kib()} {held}")


def peak_kib() -> int:
    """Of this program alone: what getrusage tells begins with the process that it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # As proxy.app does: a collection of all that was imported takes longer than anything measured here.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    uvloop.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
