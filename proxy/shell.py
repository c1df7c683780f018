"""`penstock shell`: the metadata log as a tree of paths, at one moment (KIP-801).

Reads the log of the configured cluster up to its end into the image that proxies decide on, and lists or
prints paths of it. Changes nothing.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig, endpoint, load
from proxy.metadata import tree
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.net.metadata_feed import TopicFeed

COMMANDS = ("ls", "cat", "find", "tree")
LOAD_TIMEOUT_S = 60


def run_shell(config_path: Path, command: str, path: str) -> int:
    """0, or 1 when there is nothing at the path."""
    image = asyncio.run(_image(config_path))
    lines = list(_lines(image, command, path))
    for line in lines:
        sys.stdout.write(line + "\n")
    if not lines:
        sys.stderr.write(f"penstock shell: nothing at {path}\n")
    return 0 if lines else 1


async def _image(config_path: Path) -> MetadataImage:
    """The image at the end of the log, read through the broker that the file names."""
    try:
        proxy = load(config_path, ProxyConfig)
        broker = endpoint(proxy.upstream, proxy.upstream.own_bootstrap, "penstock-shell")
        topic = proxy.metadata.topic
    except ConfigError as not_a_proxy:
        try:
            controller = load(config_path, ControllerConfig)
        except ConfigError:
            raise not_a_proxy from None
        broker = endpoint(controller.broker, controller.broker.bootstrap, "penstock-shell")
        topic = controller.metadata.topic
    loader = Loader(lambda _image, _changed: None)
    feed = TopicFeed(broker, topic, loader)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(feed.run())
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            await feed.loaded.wait()
        reading.cancel()
    return loader.image


def _lines(image: MetadataImage, command: str, path: str) -> Iterator[str]:
    if command == "cat":
        text = tree.cat(image, path)
        return iter([text] if text is not None else [])
    if command == "ls":
        return iter(tree.children(image, path) or [])
    indent = command == "tree"
    return _walk(image, path.rstrip("/"), 0, indent)


def _walk(image: MetadataImage, path: str, depth: int, indent: bool) -> Iterator[str]:
    name = path.rpartition("/")[2] or "/"
    yield "  " * depth + name if indent else path or "/"
    for child in tree.children(image, path or "/") or []:
        yield from _walk(image, f"{path}/{child}", depth + 1, indent)
