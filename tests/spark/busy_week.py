"""A day of a small cluster, the days that its page compares it with, and names as clients choose them.

The traffic of each day is that of `busy_day`. Administrative requests that name their objects, the use of
quotas, and hostile names on the last day are added to it. It is for the page, not for a reconciliation.
"""

import random
from typing import Any

from tests.spark.audit_trail import Process, Record, Trail
from tests.spark.busy_day import DAY_MS, MIDNIGHT_MS, busy_day

HOSTILE = (
    "User:</script><script>document.title='taken'</script>",
    "User:<!--<img src=x onerror=\"document.title='taken'\">",
    "User:\u202eecila\u2066",
    "User:CN=Zoë Müller,OU=データ基盤,O=Ünïcode GmbH,C=DE",
    "User:" + "long" * 8_000,
)
EVENING_MS = MIDNIGHT_MS + 18 * 3_600_000
LOADED = 300
"""The number of topics of one request."""
_TIMES = "time_ms", "interval_start_ms", "interval_end_ms"
_DONE = {"error": "NONE"}
_REFUSED = {"error": "TOPIC_AUTHORIZATION_FAILED", "error_message": "Not authorized to delete the topic."}
_NEAR_THE_LIMIT = "User:heidi", "User:bob"


def busy_week(records: int = 4_000) -> tuple[list[Record], list[Record]]:
    """About that many audit records on 2026-11-23, the day before and a week before; the log of the 23rd."""
    days, log = [], []
    for days_ago, seed, part in ((7, 3, 0.8), (1, 5, 0.9), (0, 7, 1.0)):
        trail, chance = busy_day(int(records * part), seed), random.Random(seed)
        trail.clock.now_ms, trail.clock.step_ms = EVENING_MS, 1_000
        _administration(trail.proxy, chance)
        for record in trail.audit:
            if record["event"] == "authorization_summary" and record["principal"] in _NEAR_THE_LIMIT:
                record["request_bytes"] *= chance.randrange(1, 600)
        if not days_ago:
            _last_day(trail)
            log = trail.log
        days += [_moved(record, days_ago) for record in trail.audit]
    return days, log


def _moved(record: Record, days_ago: int) -> Record:
    times = {name: record[name] - days_ago * DAY_MS for name in _TIMES if record[name] is not None}
    return record | times | {"boot_id": f"{record['boot_id']}-{days_ago}"}


def an_object(type_: str, name: str | None, operation: str, **fields: Any) -> tuple[Any, ...]:
    """An entry of `objects`, in the order of schema.OBJECT."""
    order = "key", "old_value", "new_value", "error", "error_message", "details", "count"
    return (type_, name, operation, *(fields.get(field) for field in order))


def administer(process: Process, method: str, *objects: tuple[Any, ...], **fields: Any) -> Record:
    """The record of an administrative request with its outcome."""
    who = {"principal": "User:admin", "host": "10.0.0.5", "client_id": "adminclient-1", "error_code": 0}
    return process.write(fields.pop("event", "forwarded"), method=method, objects=objects, **(who | fields))


def _administration(proxy: Process, chance: random.Random) -> None:
    for _ in range(12):
        topic = chance.choice(("orders", "payments", "clicks"))
        old, new = chance.sample(("86400000", "604800000", "-1", "3600000"), 2)
        values = {"key": "retention.ms", "old_value": old, "new_value": new}
        time_ms = MIDNIGHT_MS + chance.randrange(DAY_MS * 9 // 10)
        config = an_object("TOPIC", topic, "SET_CONFIG", **values, **_DONE)
        administer(proxy, "IncrementalAlterConfigs", config, time_ms=time_ms)
    acl = {
        **{"resource_type": "TOPIC", "pattern_type": "PREFIXED", "principal": "User:frank", "host": "*"},
        **{"operation_of_acl": "READ", "permission_type": "ALLOW"},
    }
    administer(proxy, "CreateAcls", an_object("ACL", "pay", "CREATE", details=acl, **_DONE))
    limit = {"key": "producer_byte_rate", "old_value": "1048576.0", "new_value": "4194304.0"}
    administer(proxy, "AlterClientQuotas", an_object("QUOTA", "user=alice", "SET", **limit, **_DONE))


def _last_day(trail: Trail) -> None:
    """A new client deletes what it may not, a deployment creates topics, and strangers come."""
    mallory = {"principal": "User:mallory", "host": "10.0.66.2", "client_id": "kafka-topics"}
    payroll = an_object("TOPIC", "payroll", "DELETE", **_REFUSED)
    administer(trail.proxy, "DeleteTopics", payroll, error_code=29, **mallory)
    deploy = {"principal": "User:deploy", "host": "10.0.7.7", "client_id": "terraform"}
    details = {"partitions": "0:1700,1:1650"}
    cut = an_object("TOPIC", "clicks", "DELETE_RECORDS", details=details, **_DONE)
    administer(trail.proxy, "DeleteRecords", cut, event="broker_responded", **deploy)
    named = [an_object("TOPIC", f"load-{number}", "CREATE", **_DONE) for number in range(40)]
    others = an_object("TOPIC", None, "CREATE", count=LOADED - len(named))
    administer(trail.proxy, "CreateTopics", *named, others, **deploy)
    for number, name in enumerate(HOSTILE):
        _stranger(trail.proxy, name, f"203.0.113.{number}", number + 40)


def _stranger(proxy: Process, name: str, host: str, times: int) -> None:
    client = {"principal": name, "host": host, "client_id": name, "listener": "SASL_SSL"}
    proxy.write("authentication", mechanism="PLAIN", error_code=0, **client)
    denied = {"granted": False, "rule": "default.deny", "method": "Produce", "operation": "WRITE"}
    place = {"resource_type": "GROUP", "resource_name": name, "pattern_type": "LITERAL", "error_code": 29}
    for _ in range(times):
        proxy.write("authentication_failed", mechanism="PLAIN", error_code=58, **client)
        proxy.write("authorization", **client, **denied, **place)
    quota = {"quota_id": f"{name}:", "quota_key": "producer_byte_rate", "quota_limit": 1.0}
    proxy.write("throttled", count=3, throttle_time_ms=9_000, **quota, **client)
    values = {"key": name, "old_value": name, "new_value": name}
    administer(
        proxy, "IncrementalAlterConfigs", an_object("GROUP", name, "SET_CONFIG", **values, **_DONE), **client
    )
