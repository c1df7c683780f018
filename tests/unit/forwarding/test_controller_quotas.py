"""AlterClientQuotas: Kafka's validation, per entity all or nothing."""

import math
from typing import Any

import pytest

from forwarding.controller.api import ControllerOutcome
from forwarding.controller.quotas import alter_client_quotas
from proxy.metadata.image import MetadataImage
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from tests.support.images import image_of, quota_record

request_of = types.AlterClientQuotasRequest


def op(key: str, value: float | None) -> Any:
    return request_of.OpData(key=key, value=value or 0.0, remove=value is None)


def entry(entity: list[tuple[str, str | None]], *ops: Any) -> Any:
    parts = [request_of.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return request_of.EntryData(entity=parts, ops=list(ops))


def altered(
    *entries: Any, image: MetadataImage = MetadataImage.EMPTY, validate_only: bool = False
) -> ControllerOutcome:
    return alter_client_quotas(request_of(entries=list(entries), validate_only=validate_only), image)


def errors(outcome: ControllerOutcome) -> list[tuple[int, str | None]]:
    return [(answered.error_code, answered.error_message) for answered in outcome.response.entries]


ALICE: list[tuple[str, str | None]] = [("user", "alice")]


@pytest.mark.spec("Q8", "Q11")
@pytest.mark.parametrize(
    ("entity", "key"),
    [
        (ALICE, "producer_byte_rate"),
        ([("user", None)], "consumer_byte_rate"),
        ([("client-id", "c")], "request_percentage"),
        ([("client-id", None)], "controller_mutation_rate"),
        ([("user", "alice"), ("client-id", "c")], "producer_byte_rate"),
        ([("client-id", None), ("user", None)], "consumer_byte_rate"),
        ([("ip", "10.0.0.1")], "connection_creation_rate"),
        ([("ip", "::1")], "connection_creation_rate"),
        ([("ip", None)], "connection_creation_rate"),
    ],
)
def test_every_kind_of_entity_takes_its_keys(entity: list[tuple[str, str | None]], key: str) -> None:
    outcome = altered(entry(entity, op(key, 1000.0)))

    assert errors(outcome) == [(0, None)]
    (record,) = outcome.records
    assert [(part.entity_type, part.entity_name) for part in record.entity] == entity
    assert (record.key, record.value, record.remove) == (key, 1000.0, False)


@pytest.mark.spec("Q8")
def test_of_a_type_that_an_entity_names_twice_the_last_name_counts_as_in_kafka() -> None:
    outcome = altered(
        entry([("user", "a"), ("client-id", "c"), ("user", None)], op("producer_byte_rate", 1.0))
    )

    (record,), (result,) = outcome.records, outcome.response.entries
    expected = {"user": None, "client-id": "c"}
    assert {part.entity_type: part.entity_name for part in record.entity} == expected
    assert {part.entity_type: part.entity_name for part in result.entity} == expected
    assert result.error_code == ErrorCode.NONE


@pytest.mark.spec("Q11")
@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ([], "Invalid empty client quota entity"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        ([("user", "")], "Empty user not supported"),
        ([("user", "a"), ("user", "")], "Empty user not supported"),
        (
            [("user", "a"), ("ip", "10.0.0.1")],
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        ([("ip", "localhost")], "localhost is not a valid IP address"),
    ],
)
def test_an_invalid_entity_is_refused(entity: list[tuple[str, str | None]], message: str) -> None:
    outcome = altered(entry(entity, op("producer_byte_rate", 1.0)))

    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, message)]
    assert outcome.records == ()


@pytest.mark.spec("Q11")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("bytes_per_second", 1.0, "Invalid configuration key bytes_per_second"),
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ("producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        ("producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
        ("request_percentage", -0.5, "Quota request_percentage must be greater than 0"),
        ("producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (
            "consumer_byte_rate",
            2.0**64,
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        ("request_percentage", math.nan, "Quota request_percentage must be a finite number"),
        ("request_percentage", math.inf, "Quota request_percentage must be a finite number"),
    ],
)
def test_an_invalid_key_or_value_refuses_the_entity_and_nothing_of_it_is_stored(
    key: str, value: float, message: str
) -> None:
    bad = request_of.OpData(key=key, value=value, remove=False)

    outcome = altered(
        entry(ALICE, op("controller_mutation_rate", 5.0), bad),
        entry([("user", "bob")], op("producer_byte_rate", 7.0)),
    )

    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, message), (0, None)]
    assert [record.value for record in outcome.records] == [7.0]


@pytest.mark.spec("Q11")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        ("connection_creation_rate", 0.5, "connection_creation_rate cannot be a fractional value."),
        (
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_an_ip_takes_a_whole_number_of_connections_only(key: str, value: float, message: str) -> None:
    outcome = altered(entry([("ip", "10.0.0.1")], op(key, value)))

    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, message)]


@pytest.mark.spec("Q11")
def test_a_key_given_twice_refuses_the_entity() -> None:
    outcome = altered(entry(ALICE, op("producer_byte_rate", 1.0), op("producer_byte_rate", 2.0)))

    message = "Duplicate quota key producer_byte_rate not updating quota for this entity"
    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, message)]
    assert outcome.records == ()


@pytest.mark.spec("Q11")
def test_an_entity_given_twice_is_rejected_once_whatever_the_order_of_its_parts() -> None:
    outcome = altered(
        entry([("user", "a"), ("client-id", "c")], op("producer_byte_rate", 1.0)),
        entry([("client-id", "c"), ("user", "a")], op("producer_byte_rate", 2.0)),
    )

    assert errors(outcome) == [(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity")]
    assert outcome.records == ()


IN_FORCE = image_of(
    quota_record("producer_byte_rate", 1000.0, user="alice"),
    quota_record("consumer_byte_rate", 2000.0, user="alice"),
)


@pytest.mark.spec("Q8")
def test_only_what_changes_is_written() -> None:
    outcome = altered(
        entry(
            ALICE,
            op("producer_byte_rate", 1000.0),
            op("consumer_byte_rate", None),
            op("request_percentage", None),
            op("controller_mutation_rate", 0.5),
        ),
        image=IN_FORCE,
    )

    assert errors(outcome) == [(0, None)]
    assert list(outcome.records) == [
        quota_record("consumer_byte_rate", 0.0, remove=True, user="alice"),
        quota_record("controller_mutation_rate", 0.5, user="alice"),
    ]


@pytest.mark.spec("Q11")
def test_validate_only_finds_faults_and_writes_nothing() -> None:
    outcome = altered(
        entry(ALICE, op("producer_byte_rate", 5.0)),
        entry([("user", "bob")], op("producer_byte_rate", -5.0)),
        validate_only=True,
    )

    assert [code for code, _ in errors(outcome)] == [0, ErrorCode.INVALID_REQUEST]
    assert outcome.records == ()
