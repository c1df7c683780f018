"""Penstock's own connections to brokers and controllers.

channel            a connection: TLS, ApiVersions, SASL login, pipelined requests and their responses
active_controller  the broker that carries out administrative requests
own_topics         the settings of Penstock's own topics
own_topic_watch    sets those that a topic lacks, and reports what has changed
topic_leaders      leaders of a topic's partitions, and connections to them
broker_watch       supported versions and nodes of the broker behind the proxy, and whether it is up
user_tokens        delegation tokens for logins at the broker as the client's user (KIP-48)
topic_lookups      names of unknown topic ids, requested for all connections that wait (KIP-516)
"""
