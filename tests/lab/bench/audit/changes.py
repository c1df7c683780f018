"""A proposal of many changes to the ACLs and quotas of trail.py, for what-if."""

from tests.lab.bench.audit.events import LIMIT, LIMITED, TOPICS, USERS

CHANGES = 10_000
"""READ is removed from every second user, each quota is a thousandth, and the rest are new ACLs."""


def proposal_text() -> str:
    lines = [_removal(user) for user in range(0, USERS, 2)]
    lines += [_quota(user) for user in range(0, USERS, LIMITED)]
    lines += [_addition(number) for number in range(CHANGES - len(lines))]
    return "\n".join(lines) + "\n"


def _removal(user: int) -> str:
    pattern = " --resource-pattern-type prefixed" if user % 7 == 0 else ""
    who = f"--allow-principal User:user-{user} --operation Read"
    return f"kafka-acls --remove {who} --topic topic-{user % TOPICS}{pattern}"


def _quota(user: int) -> str:
    entity = f"--entity-type users --entity-name user-{user}"
    return f"kafka-configs --alter --add-config producer_byte_rate={LIMIT / 1_000:g} {entity}"


def _addition(number: int) -> str:
    who = f"--allow-principal User:user-{number % USERS} --operation Read"
    return f"kafka-acls --add {who} --topic further-{number}"
