"""A quota that throttles a live session (KIP-55, KIP-219): set with kafka-configs, felt by librdkafka."""

from dataclasses import dataclass, field

from confluent_kafka import Producer

from tests.lab.cluster.users import librdkafka_settings
from tests.lab.demo.stage import PRODUCER, TOPIC, NotShown, Stage

_LIMIT_BYTES_PER_SECOND = 20_000
# In one record, so that the whole burst is in the window at once: 26 kB/s over ten seconds.
_BURST_BYTES = 260_000
_TIMEOUT_S = 60
_ENTITY = ("--entity-type", "users", "--entity-name", PRODUCER)


@dataclass(slots=True)
class _Session:
    """One librdkafka producer, and the throttle times that it reports."""

    throttled_s: list[float] = field(default_factory=list)

    def open(self, stage: Stage) -> Producer:
        settings = librdkafka_settings(stage.stack.users[PRODUCER], stage.stack.entrance())
        callback = {"throttle_cb": lambda event: self.throttled_s.append(event.throttle_time)}
        return Producer({**settings, "linger.ms": 0, **callback})

    def send(self, producer: Producer, value: bytes) -> float:
        """Seconds from handing the record over to its acknowledgement."""
        latencies: list[float] = []
        failures: list[str] = []

        def acknowledged(error: object, message: object) -> None:
            if error is not None:
                failures.append(str(error))
            latencies.append(message.latency())  # type: ignore[attr-defined]

        # Always the same one: where there are several proxies, each throttles what it has let through itself.
        producer.produce(TOPIC, value, partition=0, on_delivery=acknowledged)
        if producer.flush(_TIMEOUT_S) or failures:
            raise NotShown(f"a record of {len(value)} bytes was not taken: {failures or 'no answer'}")
        return latencies[0]


def throttle(stage: Stage) -> str:
    session = _Session()
    producer = session.open(stage)
    before_s = session.send(producer, b"a first record")
    limit = f"producer_byte_rate={_LIMIT_BYTES_PER_SECOND}"
    stage.as_admin("kafka-configs", "--alter", *_ENTITY, "--add-config", limit)
    session.send(producer, bytes(_BURST_BYTES))
    after_s = session.send(producer, b"the record after the burst")
    if not session.throttled_s or after_s < max(session.throttled_s) / 2:
        raise NotShown(f"throttle times {session.throttled_s}, but the next record took {after_s:.3f} s")
    return (
        f"throttle_time_ms {max(session.throttled_s) * 1000:,.0f} for a burst of {_BURST_BYTES // 1000} kB;"
        f" the next record took {after_s:.1f} s instead of {before_s * 1000:.0f} ms"
    )


def lift(stage: Stage) -> str:
    stage.as_admin("kafka-configs", "--alter", *_ENTITY, "--delete-config", "producer_byte_rate")
    described = stage.as_admin("kafka-configs", "--describe", *_ENTITY)
    if "producer_byte_rate" in described.stdout:
        raise NotShown("kafka-configs still describes the quota")
    return "kafka-configs describes no quota any more"
