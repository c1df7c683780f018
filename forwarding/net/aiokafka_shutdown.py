"""The end of one of aiokafka's producers, in order or not: nothing of it is left behind.

`stop` waits for batches that may never be delivered. One that was given up there would go on trying to
deliver them for as long as the process lives, and then put them behind what came later by another way. Used
for the metadata log's (forwarding.net.log).
"""

import asyncio

import structlog
from aiokafka import AIOKafkaProducer

STOP_TIMEOUT_S = 5

log = structlog.get_logger(__name__)


async def end(producer: AIOKafkaProducer, whose: str) -> None:
    """Stop for good; what was not delivered by then will not be."""
    _look_at_failures(producer)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await producer.stop()
    except Exception as error:  # noqa: BLE001 - it is given up whatever it says
        log.info("a producer did not stop in order", producer=whose, error=repr(error))
        # A second call of `stop` does nothing: end the connections first, so that what is under way fails,
        # then the sender.
        await producer.client.close()
        await _cancel(producer._sender)
        _look_at_failures(producer)


async def _cancel(sender: object) -> None:
    """The sender and all it has begun, which asks for a coordinator for as long as no broker answers.

    Its own `close` waits for these: who is cut off would not learn that it is.
    """
    while tasks := [task for task in asyncio.all_tasks() if _is_of(task, sender)]:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)


def _is_of(task: "asyncio.Task[object]", sender: object) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and frame.f_locals.get("self") is sender


def _look_at_failures(producer: AIOKafkaProducer) -> None:
    """Failures that were raised to us one way and left behind in futures another way.

    Nobody awaits those, and asyncio would report each as forgotten, with a traceback, when it is collected.
    """
    accumulator = producer._message_accumulator
    batches = [batch for queue in accumulator._batches.values() for batch in queue]
    futures = [batch._drain_waiter for batch in [*batches, *accumulator._pending_batches]]
    if producer._txn_manager is not None and producer._txn_manager.transactional_id is not None:
        futures.append(producer._txn_manager.wait_for_transaction_end())
    for future in futures:
        if future is not None and future.done() and not future.cancelled():
            future.exception()
