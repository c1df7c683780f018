"""The classes of events: the class decides what happens to an event when the trail has no room.

proxy.audit.events assigns a class to each event. Settings, metrics and the spool's shares use the classes.
"""

ADMIN = "admin"
"""Changes to the cluster or to the process's own settings, and their requests."""
DENIAL = "denial"
AUTHENTICATION = "authentication"
"""Logins, and sessions that ended because of one."""
SUMMARY = "summary"
"""Counted traffic, periodic reports, and administrative requests that only read."""
PROCESS = "process"
"""Start, end and settings of a boot: a few records, without which the others cannot be interpreted."""

CLASSES = (ADMIN, DENIAL, AUTHENTICATION, SUMMARY)
"""The classes with a policy; there is always room for PROCESS."""

READS = frozenset(
    (
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "InitProducerId",
    )
)
"""APIs whose allowed actions are recorded one by one, although they change nothing in the cluster."""
