"""The keys of quotas, a row each: what may be set, and what its use is counted in.

The controller, the sessions, /quotas and the metrics read the table. spark_audit.quota_keys has the rows of
users and client ids for the jobs; a contract test compares them.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

LONG_MAX, INT_MAX = 2**63 - 1, 2**31 - 1

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
"""KIP-124: time spent on requests. Its buckets count percent; 100 is the whole time of one event loop."""
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

ScopedQuota: TypeAlias = Literal[
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate"
]
"""The quotas that proxies enforce. controller_mutation_rate always holds for the whole cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaKey:
    """A quota, and the limits that it can have."""

    largest: int | None = None
    """The largest limit, of a quota whose limits are whole numbers."""
    unit: str
    """What its use is counted in, in audit records."""
    units_of_one: int = 1
    """The use per second that a limit of 1 allows."""
    of_addresses: bool = False
    """Whether it is for addresses instead of users and client ids."""
    default: str | None = None
    """The key of the proxy's configuration with the limit of clients without one."""


KEYS = {
    PRODUCER_BYTE_RATE: QuotaKey(largest=LONG_MAX, unit="bytes", default="quota.producer.default"),
    CONSUMER_BYTE_RATE: QuotaKey(largest=LONG_MAX, unit="bytes", default="quota.consumer.default"),
    REQUEST_PERCENTAGE: QuotaKey(unit="us of an event loop", units_of_one=10_000),
    CONTROLLER_MUTATION_RATE: QuotaKey(unit="partition changes"),
    CONNECTION_CREATION_RATE: QuotaKey(largest=INT_MAX, unit="connections", of_addresses=True),
}
OF_CLIENTS = tuple(
    key for key, row in KEYS.items() if not row.of_addresses and key != CONTROLLER_MUTATION_RATE
)
"""The quotas of users and client ids that proxies, or brokers, enforce."""
