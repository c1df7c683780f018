"""How fast a client may go: which quota governs it, its rate, and the throttle time that follows.

precedence.py   which of the limits in an image governs a user and client-id (KIP-55's table)
rate.py         a windowed rate as Kafka's Rate and SampledStat measure it
shared.py       the same rate, recorded by several workers at once
mutation.py     token buckets of partitions that are created and deleted (KIP-599)
accept_rate.py  how fast listeners accept (KIP-612)
connections.py  how many connections an address may have, and how fast they may come (KIP-612)
request_time.py time spent on requests, as percent of an event loop (KIP-124)
counts.py       how many there are of something, against a limit
throttle.py     one bucket per quota-id; bytes in, throttle_time_ms out
sanitizer.py    user names as quota-ids and metrics show them
"""
