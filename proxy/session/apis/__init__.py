"""One file per API, or per family of APIs about one subject: the KIP, the right, what is filtered and merged.

Everything the proxy knows about an API is its row, an `Api` in `APIS` of its file; `table` collects the rows
of all files here. An API without a row is rejected.

administration  acls client_quotas scram_credentials delegation_tokens topics configs cluster_operations
the cluster     metadata describe_cluster describe_topic_partitions partitions telemetry
groups          groups describe_groups consumer_group_heartbeat find_coordinator offset_commit offset_fetch
                share_groups share_fetch streams_group_heartbeat
transactions    transactions

Used by several of them:
topic_filter            denied topics taken out of a request and put back into its response
topic_existence         which topics there are, asked of the broker, and missing ones, created first
authorized_operations   what a client may do with a resource (KIP-430)
addresses               of brokers, replaced by those of their proxies
penstock_configs            owner and ACLs as configs of a topic
"""
