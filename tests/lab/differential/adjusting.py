"""What the fields of a request have to do with one another, where a random choice of each would be nonsense.

Run on a filled request before it is asked; changes it in place.
"""

from collections.abc import Callable
from typing import Any

from proxy.admin.configs import BROKER, BROKER_LOGGER
from tests.lab.differential.choice import ZERO_ID, Choice

_TOPIC, _CLIENT_METRICS, _GROUP, _UNKNOWN = 2, 16, 32, 99
_SETTINGS = {
    _TOPIC: (
        ("retention.ms", "90000000"),
        ("cleanup.policy", "compact"),
        ("nonsense", "1"),
        ("segment.bytes", "x"),
    ),
    BROKER: (("log.cleaner.threads", "1"), ("nonsense", "1"), ("broker.id", "7")),
    BROKER_LOGGER: (("kafka.nothing", "INFO"), ("kafka.nothing", "LOUD")),
    _CLIENT_METRICS: (("interval.ms", "10000"), ("nonsense", "1")),
    _GROUP: (("consumer.session.timeout.ms", "50000"), ("nonsense", "1")),
    _UNKNOWN: (("a", "1"),),
}


def _metadata(choice: Choice, message: Any, version: int) -> None:
    """By name, or from v12 on by id."""
    for topic in message.topics or ():
        if version >= 12 and choice.chance(0.4):
            topic.name = None
        elif version >= 10 and not choice.chance(0.05):
            topic.topic_id = ZERO_ID
            topic.name = topic.name or choice.topic()


def _delete_topics(choice: Choice, message: Any, _version: int) -> None:
    """By name or by id, rarely by both."""
    for topic in message.topics:
        if choice.chance(0.5) and any(topic.topic_id):
            topic.name = None
        elif not choice.chance(0.05):
            topic.topic_id = ZERO_ID


def _create_topics(_choice: Choice, message: Any, _version: int) -> None:
    for topic in message.topics:
        if topic.assignments:
            topic.num_partitions = topic.replication_factor = -1
            for index, assignment in enumerate(topic.assignments):
                assignment.partition_index = index


def _config_resource(choice: Choice, kinds: tuple[int, ...], resource: Any, topic: Callable[[], str]) -> None:
    kind = choice.random.choice(kinds)
    resource.resource_type = kind
    resource.resource_name = _resource_name(choice, kind, topic)


def _resource_name(choice: Choice, kind: int, topic: Callable[[], str]) -> str:
    names: dict[int, Callable[[], str]] = {
        _TOPIC: topic,
        BROKER: lambda: choice.one_of("1", "1", "99", "x"),
        BROKER_LOGGER: lambda: choice.one_of("1", "99"),
        _CLIENT_METRICS: lambda: choice.one_of(*choice.names.new_groups),
        _GROUP: choice.group,
        _UNKNOWN: lambda: "what",
    }
    return names[kind]()


_CONFIG_KINDS = (_TOPIC,) * 5 + (BROKER, BROKER, BROKER_LOGGER, _CLIENT_METRICS, _GROUP, _GROUP, _UNKNOWN)


def _describe_configs(choice: Choice, message: Any, _version: int) -> None:
    for resource in message.resources:
        _config_resource(choice, _CONFIG_KINDS, resource, choice.topic)
        # All settings of a broker name its addresses, and its loggers depend on what it has done.
        if resource.configuration_keys is not None or resource.resource_type in (BROKER, BROKER_LOGGER):
            resource.configuration_keys = [choice.random.choice(_SETTINGS[resource.resource_type])[0]]


def _alter_configs(choice: Choice, message: Any, _version: int) -> None:
    """No broker's own settings are replaced: both sides shall stay as they are."""
    kinds = tuple(kind for kind in _CONFIG_KINDS if kind != BROKER)
    _alter(choice, message, kinds)


def _incremental_alter_configs(choice: Choice, message: Any, _version: int) -> None:
    _alter(choice, message, _CONFIG_KINDS)
    for resource in message.resources:
        for config in resource.configs:
            config.config_operation = choice.one_of(0, 0, 0, 1, 2, 3, 9)


def _alter(choice: Choice, message: Any, kinds: tuple[int, ...]) -> None:
    for resource in message.resources:
        _config_resource(choice, kinds, resource, choice.own_topic)
        for config in resource.configs:
            config.name, config.value = choice.random.choice(_SETTINGS[resource.resource_type])
            if choice.chance(0.05):
                config.value = None


def _find_coordinator(choice: Choice, message: Any, version: int) -> None:
    if message.key_type == 1:
        if version < 4:
            message.key = choice.transactional_id()
        message.coordinator_keys = [choice.transactional_id() for _ in message.coordinator_keys]


def _create_acls(choice: Choice, message: Any, _version: int) -> None:
    """A number that only filters may have stands alone: the whole request fails at a broker."""
    odd = [creation for creation in message.creations if _is_for_filters(creation)]
    message.creations = odd[:1] or message.creations
    for creation in message.creations:
        if creation.resource_type == 4 and not choice.chance(0.2):
            creation.resource_name = "kafka-cluster"


def _is_for_filters(creation: Any) -> bool:
    of_filters = (creation.resource_type, creation.operation, creation.permission_type)
    return 1 in of_filters or creation.resource_pattern_type in (1, 2)


def _produce(choice: Choice, message: Any, version: int) -> None:
    """With a transactional id only to topics that are not there: one side might write, and the other not."""
    for topic in message.topic_data if message.transactional_id is not None else ():
        topic.name = "t-ghost" if version < 13 else ""
        topic.topic_id = choice.missing_id() if version >= 13 else ZERO_ID


def _create_delegation_token(choice: Choice, message: Any, version: int) -> None:
    """An owner has a type and a name, but for a few that lack one."""
    if version >= 3 and not choice.chance(0.1):
        message.owner_principal_type = None if message.owner_principal_name is None else "User"


def _alter_client_quotas(choice: Choice, message: Any, _version: int) -> None:
    """An address needs an address, and each type stands once."""
    for entry in message.entries:
        if not choice.chance(0.1):
            entry.entity = list({part.entity_type: part for part in entry.entity}.values())
        for part in entry.entity:
            if part.entity_type == "ip":
                part.entity_name = choice.one_of("10.9.8.7", "not an address")
        for op in entry.ops:
            if any(part.entity_type == "ip" for part in entry.entity) and choice.chance(0.7):
                op.key = "connection_creation_rate"
    message.entries = list(
        {repr(sorted(map(repr, entry.entity))): entry for entry in message.entries}.values()
    )


def _describe_topic_partitions(_choice: Choice, message: Any, _version: int) -> None:
    """A page of all topics begins behind Penstock's own, which a super user sees at one side only."""
    if not message.topics and (message.cursor is None or message.cursor.topic_name < "a"):
        message.response_partition_limit = 2_000


ADJUSTMENTS: dict[str, Callable[[Choice, Any, int], None]] = {
    "Produce": _produce,
    "Metadata": _metadata,
    "DeleteTopics": _delete_topics,
    "CreateTopics": _create_topics,
    "DescribeConfigs": _describe_configs,
    "AlterConfigs": _alter_configs,
    "IncrementalAlterConfigs": _incremental_alter_configs,
    "FindCoordinator": _find_coordinator,
    "CreateAcls": _create_acls,
    "CreateDelegationToken": _create_delegation_token,
    "AlterClientQuotas": _alter_client_quotas,
    "DescribeTopicPartitions": _describe_topic_partitions,
}
