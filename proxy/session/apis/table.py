"""All APIs that are served, by key. What is not here is refused and not advertised (SPEC A7).

Read by proxy.session.session. Produce, Fetch, ApiVersions and the SASL APIs are treated there by files of
their own. Brokers' own APIs (AlterPartition, the state of share groups and their kin) stay out: brokers
speak to each other without us, and a client has no business with them. Envelope is refused at a proxy (SPEC
E10).
"""

from collections.abc import Mapping

from proxy.session.apis import (
    add_partitions_to_txn,
    alter_configs,
    cluster_operations,
    consumer_group_heartbeat,
    create_topics,
    delegation_tokens,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    find_coordinator,
    group_membership,
    init_producer_id,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    share_group_offsets,
    streams_group_heartbeat,
    telemetry,
    transactions,
    txn_offset_commit,
    write_txn_markers,
)
from proxy.session.apis.api import Api

APIS: tuple[Api, ...] = (
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    find_coordinator.API,
    *group_membership.APIS,
    *describe_groups.APIS,
    list_groups.API,
    *create_topics.APIS,
    delete_topics.API,
    init_producer_id.API,
    describe_acls.API,
    describe_configs.API,
    *alter_configs.APIS,
    *cluster_operations.APIS,
    delete_groups.API,
    offset_delete.API,
    describe_client_quotas.API,
    describe_user_scram_credentials.API,
    describe_cluster.API,
    consumer_group_heartbeat.API,
    delete_records.API,
    offset_for_leader_epoch.API,
    add_partitions_to_txn.API,
    *transactions.APIS,
    txn_offset_commit.API,
    describe_producers.API,
    *describe_transactions.APIS,
    describe_topic_partitions.API,
    *delegation_tokens.APIS,
    *telemetry.APIS,
    share_group_heartbeat.API,
    share_fetch.API,
    share_acknowledge.API,
    *share_group_offsets.APIS,
    streams_group_heartbeat.API,
    write_txn_markers.API,
)

TABLE: Mapping[int, Api] = {api.key: api for api in APIS}
CHANGES_AT_BROKER = frozenset(api.key.name_of(api.key) for api in APIS if api.changes_at_broker)
"""Names of the APIs, as the audit trail has them."""
