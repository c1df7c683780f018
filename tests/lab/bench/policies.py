"""What it takes to compare two policies: `python -m tests.lab.bench.policies`.

10,000 ACLs against 10,000 with some changes, the worst changes of a setting and of `User:*`, and the search
for useless ACLs. CPU time, without the two policies, which are made once.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time

from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType
from proxy.policy.differences import Comparison
from proxy.policy.policy import Policy, of_acls
from proxy.policy.useless import useless_acls
from proxy.security.authorizer import ALLOW_EVERYONE
from tests.support.metadata_log import acl

COUNT = 10_000
FOR_ALL = acl("*", Operation.DESCRIBE, principal="User:*")


def many(count: int) -> Iterator[Acl]:
    """2,000 users with topics of 500 teams: literal names and prefixes, hosts and networks, some DENYs."""
    for number in range(count):
        yield acl(
            f"team-{number % 500}.topic-{number}",
            Operation(Operation.READ + number % 6),
            principal=f"User:user-{number % 2_000}",
            host="*" if number % 5 else f"10.{number % 250}.0.0/16",
            pattern_type=PatternType.LITERAL if number % 3 else PatternType.PREFIXED,
            permission_type=PermissionType.ALLOW if number % 17 else PermissionType.DENY,
        )


def timed(what: str, work: Callable[[], str]) -> None:
    gc.collect()
    since_s = process_time()
    found = work()
    sys.stdout.write(f"{what}: {process_time() - since_s:.2f} s of CPU, {found}\n")


def compared(old: Policy, new: Policy) -> str:
    comparison = Comparison(old, new)
    regions = comparison.regions()
    return f"{len(regions)} regions, {comparison.decided} decisions"


def main() -> int:
    before = [*many(COUNT), FOR_ALL]
    changed = [
        replace(one, resource_name=f"{one.resource_name}-new") if at % 100 == 50 else one
        for at, one in enumerate(before)
    ]
    timed("make a policy", lambda: str(len(of_acls(before).image.acls.by_id)))
    old = of_acls(before)
    new, without, everyone = of_acls(changed), of_acls(before[:-1]), of_acls(before, {ALLOW_EVERYONE: "true"})
    timed("100 changes", lambda: compared(old, new))
    timed("an ACL of User:* on all topics", lambda: compared(old, without))
    timed(ALLOW_EVERYONE, lambda: compared(old, everyone))
    timed("useless ACLs", lambda: str(len(useless_acls(old))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
