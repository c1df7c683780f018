"""A proxy and a controller that are not there, or not set up, for each other: what is seen of it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException

from proxy.net.kafka.channel import Channel, ChannelError
from proxy.session.apis.table import FORWARDED
from tests.lab.cluster import probe
from tests.lab.cluster.node import READY_TIMEOUT_MS
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import channel_settings
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.usefixtures("our_controller")]

TIMEOUT_S = 60


async def _first_connection(stack: Stack) -> set[int]:
    """The APIs that are offered to who connects as soon as the listener is open."""
    user = stack.users["admin"]
    endpoint = channel_settings(user, stack.entrance().bootstrap)
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                async with await Channel.open(endpoint) as channel:
                    return set(channel.api_versions)
            except ChannelError:
                await asyncio.sleep(0.02)


@pytest.mark.spec("E8", "S3")
def test_who_connects_to_a_proxy_that_has_just_started_is_offered_what_the_controller_serves(
    stack: Stack,
) -> None:
    with _changed(stack.proxy_file, _wait_for_long):
        stack.proxy.stop()
        stack.controller.stop()
        stack.proxy.start()
        stack.controller.start()
        offered = asyncio.run(_first_connection(stack))
        stack.proxy.wait_until(lambda: probe.is_ready(stack.wiring.proxy_http), READY_TIMEOUT_MS)
        stack.wait_for_controller()

    assert FORWARDED - offered == set()


def _wait_for_long(proxy: dict[str, Any]) -> None:
    """Longer than a controller takes to start on a busy machine."""
    proxy["controller"]["start.wait.ms"] = TIMEOUT_S * 1_000


def _grant_the_proxy_nothing(controller: dict[str, Any]) -> None:
    controller["authorizer"]["super.users"] = "User:admin"


@contextmanager
def _changed(file: Path, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Another configuration for a while, of what is started meanwhile."""
    before = file.read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(before)
    change(document)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(before, encoding="utf-8")


@contextmanager
def _without_cluster_action(stack: Stack) -> Iterator[None]:
    """The controller knows the proxy, and gives it no right."""
    with _changed(stack.controller_file, _grant_the_proxy_nothing):
        stack.controller.stop()
        stack.start_controller()
    try:
        yield
    finally:
        stack.controller.stop()
        stack.start_controller()


@pytest.mark.spec("E4", "E6")
def test_a_proxy_without_cluster_action_gives_clients_an_unknown_error_and_the_operator_the_reason(
    stack: Stack, cluster_admin: ClusterAdmin
) -> None:
    topic = admin.NewTopic("never-made", 1, 1)
    with _without_cluster_action(stack):
        (creating,) = cluster_admin.client.create_topics([topic], request_timeout=TIMEOUT_S).values()
        with pytest.raises(KafkaException) as refused:
            creating.result(TIMEOUT_S)
    cluster_admin.topic("made-again")

    assert refused.value.args[0].code() == KafkaError.UNKNOWN
    (proxys,) = _lines(stack.proxy.log_text(), "controller rejected the envelope")
    assert "CLUSTER_AUTHORIZATION_FAILED" in proxys
    (controllers,) = _lines(stack.controller.log_text(), "envelope rejected")
    assert f"User:{stack.wiring.proxy.name} does not have required CLUSTER_ACTION" in controllers


def _lines(text: str, said: str) -> list[str]:
    return [line for line in text.splitlines() if said in line]
