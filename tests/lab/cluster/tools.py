"""Kafka's own command-line tools, by the names they have in Kafka's bin directory.

Given a bootstrap address and a client's .properties file, runs one and gives back what it said. The jars of
2.8 have tools too, with the arguments of that time.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.lab.cluster import jvm, kafka
from tests.lab.cluster.run import run

MAIN_CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-jmx": "org.apache.kafka.tools.JmxTool",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
}
_OF_2_8 = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-console-consumer": "kafka.tools.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "kafka.admin.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "kafka.admin.DelegationTokenCommand",
    "kafka-get-offsets": "kafka.tools.GetOffsetShell",
    "kafka-leader-election": "kafka.admin.LeaderElectionCommand",
    "kafka-reassign-partitions": "kafka.admin.ReassignPartitionsCommand",
    "kafka-topics": "kafka.admin.TopicCommand",
}
_BEFORE_4_4 = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
}
_PROPERTIES_OF_2_8 = {
    "kafka-console-consumer": "--consumer.config",
    "kafka-console-producer": "--producer.config",
    "kafka-consumer-perf-test": "--consumer.config",
    "kafka-leader-election": "--admin.config",
    "kafka-producer-perf-test": "--producer.config",
}
_WITHOUT_BOOTSTRAP = {"kafka-dump-log", "kafka-jmx"}


@dataclass(frozen=True, slots=True)
class ToolRun:
    tool: str
    arguments: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """All it printed: the tools put errors on either stream."""
        return self.stdout + self.stderr


@dataclass(frozen=True, slots=True)
class KafkaTools:
    libs: Path
    bootstrap: str
    properties: Path | None = None
    """The client's security settings; None for a PLAINTEXT listener."""

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout_ms: int = 60_000) -> ToolRun:
        """Never raises for what the tool does: its exit code is in the answer (-9 after a time-out)."""
        done = run(self.command(tool, *arguments), stdin=stdin, timeout_ms=timeout_ms)
        return ToolRun(tool, arguments, done.returncode, done.stdout, done.stderr)

    def command(self, tool: str, *arguments: str) -> list[str]:
        of_2_8 = self.libs.name.startswith("kafka-2.8")
        old = _BEFORE_4_4 if kafka.parts(self.libs.name.removeprefix("kafka-")) < [4, 4] else {}
        main_class = (old | _OF_2_8 if of_2_8 else old).get(tool, MAIN_CLASSES[tool])
        option = (_PROPERTIES_OF_2_8 if of_2_8 else {}).get(tool, "--command-config")
        connection: list[str] = []
        if tool not in _WITHOUT_BOOTSTRAP:
            connection += ["--bootstrap-server", self.bootstrap]
            if self.properties is not None:
                connection += [option, str(self.properties)]
        return jvm.command(self.libs, main_class, [*connection, *arguments], jvm.SHORT_LIVED, "WARN")
