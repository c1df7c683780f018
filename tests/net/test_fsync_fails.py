"""An fsync that fails (EIO): nothing counts as being on the disk that the disk may not have.

Linux reports a page that could not be written once and holds it for written, so the next fsync succeeds. The
model of the disk (tests.support.disk_model) does the same: bytes under a failed fsync are lost unless they
are put down again.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.net.audit.spool import Spool
from tests.support.disk_faults import DiskFaults
from tests.support.disk_model import Disk, read_trace

pytestmark = [pytest.mark.spec("D3"), pytest.mark.slow]

PROGRAM = """
import asyncio, sys
from pathlib import Path
from proxy.audit.record import AuditEvent, Author
from proxy.net.audit.audit_log import AuditLog
from proxy.net.audit.capacity import AuditPolicy
from proxy.net.audit.writer import Fsync
from proxy.net.audit.spool import Spool

rules = Path(sys.argv[2])

async def main():
    author = Author(role="proxy", proxy_id="p", boot_id="b")
    policy = AuditPolicy({"admin": "refuse"}, fsync=Fsync(sys.argv[3]), fsync_interval_ms=10,
                         synced=frozenset({"admin"}))
    audit = AuditLog(author, Spool(Path(sys.argv[1]), 1 << 24), None, lambda: 0, policy)
    audit.writer.notify_running_loop()
    audit.append(AuditEvent(event="forwarded", count=0))
    assert await audit.wait_until_durable()
    rules.write_text("fsync fail 5")
    for number in range(1, 4):
        audit.append(AuditEvent(event="forwarded", count=number))
        assert not await audit.wait_until_durable()
        assert audit.rejects("admin")
    rules.write_text("")
    async with asyncio.timeout(60):
        while audit.rejects("admin"):
            await asyncio.sleep(0.01)
    audit.append(AuditEvent(event="forwarded", count=4))
    assert await audit.wait_until_durable()
    assert audit.writer.faults["sync"] > 0

asyncio.run(main())
"""


@pytest.mark.parametrize("fsync", ["interval", "never"])
def test_what_is_kept_after_a_failed_fsync_has_been_put_down_again(tmp_path: Path, fsync: str) -> None:
    spool = tmp_path / "spool"
    disk = DiskFaults(tmp_path, spool, traced=True)
    arguments = [str(spool), str(tmp_path / "disk.rules"), fsync]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, env={**os.environ, **disk.environment}
    )

    model = Disk()
    for change in read_trace(disk.trace):
        model.done(change)

    # The last answer came after the last fsync: whatever a power loss leaves now, all of it is there.
    states = list(model.after_power_loss())
    assert states
    for number, files in enumerate(states):
        directory = tmp_path / str(number)
        directory.mkdir()
        for path, data in files.items():
            (directory / Path(path).name).write_bytes(data)
        assert len(Spool(directory, 1 << 24).unshipped(10)) == 5
