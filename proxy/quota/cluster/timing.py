"""The times and limits of the protocol. Decision 0070 says why they have these values.

A member compares only times of its own clock. `*_AT_COORDINATOR` is longer by what two clocks may differ in
rate, so that the coordinator never counts a lease as ended before its member does.
"""

from typing import Final

TICK_MS: Final = 250
"""How often the caller calls `Member.tick`."""

HEARTBEAT_MS: Final = 500
"""The interval of heartbeats, claims and renewals."""

LEASE_MS: Final = 2_500
"""How long a share may be used after the member sent the batch that the coordinator has echoed."""

LEASE_AT_COORDINATOR_MS: Final = 2_600

HOLD_MS: Final = 1_000
"""How long a coordinator acts after it wrote the claim that it last read back."""

HOLD_AT_COORDINATOR_MS: Final = 1_040

DEAD_AFTER_MS: Final = 1_300
"""A member without a heartbeat for this time does not coordinate."""

RESERVED_MS: Final = 60_000
"""How long a silent member that a probe did not find dead has 1/N reserved: it uses the fallback."""

PROBE_MS: Final = 2_000
"""The interval of probes of one silent member."""

IDLE_MS: Final = 10_000
"""A share that was not used for this time is released."""

REFRESH_MS: Final = 10_000
"""A demand is reported again after this time, in case a report was lost."""

FORGET_MS: Final = 10_000
"""After this time without a later number of the same sender, a lower one counts again: an epoch or a sequence
that was forged, or that a faulty process has written. No record is late by as much."""

RESERVE: Final = 0.02
"""The part of each limit that coordinators do not grant."""

FLOORS: Final = 0.01
"""What all members together may use without a report. It is half the reserve, because members that join
do not count the same number of members at once."""

MAX_REPORTED: Final = 1_000
"""The demands that a member reports in a tick, apart from a full report; the others follow."""

MAX_SHARED_OUT: Final = 4_000
"""The quota-ids that a coordinator divides again in a tick; the others follow. So heartbeats are in time."""

STEP_QUOTA_IDS: Final = 100
"""How many quota-ids one step of a tick takes: about 1 ms. The caller may serve clients between two steps."""

MAX_BATCH_BYTES: Final = 256 * 1024
"""A batch takes no further section above this size."""

MAX_ENTRIES: Final = 2_000
"""The entries of one section: some 56 KiB, and some ms of work."""
