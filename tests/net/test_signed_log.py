"""A signed metadata log in a real topic: what others write to it is in effect nowhere, and is mended."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from forwarding.net.log import MetadataLog, WrittenRecord, log_entries
from proxy.metadata.loader import Loader
from proxy.metadata.signatures import LogVerifier
from proxy.metadata.signing_keys import PublicKeys, SigningKey
from proxy.net.metadata.topic_feed import TopicFeed
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.support.controllers import (
    RunningController,
    a_controller_and_a_forwarder,
    acl_names,
    acls_request,
    controller_settings,
    forward,
    made_controller,
    plaintext,
    running,
)
from tests.support.followed import Follower, Shown, followed
from tests.support.images import acl_record

pytestmark = [pytest.mark.kafka, pytest.mark.spec("S14")]

KEY = SigningKey(Ed25519PrivateKey.generate())
SHOULD_NOT_TAKE_S = 30.0
UNSIGNED = "the metadata log has no record that a controller has signed"


def following(kafka: Broker, topic: str) -> AbstractAsyncContextManager[Follower[TopicFeed]]:
    """A proxy that has the public key."""

    def make(shown: Shown) -> tuple[TopicFeed, Loader]:
        loader = Loader(shown, verifier=LogVerifier(topic, PublicKeys([KEY.public])))
        return TopicFeed(plaintext(kafka), topic, loader), loader

    return followed(make)


async def until_reported(controller: RunningController, count: int) -> None:
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while len(controller.told("log_not_signed")) < count:
            controller.recorded.clear()
            await controller.recorded.wait()


def is_numbered(controller: RunningController, number: int) -> bool:
    verifier = controller.process.loader.verifier
    return verifier is not None and verifier.number >= number


def says(controller: RunningController, what: str) -> bool:
    return any(what in note.public for note in controller.process.blocked())


async def intrude(kafka: Broker, topic: str, *entries: WrittenRecord) -> int:
    """Someone with the right to write the topic does; return the last offset."""
    log = MetadataLog(plaintext(kafka), topic, f"{topic}-intruder")
    await log.claim()
    committed = await log.append(entries, None)
    await log.resign()
    return committed.last_offset


async def test_what_others_write_is_in_effect_nowhere_and_the_controller_writes_again_what_it_hides(
    kafka: Broker, topic_name: str
) -> None:
    async with (
        a_controller_and_a_forwarder(kafka, topic_name, signing_key=KEY) as (controller, forwarder),
        following(kafka, topic_name) as proxy,
    ):
        reply, response = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("orders"))
        assert [result.error_code for result in response.results] == [ErrorCode.NONE]
        assert reply.last_offset is not None
        assert acl_names(await proxy.at(reply.last_offset)) == ["orders"]
        (genuine,) = controller.image.acls.by_id.values()
        (made,) = log_entries([acl_record(9, "payroll")])
        # Under the key of the ACL that the controller made, so that compaction would drop that one.
        hiding = replace(made, key=f"/acl/id/{genuine.id}".encode())

        offset = await intrude(kafka, topic_name, made, hiding, WrittenRecord(b"odd", b"\x01\x7f\x00"))
        await until_reported(controller, 1)

        assert acl_names(await proxy.at(offset)) == acl_names(controller.image) == ["orders"]
        event = controller.told("log_not_signed")[0]
        assert "3 records from offset " in (event.message or "")
        assert "no signature; not in effect" in (event.message or "")
        assert "degraded: 3 records of the metadata log are not signed by a controller" in [
            note.public for note in controller.process.degraded()
        ]
        # The number grows with each transaction: that of the start, the ACL, and what is written again.
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            # The record is made once the transaction is committed, which the log may show before that.
            while not is_numbered(controller, 3) or len(controller.told("log_written_again")) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        again = controller.told("log_written_again")
        assert [event.count for event in again] == [1, 2]
        reply, response = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("invoices"))
        assert reply.last_offset is not None
        await proxy.at(reply.last_offset)

        async with following(kafka, topic_name) as started:
            assert (
                acl_names(await started.loaded()) == acl_names(proxy.loader.image) == ["invoices", "orders"]
            )
            assert started.loader.image.digest == controller.image.digest


async def test_a_log_of_an_earlier_release_is_signed_by_a_controller_that_reports(
    kafka: Broker, topic_name: str
) -> None:
    async with a_controller_and_a_forwarder(kafka, topic_name) as (_, forwarder):
        await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("orders", "payroll"))

    broker = plaintext(kafka)
    settings = controller_settings(broker, topic_name, signing_key=KEY)
    async with running(made_controller(settings), wait=False) as rejecting:
        async with asyncio.timeout(SHOULD_NOT_TAKE_S):
            while not says(rejecting, UNSIGNED):  # noqa: ASYNC110 - a state has no event
                await asyncio.sleep(0.02)
        assert not rejecting.process.processor.active

    lenient = controller_settings(broker, topic_name, {"metadata": {"unsigned": "report"}}, signing_key=KEY)
    async with running(made_controller(lenient)) as reporting:
        await until_reported(reporting, 1)
        async with following(kafka, topic_name) as proxy:
            assert acl_names(await proxy.loaded()) == ["orders", "payroll"]

    async with a_controller_and_a_forwarder(kafka, topic_name, signing_key=KEY) as (after, forwarder):
        await intrude(kafka, topic_name, *log_entries([acl_record(9, "secrets")]))
        await until_reported(after, 1)
        reply, _ = await forward(forwarder, ApiKey.CREATE_ACLS, acls_request("invoices"))
        assert reply.last_offset is not None
        assert acl_names(after.image) == ["invoices", "orders", "payroll"]

        async with following(kafka, topic_name) as started:
            assert acl_names(await started.loaded()) == ["invoices", "orders", "payroll"]
