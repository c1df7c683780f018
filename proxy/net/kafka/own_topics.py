"""The settings of Penstock's own topics: the one place that names them (decision 0108).

A setting of the topic itself takes precedence over the broker's default, which a user with ALTER_CONFIGS on
the cluster may change: a default of log.retention.ms=1000 would empty the audit trail. So each topic has
settings of its own for everything that loses records, rejects them or makes them unreadable.

A topic is created with them (topic_leaders, forwarding.net.broker). own_topic_watch sets those that an
existing topic lacks, and limits, which depend on the broker's default: a larger one that was in effect until
then stays in effect. A setting that somebody else has given the topic stays too, because an operator chooses
the retention. Nothing depends on the time at which a producer has made a record, so the broker's time counts:
no limit on timestamps applies then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from proxy.wire import types

_DAY_MS = 24 * 60 * 60 * 1000
_WEEK_MS = 7 * _DAY_MS
_LIVE_MS = 600_000
MIN_INSYNC_REPLICAS = "min.insync.replicas"

_COMMON = {
    "message.timestamp.type": "LogAppendTime",
    # An unclean election could lose acknowledged records, or the end of a transaction.
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
    "preallocate": "false",
    "delete.retention.ms": str(_DAY_MS),
    "retention.bytes": "-1",
    "segment.ms": str(_WEEK_MS),
    "segment.jitter.ms": "0",
    "segment.bytes": str(1 << 30),
    "segment.index.bytes": "10485760",
}
_MESSAGES = {"max.message.bytes": "1048588"}
_AUDIT = _COMMON | {"cleanup.policy": "delete"}
_METADATA = _COMMON | {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    # Compaction removes records from the middle of transactions: leave followers a day to catch up first.
    "min.compaction.lag.ms": str(_DAY_MS),
    "max.compaction.lag.ms": str((1 << 63) - 1),
    "min.cleanable.dirty.ratio": "0.5",
}
_LIVE = _COMMON | {
    # Records older than some seconds are not read.
    "cleanup.policy": "delete",
    "retention.ms": str(_LIVE_MS),
    "segment.ms": str(_LIVE_MS),
}
REQUIRED = ("cleanup.policy", "unclean.leader.election.enable", "message.timestamp.type")
"""Settings that Penstock depends on, even if an operator has chosen another value."""


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """One topic, as it is created if it is missing."""

    name: str
    settings: Mapping[str, str]
    limits: Mapping[str, str]
    """Settings for which the topic gets the broker's default where that is larger; -1 is no limit."""
    partitions: int = 1
    is_log: bool = False
    """Its only partition has the order of changes."""

    def settings_for(self, replicas: int) -> dict[str, str]:
        """Return the settings of the topic with so many replicas: one may be lost, two have each record."""
        return {**self.settings, MIN_INSYNC_REPLICAS: str(max(1, min(2, replicas - 1)))}

    def creation(self, replication_factor: int, settings: Mapping[str, str]) -> types.CreateTopicsRequest:
        """Return the request that creates the topic; a factor of -1 is the broker's default."""
        request = types.CreateTopicsRequest
        configs = [request.CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
        topic = request.CreatableTopic(
            name=self.name,
            num_partitions=self.partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
        return request(topics=[topic])


def audit_topic(name: str) -> OwnTopic:
    """Return the topic of the audit trail: one partition, so that its order is that of the trail."""
    return OwnTopic(name, _AUDIT, _MESSAGES | {"retention.ms": str(_WEEK_MS)})


def metadata_topic(name: str) -> OwnTopic:
    return OwnTopic(name, _METADATA, _MESSAGES, is_log=True)


def live_topic(name: str, partitions: int = 1) -> OwnTopic:
    """Return a topic whose records are of use for a moment: of quota shares, or of witnesses."""
    return OwnTopic(name, _LIVE, _MESSAGES, partitions)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as a broker describes it."""

    value: str | None
    is_of_topic: bool
    """Set at the topic itself, so that no default of the broker changes it."""


def missing_settings(topic: OwnTopic, described: Mapping[str, Setting], replicas: int) -> dict[str, str]:
    """Return the settings that the topic has to be given, except those that the broker does not know."""
    limits = {name: _larger(value, described.get(name)) for name, value in topic.limits.items()}
    return {
        name: value
        for name, value in (topic.settings_for(replicas) | limits).items()
        if name in described and not described[name].is_of_topic
    }


def _larger(own: str, default: Setting | None) -> str:
    if default is None or default.value is None:
        return own
    return default.value if default.value == "-1" or int(default.value) > int(own) else own
