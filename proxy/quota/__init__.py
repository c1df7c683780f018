"""Quotas: which one governs a client, the rate that it measures, and the resulting throttle time.

precedence     which of the limits in an image governs a user and client-id (KIP-55's table)
rate           a windowed rate, measured as by Kafka's Rate and SampledStat
shared         the same rate, recorded by several workers at once
mutation       token buckets of created and deleted partitions (KIP-599)
accept_rate    the rate at which listeners accept connections (KIP-612)
connections    the number and the rate of connections from an address (KIP-612)
request_time   time spent on requests, in percent of an event loop (KIP-124)
throttle       one bucket for each quota-id; bytes in, throttle_time_ms out
cluster/       shares of a limit that holds for all proxies together
"""
