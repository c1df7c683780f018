"""A watched file in a running loop."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proxy.net.files.watched_file import FileReloads, WatchedFile


@pytest.mark.spec("A4", "O3")
async def test_a_running_watch_hands_on_changes_also_after_a_failure(tmp_path: Path) -> None:
    path, arrived = tmp_path / "users.yaml", asyncio.Queue[bytes]()
    path.write_bytes(b"one")

    def take(content: bytes) -> None:
        arrived.put_nowait(content)
        if content == b"bad":
            raise ValueError("bad")

    def put(content: bytes) -> None:
        new = path.with_suffix(".new")
        new.write_bytes(content)
        new.rename(path)

    watched = WatchedFile(path, "users", take, FileReloads(CollectorRegistry()), interval_ms=1)
    watched.load()
    contents = [arrived.get_nowait()]
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(watched.run())
        for content in (b"bad", b"two"):
            put(content)
            contents.append(await arrived.get())
        path.unlink()
        put(b"three")
        contents.append(await arrived.get())
        watch.cancel()

    assert contents == [b"one", b"bad", b"two", b"three"]
