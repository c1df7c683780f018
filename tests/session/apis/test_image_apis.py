"""ACLs, quotas and SCRAM credentials described from the image."""

from typing import Any

import pytest

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from tests.session.apis.asking import CLUSTER_RIGHT, Asking
from tests.support.acl_filters import describe_acls
from tests.support.images import acl_record, image_of, quota_record, scram_record

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ANY = 1

ACLS = image_of(
    acl_record(901, "orders", principal="User:bob"),
    acl_record(902, "orders", principal="User:bob", operation=Operation.WRITE),
    acl_record(903, "ord", principal="User:bob", pattern_type=PatternType.PREFIXED),
    acl_record(904, "*", principal="User:bob", permission_type=PermissionType.DENY, host="10.0.0.9"),
    acl_record(905, "orders", ResourceType.GROUP, principal="User:carol"),
)


def described_acls(version: int = 3, **fields: Any) -> list[tuple[int, str, int, int]]:
    """Resource type, name and pattern type, and how many ACLs stand on it; alice's own left out."""
    asking = Asking(ApiKey.DESCRIBE_ACLS, version, f"DESCRIBE {CLUSTER_RIGHT}", base=ACLS)
    answer = asking.for_(describe_acls(**fields)).answer
    assert (answer.error_code, answer.error_message) == (0, "")
    return [
        (part.resource_type, part.resource_name, part.pattern_type, len(part.acls))
        for part in answer.resources
        if part.resource_type != ResourceType.CLUSTER
    ]


LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALL_TOPICS = (TOPIC, "*", LITERAL, 1)
ORDERS = (TOPIC, "orders", LITERAL, 2)
ORD = (TOPIC, "ord", PREFIXED, 1)
TEAM = (GROUP, "orders", LITERAL, 1)


@pytest.mark.spec("S8")
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_ACLS))
def test_acls_are_told_by_resource_pattern(version: int) -> None:
    assert described_acls(version) == [ALL_TOPICS, ORD, ORDERS, TEAM]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"resource_type_filter": GROUP}, [TEAM]),
        ({"resource_name_filter": "orders"}, [ORDERS, TEAM]),
        ({"resource_name_filter": "orders", "pattern_type_filter": LITERAL}, [ORDERS, TEAM]),
        ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, [ALL_TOPICS, ORD, ORDERS, TEAM]),
        ({"resource_name_filter": "ordinal", "pattern_type_filter": MATCH}, [ALL_TOPICS, ORD]),
        ({"pattern_type_filter": PREFIXED}, [ORD]),
        ({"principal_filter": "User:carol"}, [TEAM]),
        ({"host_filter": "10.0.0.9"}, [ALL_TOPICS]),
        ({"operation": Operation.WRITE}, [(TOPIC, "orders", LITERAL, 1)]),
        ({"permission_type": PermissionType.DENY}, [ALL_TOPICS]),
        ({"principal_filter": "User:nobody"}, []),
    ],
)
def test_acl_filters_select_as_they_say(fields: dict[str, Any], expected: list[Any]) -> None:
    assert described_acls(**fields) == expected


@pytest.mark.spec("S8")
def test_an_acl_is_told_with_all_its_parts() -> None:
    asking = Asking(ApiKey.DESCRIBE_ACLS, 3, f"DESCRIBE {CLUSTER_RIGHT}", base=ACLS)

    (resource,) = asking.for_(describe_acls(host_filter="10.0.0.9")).answer.resources

    assert resource.acls == [
        t.DescribeAclsResponse.AclDescription(
            principal="User:bob",
            host="10.0.0.9",
            operation=Operation.READ,
            permission_type=PermissionType.DENY,
        )
    ]


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_an_acl_filter_of_unknown_cannot_be_read_and_one_of_a_later_release_finds_nothing(field: str) -> None:
    asking = Asking(ApiKey.DESCRIBE_ACLS, 3, f"DESCRIBE {CLUSTER_RIGHT}", base=ACLS)

    with pytest.raises(WireError, match=field):
        asking.for_(describe_acls(**{field: 0}))
    for number in (99, -1):
        assert asking.for_(describe_acls(**{field: number})).answer.resources == []


@pytest.mark.spec("A7")
def test_acls_are_not_told_without_describe_on_the_cluster() -> None:
    answer = (
        Asking(ApiKey.DESCRIBE_ACLS, 3, f"CREATE {CLUSTER_RIGHT}", base=ACLS).for_(describe_acls()).answer
    )

    assert (answer.error_code, answer.resources) == (DENIED, [])


QUOTAS = image_of(
    quota_record("producer_byte_rate", 1000, user="bob", client_id="app"),
    quota_record("consumer_byte_rate", 2000, user="bob"),
    quota_record("producer_byte_rate", 1500, user="bob"),
    quota_record("producer_byte_rate", 3000, user=None),
    quota_record("producer_byte_rate", 4000, client_id=None),
    quota_record("connection_creation_rate", 5, ip="10.0.0.1"),
)
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
BOB_APP = {"user": "bob", "client-id": "app"}
BOB: dict[str, str | None] = {"user": "bob"}
ANY_USER: dict[str, str | None] = {"user": None}
ANY_CLIENT: dict[str, str | None] = {"client-id": None}


def quotas(*components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    request = t.DescribeClientQuotasRequest
    asking = Asking(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, f"DESCRIBE_CONFIGS {CLUSTER_RIGHT}", base=QUOTAS)
    return asking.for_(
        request(
            components=[
                request.ComponentData(entity_type=kind, match_type=how, match=match)
                for kind, how, match in components
            ],
            strict=strict,
        )
    ).answer


def entities(answer: Any) -> list[dict[str, str | None]]:
    assert (answer.error_code, answer.error_message) == (0, "")
    return [{part.entity_type: part.entity_name for part in entry.entity} for entry in answer.entries]


@pytest.mark.spec("Q8")
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_CLIENT_QUOTAS))
@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [ANY_CLIENT, {"ip": "10.0.0.1"}, ANY_USER, BOB, BOB_APP]),
        ([("user", EXACT, "bob")], False, [BOB, BOB_APP]),
        ([("user", EXACT, "bob")], True, [BOB]),
        ([("user", DEFAULT, None)], False, [ANY_USER]),
        ([("user", SPECIFIED, None)], False, [ANY_USER, BOB, BOB_APP]),
        ([("user", SPECIFIED, None)], True, [ANY_USER, BOB]),
        ([("user", EXACT, "bob"), ("client-id", SPECIFIED, None)], False, [BOB_APP]),
        ([("ip", SPECIFIED, None)], False, [{"ip": "10.0.0.1"}]),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
def test_quota_filters_select_as_they_say(
    components: list[Any], strict: bool, expected: list[Any], version: int
) -> None:
    assert entities(quotas(*components, strict=strict, version=version)) == expected


@pytest.mark.spec("Q8")
def test_an_entity_is_told_with_all_its_limits() -> None:
    (entry,) = quotas(("user", EXACT, "bob"), strict=True).entries

    assert {value.key: value.value for value in entry.values} == {
        "consumer_byte_rate": 2000.0,
        "producer_byte_rate": 1500.0,
    }


@pytest.mark.spec("Q8")
@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("planet", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("ip", EXACT, "b")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_quota_filter_that_makes_no_sense_is_refused(components: list[Any], code: ErrorCode) -> None:
    answer = quotas(*components)

    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


@pytest.mark.spec("A7")
def test_quotas_are_not_told_without_describe_configs_on_the_cluster() -> None:
    asking = Asking(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, f"DESCRIBE {CLUSTER_RIGHT}", base=QUOTAS)

    answer = asking.for_(t.DescribeClientQuotasRequest()).answer

    assert (answer.error_code, answer.entries) == (DENIED, None)


SCRAM = image_of(scram_record("zoe"), scram_record("bob", 2), scram_record("bob", 1))


def credentials(users: list[str] | None, *rights: str) -> Any:
    request = t.DescribeUserScramCredentialsRequest
    names = None if users is None else [request.UserName(name=name) for name in users]
    return (
        Asking(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, *rights, base=SCRAM)
        .for_(request(users=names))
        .answer
    )


@pytest.mark.spec("A7")
@pytest.mark.parametrize("users", [None, []])
def test_all_users_with_credentials_are_told_when_none_is_named(users: list[str] | None) -> None:
    answer = credentials(users, f"DESCRIBE {CLUSTER_RIGHT}")

    assert [
        (result.user, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in answer.results
    ] == [("bob", [(1, 4096), (2, 4096)]), ("zoe", [(1, 4096)])]


@pytest.mark.spec("A7")
def test_users_without_credentials_and_users_named_twice_have_an_error() -> None:
    answer = credentials(["zoe", "nobody", "bob", "bob"], f"DESCRIBE {CLUSTER_RIGHT}")

    assert [(result.user, result.error_code) for result in answer.results] == [
        ("zoe", 0),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND),
        ("bob", ErrorCode.DUPLICATE_RESOURCE),
    ]


@pytest.mark.spec("A7")
@pytest.mark.parametrize("users", [None, ["bob"]])
def test_credentials_are_not_told_without_describe_on_the_cluster(users: list[str] | None) -> None:
    answer = credentials(users)

    assert answer.error_code == DENIED
    assert [(result.user, result.error_code) for result in answer.results] == [("", DENIED)] * len(
        users or []
    )
