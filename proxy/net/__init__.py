"""Everything that waits: sockets, logs, disks, the clock. This package decides none of Kafka's rules.

A room imports only rooms below it, or not at all (pyproject.toml; docs/decisions/0062).

clients/    connections of clients: accepted, read, carried out, drained
pages/      the HTTP port: /metrics, /readyz, /audit, /quotas
telemetry/  metrics, log lines and trace spans
audit/      audit events onto disk and into the audit topic
metadata/   the metadata log, followed, into images
kafka/      Penstock's own connections to brokers and controllers
logins/     what logins are checked against, and tokens for Penstock's own logins
files/      files that are read again when they change: certificates, an authorizer's files
runtime/    clock, event loop, signals and sockets of a process; whether a peer can be reached
"""
