"""One file for each API, or for each family of APIs: the KIP, the right, what is filtered and merged.

Everything the proxy knows about an API is its row, an `Api` in `APIS` of its file; `table` collects the rows.
An API without a row is rejected.

table                      the rows of all files here, by API key; the versions that the proxy supports

Administration:
acls                       CreateAcls, DeleteAcls, DescribeAcls
client_quotas              AlterClientQuotas, DescribeClientQuotas
credentials                the SCRAM credential APIs; Create, Renew, Expire and DescribeDelegationToken
topics                     CreateTopics, CreatePartitions, DeleteTopics
configs                    AlterConfigs, IncrementalAlterConfigs, DescribeConfigs; owner and ACLs of a topic
cluster_operations         APIs that need one operation on the cluster, such as UpdateFeatures
replicas                   reassignments, elections, log dirs: not of Penstock's own topics

The cluster:
metadata                   Metadata, and the topics that it creates
cluster                    DescribeCluster, FindCoordinator and the telemetry APIs
describe_topic_partitions  DescribeTopicPartitions, page by page
partitions                 ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers

Groups:
groups                     the classic group protocol; listing, describing and deleting groups; OffsetDelete
heartbeats                 ConsumerGroupHeartbeat and which topics an assignment shows; Streams group members
offsets                    OffsetCommit and OffsetFetch
share_groups               ShareGroupHeartbeat, ShareAcknowledge, offsets of share groups
share_fetch                ShareFetch

Transactions:
transactions               the APIs of transactional and idempotent producers

Used by several of them:
topic_filter               removes denied topics from a request, and adds them to its response
topic_existence            queries which topics exist, and creates missing ones
authorized_operations      the operations that a client may do on a resource (KIP-430)
addresses                  replaces addresses of brokers with those of their proxies
"""
