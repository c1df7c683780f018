"""ACL filters as DescribeAcls and DeleteAcls use them, and the text of ACL ids."""

from dataclasses import replace

import pytest

from proxy.metadata.acl import (
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    uuid_bytes,
    uuid_text,
)
from tests.support.metadata_log import acl

ANYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)
LITERAL = acl("orders", host="10.0.0.1")
OTHER_LITERAL = acl("order")
PREFIXED = acl("ord", pattern_type=PatternType.PREFIXED)
WILDCARD = acl("*", Operation.WRITE, permission_type=PermissionType.DENY)
WILDCARD_PREFIX = acl("*", pattern_type=PatternType.PREFIXED)
GROUP = acl("orders", resource_type=ResourceType.GROUP, principal="User:bob")
EVERY = (LITERAL, OTHER_LITERAL, PREFIXED, WILDCARD, WILDCARD_PREFIX, GROUP)


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, set(EVERY)),
        ({"resource_type": ResourceType.GROUP}, {GROUP}),
        ({"resource_type": ResourceType.UNKNOWN}, set()),
        ({"resource_name": "orders"}, {LITERAL, GROUP}),
        ({"resource_name": "*"}, {WILDCARD, WILDCARD_PREFIX}),
        ({"pattern_type": PatternType.PREFIXED}, {PREFIXED, WILDCARD_PREFIX}),
        ({"pattern_type": PatternType.LITERAL, "resource_name": "ord"}, set()),
        ({"pattern_type": PatternType.PREFIXED, "resource_name": "ord"}, {PREFIXED}),
        ({"pattern_type": PatternType.PREFIXED, "resource_name": "orders"}, set()),
        ({"pattern_type": PatternType.MATCH}, set(EVERY)),
        (
            {"pattern_type": PatternType.MATCH, "resource_name": "orders"},
            {LITERAL, PREFIXED, WILDCARD, GROUP},
        ),
        ({"pattern_type": PatternType.MATCH, "resource_name": "order"}, {OTHER_LITERAL, PREFIXED, WILDCARD}),
        ({"pattern_type": PatternType.MATCH, "resource_name": "or"}, {WILDCARD}),
        ({"pattern_type": PatternType.MATCH, "resource_name": "*"}, {WILDCARD, WILDCARD_PREFIX}),
        ({"pattern_type": PatternType.UNKNOWN}, set()),
        ({"principal": "User:bob"}, {GROUP}),
        ({"principal": "User:b"}, set()),
        ({"host": "10.0.0.1"}, {LITERAL}),
        ({"host": "*"}, set(EVERY) - {LITERAL}),
        ({"operation": Operation.WRITE}, {WILDCARD}),
        ({"operation": Operation.ALL}, set()),
        ({"permission_type": PermissionType.DENY}, {WILDCARD}),
        ({"permission_type": PermissionType.UNKNOWN}, set()),
    ],
)
def test_a_filter_selects_what_all_its_fields_allow(fields: dict[str, object], expected: set[object]) -> None:
    acl_filter = replace(ANYTHING, **fields)  # type: ignore[arg-type]

    assert {candidate for candidate in EVERY if acl_filter.matches(candidate)} == expected


@pytest.mark.spec("S10")
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (bytes(16), "AAAAAAAAAAAAAAAAAAAAAA"),
        (bytes(15) + b"\x01", "AAAAAAAAAAAAAAAAAAAAAQ"),
        (b"\xff" * 16, "_____________________w"),
        (b"\xfb" * 16, "-_v7-_v7-_v7-_v7-_v7-w"),
    ],
)
def test_an_acl_id_is_written_as_kafka_writes_a_uuid(raw: bytes, text: str) -> None:
    assert uuid_text(raw) == text
    assert uuid_bytes(text) == raw


@pytest.mark.spec("S10")
@pytest.mark.parametrize(
    "text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAR", "AAAAAAAAAAAAAAAAAAAA+/"]
)
def test_what_is_no_uuid_of_16_bytes_in_its_one_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"uuid|base64"):
        uuid_bytes(text)


@pytest.mark.spec("S1")
@pytest.mark.parametrize("kind", [ResourceType, PatternType, Operation, PermissionType])
@pytest.mark.parametrize("number", [-1, 16, 127])
def test_a_number_of_a_later_version_is_unknown(kind: type[Operation], number: int) -> None:
    assert kind(number).name == "UNKNOWN"


@pytest.mark.spec("S1", "S8")
def test_the_numbers_are_those_of_kafkas_protocol() -> None:
    numbers = {
        kind.__name__: [(code.name, int(code)) for code in kind]
        for kind in (ResourceType, PatternType, Operation, PermissionType)
    }

    assert numbers == {
        "ResourceType": [
            ("UNKNOWN", 0),
            ("ANY", 1),
            ("TOPIC", 2),
            ("GROUP", 3),
            ("CLUSTER", 4),
            ("TRANSACTIONAL_ID", 5),
            ("DELEGATION_TOKEN", 6),
            ("USER", 7),
        ],
        "PatternType": [("UNKNOWN", 0), ("ANY", 1), ("MATCH", 2), ("LITERAL", 3), ("PREFIXED", 4)],
        "Operation": [
            ("UNKNOWN", 0),
            ("ANY", 1),
            ("ALL", 2),
            ("READ", 3),
            ("WRITE", 4),
            ("CREATE", 5),
            ("DELETE", 6),
            ("ALTER", 7),
            ("DESCRIBE", 8),
            ("CLUSTER_ACTION", 9),
            ("DESCRIBE_CONFIGS", 10),
            ("ALTER_CONFIGS", 11),
            ("IDEMPOTENT_WRITE", 12),
            ("CREATE_TOKENS", 13),
            ("DESCRIBE_TOKENS", 14),
            ("TWO_PHASE_COMMIT", 15),
        ],
        "PermissionType": [("UNKNOWN", 0), ("ANY", 1), ("DENY", 2), ("ALLOW", 3)],
    }
