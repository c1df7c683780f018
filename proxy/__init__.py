"""The data plane: a gate in front of each Kafka broker, and the library that the controller stands on.

wire/          bytes <-> messages
metadata/      what the cluster has agreed on: records, image, delta, loader
security/      authentication and authorization: principals, SASL mechanisms, authorizers
quota/         which quota governs a client, and how long the client has to wait
audit/         one audit record and its encoding
admin/         which administrative requests are rejected: the same rules for the proxy and the controller
session/       one client connection without a socket: bytes in, effects out
net/           everything that waits: sockets, the metadata log, the audit spool, metrics
config/        the configuration file
workers/       several processes of one proxy on one port
shell/         `penstock shell`: the metadata log as a tree of paths
error_text     what an exception says, also one without a text
addresses      the addresses at which clients of a listener reach each broker
control_plane  where a proxy's metadata comes from and where its clients' administrative requests go
gate_setup     from the configuration to what all sessions share
listeners      the listeners of one proxy: opened, changed, drained
process        the parts of a proxy, connected
run            one proxy: from its file, as a worker, or as the successor of a running proxy
handover       SIGUSR2: a running proxy starts its successor, and hands its clients over
check          `penstock check`: what is wrong with a configuration file
connection_check  `penstock check --connect`: what is wrong at brokers, controllers and identity providers
proposal_check  `penstock check --proposal`: what a proposed change of policy does
reload_and_restart  `penstock reload`, `penstock restart`: the commands to a running process
witnessing     proxies that witness each other's audit trail, with Kafka's own controller
quota_shares   quotas that hold for all proxies together, over a topic
hash_password  `penstock hash-password`: the line of a PLAIN user for a users file
starter        `penstock init`: example files to begin from
__main__       the command line
"""
