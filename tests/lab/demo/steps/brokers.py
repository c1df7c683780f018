"""Several brokers, a proxy before each: a client of one proxy finds them all, and no broker (SPEC O1)."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, Message, Producer

from tests.lab.cluster.users import librdkafka_settings
from tests.lab.demo.stage import PRODUCER, TOPIC, NotShown, Stage

_TIMEOUT_S = 30
_PRODUCED = 'penstock_requests_total{api="Produce",listener="SASL_PLAINTEXT"}'


def reach_all(stage: Stage) -> str:
    """A record to each partition by way of the first proxy; each proxy must have seen its own."""
    before = _produced(stage)
    producer = Producer(librdkafka_settings(stage.stack.users[PRODUCER], stage.stack.entrance()))
    metadata = producer.list_topics(TOPIC, timeout=_TIMEOUT_S)
    named = {node: f"{broker.host}:{broker.port}" for node, broker in metadata.brokers.items()}
    proxies = {each.number: each.wiring.listeners["SASL_PLAINTEXT"] for each in stage.stack.nodes}
    if named != proxies:
        raise NotShown(f"the client learnt of {named}, the proxies are {proxies}")
    partitions = metadata.topics[TOPIC].partitions
    _send(producer, list(partitions))
    after = _produced(stage)
    passed_by = [number for number in proxies if after[number] <= before[number]]
    if passed_by:
        raise NotShown(f"nothing was produced through the proxies of {passed_by}")
    return (
        f"metadata names {len(named)} proxies and no broker; {len(partitions)} partitions,"
        " each through its leader's"
    )


def _send(producer: Producer, partitions: list[int]) -> None:
    failures: list[str] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(f"partition {message.partition()}: {error}")

    for partition in partitions:
        producer.produce(TOPIC, b"to every broker", partition=partition, on_delivery=acknowledged)
    if producer.flush(_TIMEOUT_S) or failures:
        raise NotShown(f"not all records were taken: {failures or 'no answer'}")


def _produced(stage: Stage) -> Mapping[int, float]:
    return {each.number: each.metrics().get(_PRODUCED, 0.0) for each in stage.stack.nodes}
