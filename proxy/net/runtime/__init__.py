"""Parts that every process of Penstock needs.

clock              the one reader of time
chunked            long work in slices, so that the event loop serves clients in between
garbage_collector  keeps Python's garbage collector from holding the event loop
replaceable        a background task that a reload can replace
merged_metrics     metrics with the rule by which the values of several workers become one
stop_signals       SIGTERM and SIGINT start the drain, a second one ends it
operator_signals   SIGHUP reloads the configuration, SIGUSR2 starts a successor
descriptors        the limit of open files, and the number of connections it allows
listening          readable errors of listening sockets
inherited_sockets  listening sockets that systemd or the process before this one holds
successor          the process that a proxy starts in its own place, and the pipes between the two
service_manager    notifications to systemd
keepalive          SO_KEEPALIVE of connections that live long
reachability       whether a peer is reachable, why not, and when to retry
"""
