"""KIP-368 as clients feel it: librdkafka re-authenticates and goes on, aiokafka does not and is cut off."""

import asyncio
import logging

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer

from tests.lab.cluster.users import aiokafka_settings, librdkafka_settings
from tests.lab.demo import trail
from tests.lab.demo.stage import CONSUMER, IDLER, TOPIC, NotShown, Stage

_PAUSE_S = 0.25


def reauthenticate(stage: Stage) -> str:
    """A producer that sends all the while, for more than one session's life."""
    lost: list[KafkaError] = []
    settings = librdkafka_settings(stage.stack.users[CONSUMER], stage.stack.entrance("REAUTH"))
    producer = Producer({**settings, "error_cb": lost.append})
    sent = _rounds(stage)
    for _ in range(sent):
        producer.produce(TOPIC, b"still here")
        producer.poll(_PAUSE_S)
    left = producer.flush(10)
    fact = _fact(stage, "reauthentication", CONSUMER)
    if lost or left:
        raise NotShown(f"the connection was lost ({lost}), {left} records not taken")
    return f"{sent} records on one connection; audit: {fact['event']} of {fact['principal']}"


def expire(stage: Stage) -> str:
    """A client that does not know re-authentication: closed at its first request past the deadline."""
    # It tells of the lost connection on its logger; here that is what is meant to happen.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    sent = asyncio.run(_send_with_aiokafka(stage))
    fact = _fact(stage, "session_expired", IDLER)
    life_ms = stage.stack.wiring.reauth_ms
    return (
        f"closed past {life_ms / 1000:.0f} s, reconnected, all {sent} records taken;"
        f" audit: {fact['event']} of {fact['principal']}"
    )


async def _send_with_aiokafka(stage: Stage) -> int:
    producer = AIOKafkaProducer(**aiokafka_settings(stage.stack.users[IDLER], stage.stack.entrance("REAUTH")))
    await producer.start()
    try:
        rounds = _rounds(stage)
        for _ in range(rounds):
            await producer.send_and_wait(TOPIC, b"without re-authentication")
            await asyncio.sleep(_PAUSE_S)
        return rounds
    finally:
        await producer.stop()


def _rounds(stage: Stage) -> int:
    return int(stage.stack.wiring.reauth_ms * 1.5 / 1000 / _PAUSE_S)


def _fact(stage: Stage, event: str, actor: str) -> trail.Fact:
    principal = f"User:{actor}"
    wanted = (event, principal)
    fact = trail.find(stage.stack.broker.plaintext, lambda fact: (fact["event"], fact["principal"]) == wanted)
    if fact is None:
        raise NotShown(f"no {event} of {principal} in the audit topic")
    return fact
