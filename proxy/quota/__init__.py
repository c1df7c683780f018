"""Quotas: which one governs a client, the rate that it measures, and the resulting throttle time.

keys           the keys of quotas, a row each
precedence     which of the limits in an image governs a user and client-id (KIP-55's table)
rate           a windowed rate, measured as by Kafka's Rate and SampledStat
shared         the same rate, recorded by several workers at once
mutation       token buckets of created and deleted partitions (KIP-599)
connections    the number and the rate of connections from an address, and of a listener (KIP-612)
bucket_table   the buckets of a process, within a limit on their memory
throttle       one bucket for each quota-id; bytes or percent of an event loop in, throttle_time_ms out
cluster/       shares of a limit that holds for all proxies together
"""
