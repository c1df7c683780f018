"""A day of a small cluster, made up from a seed: for timing, for looking at the page, for the end-to-end run.

Two proxies and a controller; users that come and go, re-authenticate or are cut off, are throttled,
ask for what they may not; ACLs and quotas that change at midday. The trail is whole and true.
"""

import random
from typing import Any

from tests.spark.audit_trail import Clock, Process, Record, Trail
from tests.spark.oracle import Acl

APIS = {
    "Produce": "WRITE",
    "Fetch": "READ",
    "Metadata": "DESCRIBE",
    "OffsetCommit": "READ",
    "ListOffsets": "DESCRIBE",
}
TOPICS = ("orders", "payments", "payments-eu", "invoices", "clicks", "audit-export")
USERS = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "mallory")
MIDNIGHT_MS = 1_795_392_000_000  # 2026-11-23T00:00:00Z
DAY_MS = 86_400_000


def busy_day(records: int = 10_000, seed: int = 7) -> Trail:
    """About that many audit records, spread over 2026-11-23."""
    chance = random.Random(seed)
    trail = Trail(Clock(MIDNIGHT_MS, step_ms=max(1, int(DAY_MS * 0.98) // records)))
    second = trail.process("proxy-2")
    acls = _grants(trail, chance)
    while sum(len(process.records) for process in trail.processes) < records - 5:
        proxy = chance.choices((trail.proxy, second), (3, 2))[0]
        chance.choices((_traffic, _denial, _login, _throttle, _change, _mark), (78, 3, 9, 5, 0.6, 2))[0](
            trail, proxy, chance, acls
        )
    trail.remove_acl(acls[0])
    return trail.stop()


def _grants(trail: Trail, chance: random.Random) -> list[Acl]:
    acls = [
        trail.add_acl(1, "ALLOW User:* * DESCRIBE TOPIC LITERAL *"),
        trail.add_acl(2, "DENY User:mallory * ALL TOPIC LITERAL *"),
        trail.add_acl(3, "ALLOW User:alice * WRITE TOPIC PREFIXED pay"),
    ]
    for number, user in enumerate(USERS[:-1], 10):
        for topic in chance.sample(TOPICS, 3):
            operation = chance.choice(("READ", "WRITE", "ALL"))
            acls.append(
                trail.add_acl(
                    number * 100 + len(acls), f"ALLOW User:{user} * {operation} TOPIC LITERAL {topic}"
                )
            )
    return acls


def _session(chance: random.Random, user: str) -> dict[str, Any]:
    """Connections are stable over a stretch of time, a user comes from few hosts."""
    return {
        "listener": "SASL_SSL",
        "client_id": f"{user}-app",
        "connection_id": f"{user}-{chance.randrange(8)}",
    }


def _traffic(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    user = chance.choices(USERS, range(len(USERS), 0, -1))[0]
    method, operation = chance.choice(tuple(APIS.items()))
    size = chance.randrange(200, 400_000)
    now = trail.clock.now_ms
    busy_hours = 1 + 3 * (0.3 < (now - MIDNIGHT_MS) / DAY_MS < 0.75)
    record = trail.ask(
        f"User:{user} 10.0.{USERS.index(user)}.1 {operation} TOPIC {chance.choice(TOPICS)}",
        proxy,
        event="authorization_summary",
        method=method,
        count=chance.randrange(5, 400) * busy_hours,
        request_bytes=size if method == "Produce" else 300,
        response_bytes=size if method == "Fetch" else 80,
        interval_start_ms=now - 10_000,
        interval_end_ms=now,
        quota_id=f"{user}:",
        **_session(chance, user),
    )
    if not record["granted"]:
        # Only what was allowed is summed up; a denial is a record of its own.
        empty = dict.fromkeys(
            ("request_bytes", "response_bytes", "interval_start_ms", "interval_end_ms", "count")
        )
        record |= {"event": "authorization", "error_code": 29, **empty}


def _denial(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    user = chance.choice(("mallory", "mallory", "frank", "grace"))
    question = f"User:{user} 10.0.66.{chance.randrange(1, 4)} WRITE TOPIC {chance.choice(TOPICS)}"
    trail.ask(question, proxy, method="Produce", error_code=29, **_session(chance, user))


def _login(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    user = chance.choice(USERS)
    event = chance.choices(
        (
            "authentication",
            "reauthentication",
            "authentication_failed",
            "reauthentication_failed",
            "session_expired",
        ),
        (50, 40, 6, 1, 3),
    )[0]
    proxy.write(
        event,
        principal=f"User:{user}",
        mechanism=chance.choice(("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")),
        session_lifetime_ms=None if "failed" in event else 3_600_000,
        error_code=58 if "failed" in event else 0,
        host="10.0.0.9",
        **_session(chance, user) | {"connection_id": f"{user}-login-{len(proxy.records)}"},
    )


def _throttle(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    user = chance.choice(("alice", "erin", "heidi"))
    key = chance.choice(("producer_byte_rate", "consumer_byte_rate"))
    proxy.write(
        "throttled",
        principal=f"User:{user}",
        quota_id=f"{user}:{user}-app" if user == "erin" else f"{user}:",
        quota_key=key,
        quota_limit=1_048_576.0,
        throttle_time_ms=chance.randrange(20, 9_000),
        count=chance.randrange(1, 5),
        **_session(chance, user),
    )


def _change(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    kind = chance.randrange(4)
    if kind == 0 and len(acls) > 6:
        trail.remove_acl(acls.pop(chance.randrange(3, len(acls))))
    elif kind == 1:
        trail.set_quota(
            {"user": chance.choice(USERS)}, "producer_byte_rate", float(chance.randrange(1, 9) * 1_048_576)
        )
    else:
        user, topic = chance.choice(USERS[:-1]), chance.choice(TOPICS)
        number = 10_000 + len(trail.log)
        acls.append(trail.add_acl(number, f"ALLOW User:{user} * READ TOPIC LITERAL {topic}"))


def _mark(trail: Trail, proxy: Process, chance: random.Random, acls: list[Acl]) -> None:
    proxy.high_water()


def spoil(trail: Trail) -> list[Record]:
    """One fault of each kind, in place; gives the audit records that are left."""
    summaries = [r for r in trail.proxy.records if r["event"] == "authorization_summary"]
    summaries[-1]["rule"] = "super.users"
    denied = [r for r in trail.proxy.records if r["event"] == "authorization" and not r["granted"]]
    denied[-1] |= {"granted": True, "rule": "acl", "acl_id": summaries[0]["acl_id"]}
    sent = [r for r in trail.proxy.records if r["event"] == "forwarded"]
    sent[2]["principal"] = "User:mallory"
    trail.log.append(trail.log[-1] | {"offset": trail.offset + 2})
    middle = len(trail.proxy.records) // 2
    quiet = [r for r in trail.proxy.records[middle:] if r["event"] in ("throttled", "authentication")]
    gone = {id(quiet[0])}
    return [record for record in trail.audit if id(record) not in gone]
