"""How fast a client may go: which quota governs it, its rate, and the throttle time that follows.

precedence    which of the limits in an image governs a user and client-id (KIP-55's table)
rate          a windowed rate as Kafka's Rate and SampledStat measure it
shared        the same rate, recorded by several workers at once
throttle      one bucket per quota-id; bytes in, throttle_time_ms out
mutation      token buckets of partitions that are created and deleted (KIP-599)
request_time  time spent on requests, as percent of an event loop (KIP-124)
accept_rate   how fast listeners accept (KIP-612)
connections   how many connections an address may have, and how fast they may come (KIP-612)
counts        a number of connections, against its limit
sanitizer     user names as quota-ids and metrics show them
"""
