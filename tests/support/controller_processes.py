"""Controllers and proxies as real processes over a broker's topic, without logins; and what the topic holds.

config = controller_file(directory, "controller-1", bind, kafka, topic)
async with running(config) as process:
    process.send_signal(signal.SIGKILL)
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.net.metadata.transactions import Committed
from tests.lab.cluster.broker import Broker

ROOT = Path(__file__).resolve().parents[2]
AUTHORIZER = {
    "class.name": "proxy.security.standard.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


def controller_file(directory: Path, name: str, bind: str, kafka: Broker, topic: str) -> Path:
    """Those with the same topic stand by for each other."""
    return _written(
        directory / f"{name}.yaml",
        {
            "controller.id": name,
            "listener": {"name": "CONTROLLER", "bind": bind, "security.protocol": "PLAINTEXT"},
            "broker": {"bootstrap": kafka.plaintext},
            "metadata": {"topic": topic, "transactional.id": f"{topic}-writer"},
            "authorizer": AUTHORIZER,
            "audit": {"topic": f"{topic}-audit", "spool.dir": f"{name}-spool"},
        },
    )


def proxy_file(directory: Path, bind: str, controllers: Sequence[str], kafka: Broker, topic: str) -> Path:
    return _written(
        directory / "proxy.yaml",
        {
            "proxy.id": "proxy-1",
            "listeners": [{"name": "PLAINTEXT", "bind": bind, "security.protocol": "PLAINTEXT"}],
            "upstream": {"bootstrap": kafka.plaintext},
            "controller": {"endpoints": list(controllers)},
            "metadata": {"topic": topic},
            "authorizer": AUTHORIZER,
            "audit": {"topic": f"{topic}-audit", "spool.dir": "proxy-spool"},
        },
    )


def _written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@asynccontextmanager
async def running(config: Path, *module: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`module`: how it is started; a controller by default."""
    with config.with_suffix(".log").open("ab") as log:
        words = module or ("proxy", "controller", "-c")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *words, str(config), stdout=log, stderr=log, cwd=ROOT
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                await process.wait()


async def everything_in(endpoint: EndpointSettings, topic: str) -> tuple[MetadataImage, list[Committed]]:
    """What the log comes to, and the transactions in it."""
    steps: list[Committed] = []
    loader = Loader(lambda _image, _changed: None)
    feed = TopicFeed(endpoint, topic, loader, steps.append)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(feed.run())
        await feed.loaded.wait()
        run.cancel()
    return loader.image, [step for step in steps if step.values]
