"""Connections of clients, from accepting to closing. The effects of a session are carried out here.

listener          one listener of the proxy: makes connections, and owns the tasks that they need
acceptor          listening sockets, plain or under TLS
proxy_protocol    the header with which a load balancer names the client (PROXY protocol)
services          what all sessions need, as one object; what they need of the audit trail
admission         accepts or rejects connections, by connection quotas and open files
connection        one client: passes its bytes to the session, and carries out the session's effects
relay_protocol    reading and writing on both sides of a connection; the shared receive buffer
turns             owners of connections take turns at the event loop
pending_logins    clients that log in: their checks and their time limit
upstream          connections to the broker, one for each client
drain             the order in which a process stops serving its clients
"""
