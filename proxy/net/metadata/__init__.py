"""Follows the metadata log into a Loader: Penstock's topic, or the log of Kafka's own quorum.

topic_feed       follows the metadata topic
topic_partition  the topic's only partition: its leader, its end, its records
transactions     record batches -> complete committed transactions
quorum_feed      follows `__cluster_metadata` at the leader of Kafka's quorum
quorum           requests to a controller of the quorum, and the address of its leader
quorum_log       record batches of the quorum -> those that are committed
offset_waiters   requests that wait until an offset of the log is applied
"""
