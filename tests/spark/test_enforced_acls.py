"""ACLs that are not understood: the audit jobs read them as the proxy does."""

import json
import random
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from proxy.metadata.acl import (
    IN_EVERY_ZONE,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from proxy.metadata.networks import network_text
from spark_audit import schema as S
from spark_audit.policy.acl_history import (
    ACL_HOST,
    ACL_OPERATION,
    ACL_PRINCIPAL,
    ADDED,
    PATTERN_NAME,
    REMOVED,
)
from spark_audit.policy.enforced_acls import (
    NETWORK,
    RESOURCE_TYPES,
    accepts_networks,
    address_bits,
    denied_host,
    enforced,
    network,
    networks_from,
)
from tests.unit.metadata.test_acls_not_understood import NO_ADDRESSES, OTHER_FORMS
from tests.unit.metadata.test_networks import AS_KAFKA

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("S13")]

COLUMNS = (
    S.RESOURCE_TYPE,
    PATTERN_NAME,
    S.PATTERN_TYPE,
    ACL_PRINCIPAL,
    ACL_HOST,
    ACL_OPERATION,
    S.PERMISSION_TYPE,
)
DENY = Acl(
    "1",
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    PermissionType.DENY,
)


def hosts() -> list[str]:
    """Addresses in all forms, what is none, and both with a character changed."""
    chance = random.Random(7)
    found = [
        *NO_ADDRESSES,
        *OTHER_FORMS,
        *OTHER_FORMS.values(),
        "*",
        "::",
        ":::",
        "1::2::3",
        "1:2:3:4:5:6:7::",
    ]
    found += [
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:1.2.3.4",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::1%",
        "%eth0",
    ]
    found += [
        "1:2:3:4:5:6:7:8:9",
        "12345::",
        "::g",
        "256.1.1.1",
        "1.2.3.4.5",
        "::1.2.3.256",
        ":1::",
        "1::2:",
        "0:0::",
    ]
    for _ in range(600):
        form = list(chance.choice(found))
        for _ in range(chance.randint(1, 3)):
            position = chance.randint(0, len(form))
            form[position : position + chance.randint(0, 2)] = chance.choice(
                ("", ":", "::", "0", "f", ".", "%", "1")
            )
        found.append("".join(form))
    for _ in range(200):
        groups = [f"{chance.choice((0, 0, 1, 0xFFFF, 0xA00)):x}" for _ in range(8)]
        cut = chance.randint(0, 8)
        found += [
            ":".join(groups),
            ":".join(groups[:cut]) + "::" + ":".join(groups[cut + chance.randint(0, 3) :]),
        ]
    return list(dict.fromkeys(found))


def test_the_host_of_a_deny_is_the_proxys(spark: SparkSession) -> None:
    forms = hosts()

    read = spark.createDataFrame([(form,) for form in forms], "host string")
    found = read.select("host", denied_host(F.col("host")).alias("denied")).collect()

    assert {row["host"]: row["denied"] for row in found} == {
        form: replace(DENY, host=form).enforced().host.removesuffix(IN_EVERY_ZONE) for form in forms
    }


@pytest.mark.spec("S12")
def test_a_network_is_the_proxys(spark: SparkSession) -> None:
    """Its bits, for those of Kafka, and for those with a character changed."""
    chance = random.Random(9)
    forms = list(AS_KAFKA)
    for _ in range(400):
        form = list(chance.choice(forms))
        position = chance.randint(0, len(form))
        form[position : position + chance.randint(0, 2)] = chance.choice(("", ":", "0", "/", "9", ".", "+"))
        forms.append("".join(form))
    forms = [form for form in dict.fromkeys(forms) if form.isascii()]
    read = spark.createDataFrame([(form,) for form in forms], "host string")
    bits = read.select("host", network(F.col("host")).alias("bits")).collect()
    canonical = {form: network_text(form) for form in forms}
    addresses = [(text, *text.split("/")) for text in set(canonical.values()) if text is not None]
    of_address = {
        row["text"]: row["bits"][: int(row["length"]) + 2]
        for row in spark.createDataFrame(addresses, "text string, address string, length string")
        .withColumn("bits", address_bits(F.col("address")))
        .collect()
    }

    assert {row["host"]: row["bits"] for row in bits} == {
        form: None if text is None else of_address[text] for form, text in canonical.items()
    }


@pytest.mark.long
@pytest.mark.spec("S12")
def test_in_kafkas_log_a_network_is_one_from_a_level_on(spark: SparkSession) -> None:
    host = "10.0.0.0/8"
    acl = (3, 9, "a", "TOPIC", "orders", "LITERAL", "User:alice", host, "READ", "DENY", None)
    names = ", ".join(f"{name} string" for name in (S.ACL_ID, *COLUMNS))
    acls = spark.createDataFrame([acl], f"{ADDED} int, {REMOVED} int, {names}, {S.UNTIL_MS} long")

    def read(start: int | None) -> list[tuple[object, ...]]:
        rows = enforced(acls, start).select(ADDED, REMOVED, ACL_HOST, NETWORK).collect()
        return sorted(tuple(row) for row in rows)

    bits = "4:00001010"
    assert read(None) == [(3, 9, "*", None)]
    assert read(0) == read(3) == [(3, 9, host, bits)]
    assert read(5) == [(3, 5, "*", None), (5, 9, host, bits)]
    assert read(9) == [(3, 9, "*", None)]

    log = "api_key int, offset long, body string, from_snapshot boolean"
    schema = log.replace("offset", S.LOG_OFFSET).replace("from_snapshot", S.FROM_SNAPSHOT)
    of_acl = (S.ACCESS_CONTROL_ENTRY_RECORD, 2, json.dumps({"host": host}))

    def level(number: int, offset: int) -> tuple[object, ...]:
        return S.FEATURE_LEVEL_RECORD, offset, json.dumps({"name": "metadata.version", "level": number})

    def begin(*rows: tuple[object, ...], of_kafka: bool) -> tuple[int | None, bool]:
        told = spark.createDataFrame([(*row, False if of_kafka else None) for row in rows], schema)
        return networks_from(told), accepts_networks(told)

    assert begin(of_acl, of_kafka=False) == (0, True)
    assert begin(level(31, 1), of_acl, level(32, 5), level(33, 6), of_kafka=True) == (5, True)
    assert begin(level(31, 1), of_acl, of_kafka=True) == (None, False)
    assert begin(level(33, 1), of_kafka=True) == (None, True)
    assert begin(level(32, 1), level(31, 2), of_kafka=True) == (None, False)


def test_every_part_that_is_not_understood_widens_a_deny_and_voids_an_allow(spark: SparkSession) -> None:
    faulty = [
        replace(DENY, **changes, permission_type=permission)
        for permission in (PermissionType.DENY, PermissionType.ALLOW, PermissionType.UNKNOWN)
        for changes in (
            {},
            {"host": "10.0.0.0-10.9.9.9"},
            {"host": "::1"},
            {"operation": Operation.UNKNOWN},
            {"operation": Operation.ANY},
            {"pattern_type": PatternType.UNKNOWN},
            {"pattern_type": PatternType.MATCH},
            {"pattern_type": PatternType.PREFIXED},
            {"resource_type": ResourceType.UNKNOWN},
            {"principal": "alice"},
            {"until_ms": -1},
        )
    ]

    schema = ", ".join((*(f"{c} string" for c in COLUMNS), f"{S.UNTIL_MS} long"))
    read = spark.createDataFrame([(*_row(acl), acl.until_ms) for acl in faulty], schema)
    found = sorted(tuple(row) for row in enforced(read).select(*COLUMNS).collect())

    expected = []
    for acl in (each.enforced() for each in faulty):
        types = RESOURCE_TYPES if acl.resource_type is ResourceType.ANY else (acl.resource_type.name,)
        expected += [(kind, *_row(acl)[1:]) for kind in types]
    assert found == sorted(expected)


def _row(acl: Acl) -> tuple[str, ...]:
    kind, name, pattern, principal, host, operation, permission = acl.binding
    return kind.name, name, pattern.name, principal, host, operation.name, permission.name
