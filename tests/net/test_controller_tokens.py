"""Delegation tokens at a controller over a real topic: made, renewed, swept, and read by Kafka's own tool."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forwarding.controller.api import TokenSettings
from forwarding.net.log import CommittedOffsets, MetadataLog
from proxy.security.delegation_tokens import TokenSecret
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    RunningController,
    a_controller_and_a_forwarder,
    forward,
)
from tests.support.dumped_log import dumped
from tests.support.lost_answers import LosingTheAnswer, LosingTheRequest

pytestmark = pytest.mark.kafka

SECRET = TokenSecret(b"of the cluster")
TOKENS: dict[str, Any] = {"tokens": TokenSettings(SECRET)}
CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
TIMEOUT_S = 30


async def swept(controller: RunningController) -> Any:
    """The record of the first sweep."""
    async with asyncio.timeout(TIMEOUT_S):
        while not controller.told("tokens_expired"):
            controller.recorded.clear()
            await controller.recorded.wait()
    (event,) = controller.told("tokens_expired")
    return event


@pytest.mark.spec("R9", "E2", "E12", "E13")
async def test_a_token_is_in_the_image_when_it_is_acknowledged(kafka: Broker, topic_name: str) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name, tokens=TokenSettings(SECRET)) as (
        controller,
        forwarder,
    ):
        _, made = await forward(forwarder, CREATE, types.CreateDelegationTokenRequest(max_lifetime_ms=-1))
        before = controller.image.tokens.by_id[made.token_id]
        renewal = types.RenewDelegationTokenRequest(hmac=bytes(made.hmac), renew_period_ms=5_000)
        _, renewed = await forward(forwarder, RENEW, renewal)
        after = controller.image.tokens.by_id[made.token_id]

    assert (before.owner, before.expiry_timestamp_ms) == ("User:admin", made.expiry_timestamp_ms)
    assert after.expiry_timestamp_ms == renewed.expiry_timestamp_ms < before.expiry_timestamp_ms


@pytest.mark.slow
@pytest.mark.spec("S1", "R10", "D1")
async def test_what_has_expired_leaves_the_log_on_record_and_kafkas_own_tool_reads_it(
    kafka: Broker, kafka_libs: Path, topic_name: str, tmp_path: Path
) -> None:
    settings = {**TOKENS, "sections": {"delegation.token": {"expiry.check.interval.ms": 20}}}
    async with a_controller_and_a_forwarder(kafka, topic_name, **settings) as (controller, forwarder):
        _, kept = await forward(forwarder, CREATE, types.CreateDelegationTokenRequest(max_lifetime_ms=-1))
        reply, gone = await forward(forwarder, CREATE, types.CreateDelegationTokenRequest(max_lifetime_ms=1))
        event = await swept(controller)
        left = list(controller.image.tokens.by_id)

    dump = await dumped(kafka, kafka_libs, topic_name, tmp_path)

    assert left == [kept.token_id]
    assert event.count == 1
    assert reply.last_offset is not None
    # Behind the token's own record and the marker that ends its transaction.
    assert (event.first_offset, event.last_offset) == (reply.last_offset + 2, reply.last_offset + 2)
    for said in (
        '"type":"DELEGATION_TOKEN_RECORD","version":0,"data":{"owner":"User:admin","requester":"User:admin",'
        '"renewers":[]',
        f'"tokenId":"{kept.token_id}"',
        f'"type":"REMOVE_DELEGATION_TOKEN_RECORD","version":0,"data":{{"tokenId":"{gone.token_id}"}}',
    ):
        assert said in dump, dump
    assert "Could not" not in dump


class HeldBack(MetadataLog):
    """Tells that it has been asked to append, and does so when it is told to."""

    asked: asyncio.Event
    go: asyncio.Event

    async def append(self, entries: Any, forward_id: str | None) -> CommittedOffsets:
        self.asked.set()
        await self.go.wait()
        return await super().append(entries, forward_id)


@pytest.mark.spec("O4", "D1")
async def test_a_sweep_under_way_comes_to_its_end_and_on_record_when_the_controller_is_drained(
    kafka: Broker, topic_name: str
) -> None:
    settings = {**TOKENS, "sections": {"delegation.token": {"expiry.check.interval.ms": 20}}}
    async with a_controller_and_a_forwarder(kafka, topic_name, **settings) as (controller, forwarder):
        log: Any = controller.process.processor._log
        await forward(forwarder, CREATE, types.CreateDelegationTokenRequest(max_lifetime_ms=1_000))
        log.__class__, log.asked, log.go = HeldBack, asyncio.Event(), asyncio.Event()
        async with asyncio.timeout(TIMEOUT_S):
            await log.asked.wait()
        controller.process.drain()
        log.go.set()

    assert [event.count for event in controller.told("tokens_expired")] == [1]
    assert dict(controller.image.tokens.by_id) == {}


@pytest.mark.spec("E12", "D1")
@pytest.mark.parametrize("losing", [LosingTheAnswer, LosingTheRequest])
async def test_a_sweep_whose_answer_was_lost_is_on_record_exactly_once(
    kafka: Broker, topic_name: str, losing: type[MetadataLog]
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name, tokens=TokenSettings(SECRET)) as (
        controller,
        forwarder,
    ):
        _, gone = await forward(forwarder, CREATE, types.CreateDelegationTokenRequest(max_lifetime_ms=1))
        processor = controller.process.processor
        processor._log.__class__ = losing

        told = [await processor.remove_expired_tokens()]
        await controller.active()
        told.append(await processor.remove_expired_tokens())
        told.append(await processor.remove_expired_tokens())

        assert gone.token_id not in controller.image.tokens.by_id
        assert told == [False, losing is LosingTheRequest, False]
        assert [event.count for event in controller.told("tokens_expired")] == [1]
