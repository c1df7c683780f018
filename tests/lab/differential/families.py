"""What each API is about: the table that leans a case's ACLs towards its requests and says what they change.

An API without a line is about any kind of resource and changes nothing that other cases see.
"""

from dataclasses import dataclass

from proxy.metadata.acl import Operation as Op
from proxy.metadata.acl import ResourceType as Kind
from proxy.wire.api_keys import ApiKey as Key


@dataclass(frozen=True, slots=True)
class Family:
    """One API as the cases see it."""

    kinds: tuple[Kind, ...] = (Kind.TOPIC, Kind.GROUP, Kind.CLUSTER, Kind.TRANSACTIONAL_ID)
    operations: tuple[Op, ...] = ()
    topics: bool = False
    """It changes topics of the case's own."""
    groups: bool = False
    """It reads or changes groups of the case's own."""
    once: bool = False
    """One request in a case: a second would wait for the first one's time to run out."""
    after: tuple[Key, ...] = ()
    """What admin asks afterwards, to see what it has changed."""


_TOPIC_READ = Family((Kind.TOPIC,), (Op.READ, Op.DESCRIBE))
_CLUSTER = (Kind.CLUSTER,)
_GROUP_MEMBER = Family((Kind.GROUP,), (Op.READ,), groups=True)
_GROUP_TOLD = Family((Kind.GROUP, Kind.GROUP, Kind.CLUSTER), (Op.DESCRIBE, Op.READ), groups=True)
_SHARE_MEMBER = Family((Kind.GROUP, Kind.TOPIC), (Op.READ, Op.DESCRIBE), groups=True)
_TRANSACTION = Family((Kind.TRANSACTIONAL_ID, Kind.TOPIC), (Op.WRITE, Op.DESCRIBE), groups=True)
_TOPIC_ADMIN = (Kind.TOPIC, Kind.TOPIC, Kind.CLUSTER)

FAMILIES: dict[int, Family] = {
    Key.PRODUCE: Family((Kind.TOPIC, Kind.TRANSACTIONAL_ID, Kind.CLUSTER), (Op.WRITE,)),
    Key.FETCH: Family((Kind.TOPIC, Kind.TOPIC, Kind.CLUSTER), (Op.READ, Op.CLUSTER_ACTION)),
    Key.LIST_OFFSETS: _TOPIC_READ,
    Key.METADATA: Family((Kind.TOPIC, Kind.TOPIC, Kind.CLUSTER), (Op.DESCRIBE, Op.CREATE)),
    Key.OFFSET_COMMIT: Family((Kind.GROUP, Kind.TOPIC), (Op.READ,), groups=True, after=(Key.OFFSET_FETCH,)),
    Key.OFFSET_FETCH: Family((Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ), groups=True),
    Key.FIND_COORDINATOR: Family((Kind.GROUP, Kind.TRANSACTIONAL_ID, Kind.CLUSTER), (Op.DESCRIBE,)),
    Key.JOIN_GROUP: Family((Kind.GROUP,), (Op.READ,), groups=True, once=True),
    Key.HEARTBEAT: _GROUP_MEMBER,
    Key.LEAVE_GROUP: _GROUP_MEMBER,
    Key.SYNC_GROUP: _GROUP_MEMBER,
    Key.DESCRIBE_GROUPS: _GROUP_TOLD,
    Key.LIST_GROUPS: _GROUP_TOLD,
    Key.DELETE_GROUPS: Family((Kind.GROUP,), (Op.DELETE,), groups=True, after=(Key.LIST_GROUPS,)),
    Key.CREATE_TOPICS: Family(
        _TOPIC_ADMIN,
        (Op.CREATE, Op.DESCRIBE_CONFIGS),
        topics=True,
        after=(Key.METADATA, Key.DESCRIBE_CONFIGS),
    ),
    Key.DELETE_TOPICS: Family((Kind.TOPIC,), (Op.DELETE, Op.DESCRIBE), topics=True, after=(Key.METADATA,)),
    Key.DELETE_RECORDS: Family((Kind.TOPIC,), (Op.DELETE,), topics=True),
    Key.INIT_PRODUCER_ID: Family(
        (Kind.TRANSACTIONAL_ID, Kind.CLUSTER, Kind.TOPIC),
        (Op.WRITE, Op.IDEMPOTENT_WRITE, Op.TWO_PHASE_COMMIT),
    ),
    Key.OFFSET_FOR_LEADER_EPOCH: _TOPIC_READ,
    Key.ADD_PARTITIONS_TO_TXN: Family(
        (Kind.TRANSACTIONAL_ID, Kind.TOPIC, Kind.CLUSTER), (Op.WRITE, Op.CLUSTER_ACTION)
    ),
    Key.ADD_OFFSETS_TO_TXN: Family((Kind.TRANSACTIONAL_ID, Kind.GROUP), (Op.WRITE, Op.READ)),
    Key.END_TXN: _TRANSACTION,
    Key.TXN_OFFSET_COMMIT: Family(
        (Kind.TRANSACTIONAL_ID, Kind.GROUP, Kind.TOPIC),
        (Op.WRITE, Op.READ),
        groups=True,
        after=(Key.OFFSET_FETCH,),
    ),
    Key.DESCRIBE_ACLS: Family(_CLUSTER, (Op.DESCRIBE,)),
    Key.CREATE_ACLS: Family(_CLUSTER, (Op.ALTER,), after=(Key.DESCRIBE_ACLS,)),
    Key.DELETE_ACLS: Family(_CLUSTER, (Op.ALTER,), after=(Key.DESCRIBE_ACLS,)),
    Key.DESCRIBE_CONFIGS: Family(
        (Kind.TOPIC, Kind.CLUSTER, Kind.GROUP), (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)
    ),
    Key.ALTER_CONFIGS: Family(
        (Kind.TOPIC, Kind.CLUSTER, Kind.GROUP),
        (Op.ALTER_CONFIGS,),
        topics=True,
        after=(Key.DESCRIBE_CONFIGS,),
    ),
    Key.INCREMENTAL_ALTER_CONFIGS: Family(
        (Kind.TOPIC, Kind.CLUSTER, Kind.GROUP),
        (Op.ALTER_CONFIGS,),
        topics=True,
        after=(Key.DESCRIBE_CONFIGS,),
    ),
    Key.ALTER_REPLICA_LOG_DIRS: Family(_CLUSTER, (Op.ALTER,)),
    Key.DESCRIBE_LOG_DIRS: Family(_CLUSTER, (Op.DESCRIBE,)),
    Key.CREATE_PARTITIONS: Family((Kind.TOPIC,), (Op.ALTER,), topics=True, after=(Key.METADATA,)),
    Key.ELECT_LEADERS: Family(_CLUSTER, (Op.ALTER,)),
    Key.ALTER_PARTITION_REASSIGNMENTS: Family(_CLUSTER, (Op.ALTER,), topics=True),
    Key.LIST_PARTITION_REASSIGNMENTS: Family(_CLUSTER, (Op.DESCRIBE,)),
    Key.OFFSET_DELETE: Family(
        (Kind.GROUP, Kind.TOPIC), (Op.DELETE, Op.READ), groups=True, after=(Key.OFFSET_FETCH,)
    ),
    Key.DESCRIBE_CLIENT_QUOTAS: Family(_CLUSTER, (Op.DESCRIBE_CONFIGS,)),
    Key.ALTER_CLIENT_QUOTAS: Family(_CLUSTER, (Op.ALTER_CONFIGS,), after=(Key.DESCRIBE_CLIENT_QUOTAS,)),
    Key.DESCRIBE_USER_SCRAM_CREDENTIALS: Family(_CLUSTER, (Op.DESCRIBE,)),
    Key.ALTER_USER_SCRAM_CREDENTIALS: Family(
        _CLUSTER, (Op.ALTER,), after=(Key.DESCRIBE_USER_SCRAM_CREDENTIALS,)
    ),
    Key.DESCRIBE_QUORUM: Family(_CLUSTER, (Op.DESCRIBE,)),
    Key.UPDATE_FEATURES: Family(_CLUSTER, (Op.ALTER,)),
    Key.DESCRIBE_CLUSTER: Family(_CLUSTER, (Op.DESCRIBE, Op.ALTER, Op.CREATE)),
    Key.DESCRIBE_PRODUCERS: _TOPIC_READ,
    Key.UNREGISTER_BROKER: Family(_CLUSTER, (Op.ALTER,)),
    Key.UNREGISTER_CONTROLLER: Family(_CLUSTER, (Op.ALTER,)),
    Key.DESCRIBE_TRANSACTIONS: Family((Kind.TRANSACTIONAL_ID, Kind.TOPIC), (Op.DESCRIBE,)),
    Key.LIST_TRANSACTIONS: Family((Kind.TRANSACTIONAL_ID,), (Op.DESCRIBE,)),
    Key.CONSUMER_GROUP_HEARTBEAT: Family(
        (Kind.GROUP, Kind.TOPIC), (Op.READ, Op.DESCRIBE), groups=True, once=True
    ),
    Key.CONSUMER_GROUP_DESCRIBE: Family((Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ), groups=True),
    Key.WRITE_TXN_MARKERS: Family(_CLUSTER, (Op.ALTER, Op.CLUSTER_ACTION)),
    Key.CREATE_DELEGATION_TOKEN: Family((Kind.USER,), (Op.CREATE_TOKENS,)),
    Key.DESCRIBE_DELEGATION_TOKEN: Family(
        (Kind.USER, Kind.DELEGATION_TOKEN), (Op.DESCRIBE, Op.DESCRIBE_TOKENS)
    ),
    Key.SHARE_GROUP_HEARTBEAT: _SHARE_MEMBER,
    Key.SHARE_GROUP_DESCRIBE: Family((Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ), groups=True),
    Key.SHARE_FETCH: _SHARE_MEMBER,
    Key.SHARE_ACKNOWLEDGE: _SHARE_MEMBER,
    Key.STREAMS_GROUP_HEARTBEAT: Family(
        (Kind.GROUP, Kind.TOPIC), (Op.READ, Op.DESCRIBE, Op.CREATE), topics=True, groups=True
    ),
    Key.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Family((Kind.GROUP,), (Op.READ,), groups=True),
    Key.STREAMS_GROUP_DESCRIBE: Family((Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ), groups=True),
    Key.DESCRIBE_SHARE_GROUP_OFFSETS: Family((Kind.GROUP, Kind.TOPIC), (Op.DESCRIBE, Op.READ), groups=True),
    Key.ALTER_SHARE_GROUP_OFFSETS: Family((Kind.GROUP, Kind.TOPIC), (Op.READ,), groups=True),
    Key.DELETE_SHARE_GROUP_OFFSETS: Family((Kind.GROUP, Kind.TOPIC), (Op.DELETE, Op.READ), groups=True),
    Key.ADD_RAFT_VOTER: Family(_CLUSTER, (Op.ALTER,)),
    Key.REMOVE_RAFT_VOTER: Family(_CLUSTER, (Op.ALTER,)),
    Key.LIST_CONFIG_RESOURCES: Family(_CLUSTER, (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)),
    Key.DESCRIBE_TOPIC_PARTITIONS: Family((Kind.TOPIC,), (Op.DESCRIBE, Op.READ)),
}


def family(api_key: int) -> Family:
    """The line of the API, or what holds for one without a line."""
    return FAMILIES.get(api_key, Family())
