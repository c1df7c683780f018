"""Follows the metadata log into a Loader: Penstock's topic, or the log of Kafka's own quorum.

topic_feed       follows the metadata topic: the leader of its only partition, its end, its records
transactions     record batches -> committed transactions of the topic, committed batches of the quorum
quorum_feed      follows `__cluster_metadata` at the leader of Kafka's quorum
quorum           requests to a controller of the quorum, and the address of its leader
live_topic       a topic over which processes inform each other of what is true for a moment
seen_number      remembers the last signed transaction over restarts
feed             what both feeds have: requests that wait for an offset, and the end of ACLs in time
"""
