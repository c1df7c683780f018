"""Reads the log that `--log` names into the image that the shell shows.

`topic`: the metadata topic, through the broker of a proxy's or a controller's file. `kraft`: Kafka's own log,
from the controllers of a proxy's file. Anything else is a file or a directory (log_file.py).
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig, endpoint, load
from proxy.metadata.errors import MetadataError
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.kafka.channel import ChannelError, EndpointSettings
from proxy.net.metadata.quorum_feed import QuorumFeed
from proxy.net.metadata.topic_feed import PartitionError, at_leader
from proxy.net.metadata.transactions import BrokenBatch, TransactionReader, split
from proxy.shell.log_file import LogFileError, ReadLog, read_log

TOPIC, KRAFT = "topic", "kraft"
TIMEOUT_S = 60
CLIENT_ID = "penstock-shell"

Read = TypeVar("Read")


class LogError(Exception):
    """The log cannot be read; the message says why."""


class UsageError(Exception):
    """The arguments do not fit with this log."""


@dataclass(frozen=True, slots=True)
class Found:
    """An image, and notes about the log that it was read from."""

    image: MetadataImage
    log: str
    """The name of the log."""
    notes: tuple[str, ...] = field(default=())


def find(log: str, config: Path | None, offset: int | None) -> Found:
    """Reads the image at the end of the log, or at `offset`. ConfigError, UsageError, LogError."""
    try:
        if log == KRAFT:
            return _of_quorum(config, offset)
        if log == TOPIC:
            broker, topic = _topic_of(_required(config, log))
            return _found(topic, asyncio.run(_bounded(_read_topic(broker, topic))), offset)
        return _found(log, read_log(Path(log)), offset)
    except (MetadataError, LogFileError) as error:
        raise LogError(str(error)) from error


def _found(log: str, read: ReadLog, offset: int | None) -> Found:
    last_offset = read.end_offset - 1
    if offset is not None and not read.start_offset - 1 <= offset <= last_offset:
        raise UsageError(f"--offset {offset}: {log} contains offsets {read.start_offset} to {last_offset}")
    loader = Loader(lambda _image, _changed: None)
    loader.load_until(0)
    steps = read.steps
    if read.snapshot:
        loader.snapshot(steps[0].committed.last_offset, steps[0].committed.values)
        steps = steps[1:]
    for step in steps:
        if offset is None or step.counts_from <= offset:
            loader.batch(step.committed.last_offset, step.committed.values)
    return Found(loader.image, log, tuple(read.notes))


async def _read_topic(broker: EndpointSettings, topic: str) -> ReadLog:
    try:
        async with at_leader(broker, topic) as (partition, _):
            start, end = await partition.start_offset(), await partition.stable_offset()
            reader, read = TransactionReader(start), ReadLog(start_offset=start, end_offset=start)
            while reader.position < end:
                for raw in split(await partition.fetch(reader.position))[0]:
                    read.take(reader, raw)
    except (ChannelError, PartitionError, BrokenBatch) as error:
        raise LogError(f"topic {topic} at {broker.address}: {error}") from error
    if start:
        read.notes.append(f"the log begins at offset {start}: earlier records are missing")
    return read


def _of_quorum(config: Path | None, offset: int | None) -> Found:
    if offset is not None:
        raise UsageError(
            "--offset: not supported with --log kraft, which shows the end of the log; name a file of the log"
        )
    proxy = load(_required(config, KRAFT), ProxyConfig)
    controllers = [endpoint(proxy.controller, (at,), CLIENT_ID) for at in proxy.controller.endpoints]
    return Found(asyncio.run(_bounded(_follow(controllers))), KRAFT)


async def _follow(controllers: list[EndpointSettings]) -> MetadataImage:
    loader = Loader(lambda _image, _changed: None, compacted=False, every_offset=False, topics=True)
    feed = QuorumFeed(controllers, loader)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(feed.run())
            await feed.loaded.wait()
            following.cancel()
    except* MetadataError as errors:
        raise LogError(str(errors.exceptions[0])) from errors
    return loader.image


async def _bounded(reading: Coroutine[object, object, Read]) -> Read:
    async with asyncio.timeout(TIMEOUT_S):
        return await reading


def _topic_of(config: Path) -> tuple[EndpointSettings, str]:
    """The broker and the topic in a configuration file."""
    try:
        proxy = load(config, ProxyConfig)
    except ConfigError as not_a_proxy:
        try:
            controller = load(config, ControllerConfig)
        except ConfigError:
            raise not_a_proxy from None
        return endpoint(controller.broker, controller.broker.bootstrap, CLIENT_ID), controller.metadata.topic
    return endpoint(proxy.upstream, proxy.upstream.own_bootstrap, CLIENT_ID), proxy.metadata.topic


def _required(config: Path | None, log: str) -> Path:
    if config is None:
        whose = "a proxy" if log == KRAFT else "a proxy or a controller"
        raise UsageError(f"--log {log} needs --config, the configuration file of {whose}")
    return config
