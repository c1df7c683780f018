"""The keys of quotas, as proxy.quota.keys has them: a contract test compares the two."""

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
TIME, MUTATIONS = "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
UNITS = {
    PRODUCER: ("bytes", 1),
    CONSUMER: ("bytes", 1),
    TIME: ("us of an event loop", 10_000),
    MUTATIONS: ("partition changes", 1),
    CONNECTIONS: ("connections", 1),
}
"""Key -> what its use is counted in, and the use per second that a limit of 1 allows."""
KEYS = tuple(key for key in UNITS if key != CONNECTIONS)
"""The quotas of users and client ids. No audit records exist for those of addresses."""
STRICT_SINCE = {"CreateTopics": 6, "DeleteTopics": 5, "CreatePartitions": 3}
"""KIP-599: from these versions on, a request is rejected for MUTATIONS instead of throttled."""
