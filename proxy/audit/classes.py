"""The classes of events: what becomes of an event when the trail has no room is decided by its class.

proxy.audit.events says which event is in which class. Used by settings, metrics and the spool's shares.
"""

ADMIN = "admin"
"""What changes the cluster or the process's own settings, and who asked for it."""
DENIAL = "denial"
AUTHENTICATION = "authentication"
"""Logins, and sessions that ended because of one."""
SUMMARY = "summary"
"""Counted traffic, what is told from time to time, and what an administrator has only read."""
PROCESS = "process"
"""The begin, the end and the settings of a boot: a few records, without which the others cannot be read."""

CLASSES = (ADMIN, DENIAL, AUTHENTICATION, SUMMARY)
"""Those that have a policy; there is always room for PROCESS."""

READS = frozenset(
    (
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "InitProducerId",
    )
)
"""APIs whose allowed actions are recorded one by one though they change nothing of the cluster's."""
