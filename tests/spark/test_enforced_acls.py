"""ACLs that are not understood: the audit jobs read them as the proxy does."""

import random
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from proxy.metadata.acl import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from spark_audit import schema as S
from spark_audit.reconcile.enforced_acls import RESOURCE_TYPES, denied_host, enforced
from spark_audit.trail.acl_history import (
    ACL_HOST,
    ACL_OPERATION,
    ACL_PRINCIPAL,
    PATTERN_NAME,
    PERMISSION,
)
from tests.unit.metadata.test_acls_not_understood import NO_ADDRESSES, OTHER_FORMS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("S13")]

COLUMNS = (S.RESOURCE_TYPE, PATTERN_NAME, S.PATTERN_TYPE, ACL_PRINCIPAL, ACL_HOST, ACL_OPERATION, PERMISSION)
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
        form: replace(DENY, host=form).enforced.host for form in forms
    }


def test_every_part_that_is_not_understood_widens_a_deny_and_voids_an_allow(spark: SparkSession) -> None:
    faulty = [
        replace(DENY, **changes, permission_type=permission)
        for permission in (PermissionType.DENY, PermissionType.ALLOW, PermissionType.UNKNOWN)
        for changes in (
            {},
            {"host": "10.0.0.0/8"},
            {"host": "::1"},
            {"operation": Operation.UNKNOWN},
            {"operation": Operation.ANY},
            {"pattern_type": PatternType.UNKNOWN},
            {"pattern_type": PatternType.MATCH},
            {"pattern_type": PatternType.PREFIXED},
            {"resource_type": ResourceType.UNKNOWN},
            {"principal": "alice"},
        )
    ]

    read = spark.createDataFrame([_row(acl) for acl in faulty], ", ".join(f"{c} string" for c in COLUMNS))
    found = sorted(tuple(row) for row in enforced(read).select(*COLUMNS).collect())

    expected = []
    for acl in (each.enforced for each in faulty):
        types = RESOURCE_TYPES if acl.resource_type is ResourceType.ANY else (acl.resource_type.name,)
        expected += [(kind, *_row(acl)[1:]) for kind in types]
    assert found == sorted(expected)


def _row(acl: Acl) -> tuple[str, ...]:
    kind, name, pattern, principal, host, operation, permission = acl.binding
    return kind.name, name, pattern.name, principal, host, operation.name, permission.name
