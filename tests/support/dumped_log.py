"""What Kafka's own tool says of the first segment of a topic with the metadata log."""

import asyncio
import shutil
from pathlib import Path

from tests.lab.cluster.broker import Broker
from tests.lab.cluster.tools import KafkaTools


async def dumped(kafka: Broker, libs: Path, topic: str, into: Path) -> str:
    """Of a copy, as the broker writes on."""
    (segment,) = kafka._data.glob(f"{topic}-0/*.log")
    copy = shutil.copy(segment, into)
    tools = KafkaTools(libs, kafka.plaintext)
    run = await asyncio.to_thread(
        tools.run, "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(copy)
    )
    return run.said
