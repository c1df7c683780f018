"""The data plane: a gate in front of each Kafka broker, and the library that the controller stands on.

wire      bytes <-> messages
metadata  what the cluster has agreed on: records, image, delta, loader
security  who is this, and may they
quota     which quota governs, and how long a client has to wait
audit     one audit record and its encoding
admin     which administrative requests are rejected: the same rules for the proxy and the controller
session   one client connection without a socket: bytes in, effects out
net       everything that waits: sockets, the metadata topic, the audit spool, metrics

config    the configuration file; addresses: where clients reach each broker
process   a proxy put together; gate_setup: its gate, as configured
__main__  the command line; check, shell: subcommands
"""
