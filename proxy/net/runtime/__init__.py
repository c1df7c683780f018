"""What every process of Penstock needs, whatever it serves.

clock              the one reader of time
chunked            long work in slices, so that clients are served in between
garbage_collector  keeps Python's garbage collector from holding the event loop
replaceable        a background task that a reload may replace
stop_signals       SIGTERM and SIGINT: drain, then end
hangup             SIGHUP: read the configuration again
descriptors        the limit of open files, and how many connections it allows
listening          errors of listening sockets, in words
inherited_sockets  listening sockets that systemd holds
reachability       whether a peer can be reached, and when to try again
cause              why something does not work: a reason for everybody, a detail for operators
"""
