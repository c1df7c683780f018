"""A process that does nothing but audit: `python -m tests.support.audit_child SPOOL BOOTSTRAP COUNT BOOT_ID`.

It appends so many records as fast as its disk takes them, ships them as a proxy does, and says on its output
how far it is: `appended N` now and then, `shipped S MAX_RSS_KIB` once the topic has all of the spool.
"""

import asyncio
import sys
from pathlib import Path

from proxy.audit.record import AuditEvent, Author
from proxy.net.audit_log import AuditLog
from proxy.net.audit_sink import AuditSink
from proxy.net.clock import now_ms
from proxy.net.spool import Spool
from tests.support.controllers import endpoint_of

STEP = 500
SPOOL_BYTES = 4 << 30


async def main(directory: Path, bootstrap: str, count: int, boot_id: str) -> None:
    endpoint = endpoint_of(bootstrap)
    sink = AuditSink(endpoint, "away")
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
                await audit.kept()
                say(f"appended {number}")
        await audit.kept()
        say(f"appended {count}")
        began_ms = now_ms()
        while audit.unshipped_count:
            if not audit.shipping.shipped_count:
                began_ms = now_ms()  # Nobody is there yet.
            await asyncio.sleep(0.05)
        say(f"shipped {(now_ms() - began_ms) / 1000:.2f} {peak_kib()}")
        running.cancel()
    await audit.close(5_000)


def peak_kib() -> int:
    """Of this program alone: what getrusage tells begins with the process that it was forked from."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
