"""Penstock's own connections to brokers and controllers.

channel            one connection: TLS, ApiVersions, SASL login, pipelined requests
response_protocol  request frames out, response frames paired by correlation id
broker_watch       versions and nodes of the broker behind the proxy, and whether it is up
user_tokens        logins at the broker as the client's user, by delegation tokens (KIP-48)
topic_lookups      names of unknown topic ids, requested for all clients that wait (KIP-516)
"""
