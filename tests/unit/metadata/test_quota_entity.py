"""Quota entities as paths and parts, and the filters of DescribeClientQuotas."""

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity, QuotaFilter, QuotaFilterError
from proxy.wire.error_codes import ErrorCode

ENTITIES = {
    "u": QuotaEntity(user="u"),
    "v": QuotaEntity(user="v"),
    "u/c": QuotaEntity(user="u", client_id="c"),
    "u/*": QuotaEntity(user="u", client_id=DEFAULT),
    "*/c": QuotaEntity(user=DEFAULT, client_id="c"),
    "*/*": QuotaEntity(user=DEFAULT, client_id=DEFAULT),
    "*": QuotaEntity(user=DEFAULT),
    "/c": QuotaEntity(client_id="c"),
    "/*": QuotaEntity(client_id=DEFAULT),
    "ip": QuotaEntity(ip="10.0.0.1"),
    "ip*": QuotaEntity(ip=DEFAULT),
}

EXACT, BY_DEFAULT, ANY = 0, 1, 2


@pytest.mark.spec("Q9")
@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (QuotaEntity(user=DEFAULT), "users/<default>"),
        (QuotaEntity(user="user1"), "users/user1"),
        (QuotaEntity(user="user2", client_id="clientA"), "users/user2/clients/clientA"),
        (QuotaEntity(user=DEFAULT, client_id=DEFAULT), "users/<default>/clients/<default>"),
        (QuotaEntity(client_id=DEFAULT), "clients/<default>"),
        (QuotaEntity(client_id="clientA"), "clients/clientA"),
        (QuotaEntity(ip="10.0.0.1"), "ips/10.0.0.1"),
        (QuotaEntity(ip="::1"), "ips/%3A%3A1"),
        (QuotaEntity(user="CN=a, O=*"), "users/CN%3Da%2C%20O%3D%2A"),
        (QuotaEntity(user="<default>"), "users/%3Cdefault%3E"),
        (QuotaEntity(user="a/clients/b"), "users/a%2Fclients%2Fb"),
    ],
)
def test_the_path_is_that_of_the_change_notifications(entity: QuotaEntity, path: str) -> None:
    assert entity.path == path


@pytest.mark.spec("Q8")
@pytest.mark.parametrize("entity", ENTITIES.values())
def test_an_entity_is_the_same_after_a_trip_through_its_parts(entity: QuotaEntity) -> None:
    assert QuotaEntity.of(entity.parts.items()) == entity


@pytest.mark.spec("Q8")
@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, set(ENTITIES)),
        ([], True, set()),
        ([("user", EXACT, "u")], False, {"u", "u/c", "u/*"}),
        ([("user", EXACT, "u")], True, {"u"}),
        ([("user", EXACT, "<default>")], False, set()),
        ([("user", BY_DEFAULT, None)], False, {"*/c", "*/*", "*"}),
        ([("user", BY_DEFAULT, None)], True, {"*"}),
        ([("user", ANY, None)], False, {"u", "v", "u/c", "u/*", "*/c", "*/*", "*"}),
        ([("user", ANY, None)], True, {"u", "v", "*"}),
        ([("client-id", EXACT, "c")], False, {"u/c", "*/c", "/c"}),
        ([("client-id", BY_DEFAULT, None)], True, {"/*"}),
        ([("user", EXACT, "u"), ("client-id", ANY, None)], False, {"u/c", "u/*"}),
        ([("user", ANY, None), ("client-id", BY_DEFAULT, None)], True, {"u/*", "*/*"}),
        ([("user", EXACT, "v"), ("client-id", EXACT, "c")], False, set()),
        ([("ip", ANY, None)], False, {"ip", "ip*"}),
        ([("ip", BY_DEFAULT, None)], True, {"ip*"}),
        ([("ip", EXACT, "10.0.0.1")], True, {"ip"}),
    ],
)
def test_a_filter_selects_the_entities_that_have_what_it_names(
    components: list[tuple[str, int, str | None]], strict: bool, expected: set[str]
) -> None:
    quota_filter = QuotaFilter.of(components, strict)

    assert {name for name, entity in ENTITIES.items() if quota_filter.matches(entity)} == expected


@pytest.mark.spec("Q8")
@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("topic", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", BY_DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", -1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("client-id", ANY, None), ("ip", EXACT, "10.0.0.1")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_kafka_refuses_is_refused_with_its_error_code(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(QuotaFilterError) as refused:
        QuotaFilter.of(components, strict=False)

    assert refused.value.error_code == code
