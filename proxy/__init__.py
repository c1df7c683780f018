"""The data plane: a gate in front of each Kafka broker, and the library that the controller stands on.

wire/          bytes <-> messages
metadata/      what the cluster has agreed on: records, image, delta, loader
security/      authentication and authorization: principals, SASL mechanisms, authorizers
quota/         which quota governs a client, and how long the client has to wait
audit/         one audit record and its encoding
admin/         which administrative requests are rejected: the same rules for the proxy and the controller
policy/        what a policy decides about all requests there can be
session/       one client connection without a socket: bytes in, effects out
net/           everything that waits: sockets, the metadata log, the audit spool, metrics
config/        the configuration file
workers/       several processes of one proxy on one port
frame          what every process has, whatever it serves
app/           the assembly of a proxy, from its configuration
commands/      what the subcommands run
error_text     what an exception says, also one without a text
__main__       the command line
"""
