"""Connections of clients, from their acceptance to their end. Effects of a session are carried out here.

listener          one listener of the proxy: makes connections, and owns the tasks that they need
acceptor          listening sockets, plain or under TLS
admission         whether a connection may come in: connection quotas, open files
connection        one client: its bytes into the session, the session's effects out
connection_host   what a connection needs of the process and of the audit trail
relay_protocol    reading and writing on both sides of a connection; the shared receive buffer
deferred_effects  effects that wait until the audit records before them are durable
request_timing    time that the event loop spends on one client (KIP-124)
turns             whose work goes on in the next turn of the event loop
pending_logins    clients that are logging in: their checks and their time limit
upstream          connections to the broker, one for each client
drain             the order in which a process stops serving its clients
revocation        ends sessions whose credentials were changed or removed
"""
