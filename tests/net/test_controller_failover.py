"""Controllers that die or freeze under a stream of changes: nothing acknowledged is lost or doubled."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from forwarding.net.forwarder import Forwarder
from proxy.demo.broker import Broker
from proxy.demo.ports import free_addresses
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.channel import EndpointSettings
from proxy.net.metadata_feed import TopicFeed
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.support.controllers import (
    a_forwarder,
    acl_names,
    acls_request,
    create_acls,
    endpoint_of,
    forward,
    plaintext,
)

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CHANGE_TIMEOUT_MS = 40_000
"""A dead controller is noticed after its session time-out of 6 s."""


def write_config(directory: Path, name: str, bind: str, kafka: Broker, topic: str) -> Path:
    document = {
        "controller.id": name,
        "listener": {"name": "CONTROLLER", "bind": bind, "security.protocol": "PLAINTEXT"},
        "broker": {"bootstrap": kafka.plaintext},
        "metadata": {"topic": topic, "transactional.id": f"{topic}-writer"},
        "authorizer": {
            "authorizer.class.name": "proxy.security.standard.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
        },
        "audit": {"topic": f"{topic}-audit", "spool.dir": f"{name}-spool"},
    }
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@asynccontextmanager
async def controller_process(config: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    with config.with_suffix(".log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "forwarding", str(config), stdout=log, stderr=log, cwd=ROOT
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                await process.wait()


async def everything_in(endpoint: EndpointSettings, topic: str) -> MetadataImage:
    loader = Loader(lambda _image, _changed: None)
    feed = TopicFeed(endpoint, topic, loader)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(feed.run())
        await feed.loaded.wait()
        run.cancel()
    return loader.image


async def change(forwarder: Forwarder, names: list[str]) -> None:
    for name in names:
        await create_acls(forwarder, name, timeout_ms=CHANGE_TIMEOUT_MS)


@pytest.mark.spec("E5", "E12")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "freeze"])
async def test_a_failover_under_a_stream_of_changes_loses_and_doubles_none(
    kafka: Broker, topic_name: str, tmp_path: Path, signal_number: signal.Signals
) -> None:
    binds = free_addresses(2)
    configs = [
        write_config(tmp_path, f"controller-{number}", bind, kafka, topic_name)
        for number, bind in enumerate(binds)
    ]
    names = [f"t{number:02}" for number in range(40)]
    async with (
        controller_process(configs[0]) as first,
        a_forwarder(*map(endpoint_of, binds), attempt_timeout_ms=1_000) as forwarder,
    ):
        await change(forwarder, names[:5])
        async with controller_process(configs[1]), asyncio.TaskGroup() as tasks:
            stream = tasks.create_task(change(forwarder, names[5:]))
            await asyncio.sleep(0.3)
            first.send_signal(signal_number)
            await stream

            if signal_number == signal.SIGSTOP:
                # Back to life, the frozen one finds itself fenced and no longer elected.
                first.send_signal(signal.SIGCONT)
                async with a_forwarder(endpoint_of(binds[0])) as to_the_old_one:
                    reply, _ = await forward(
                        to_the_old_one, ApiKey.CREATE_ACLS, acls_request("late"), timeout_ms=2_000
                    )
                assert reply.error_code == ErrorCode.REQUEST_TIMED_OUT
            image = await everything_in(plaintext(kafka), topic_name)

    assert Counter(acl_names(image)) == Counter(names)
