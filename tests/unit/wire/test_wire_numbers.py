"""Kafka's numbers by name: API keys and error codes."""

import pytest

from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

pytestmark = pytest.mark.tooling


def test_api_keys_are_those_of_the_schemas() -> None:
    names = {key: catalog.request(key).name.removesuffix("Request") for key in catalog.live_api_keys()}

    assert {int(key): ApiKey.name_of(key) for key in ApiKey} == names
    assert {key.name for key in ApiKey} >= {
        "API_VERSIONS",
        "SASL_HANDSHAKE",
        "ENVELOPE",
        "OFFSET_FOR_LEADER_EPOCH",
    }


def test_unknown_numbers_have_a_name_to_be_shown_by() -> None:
    assert (ApiKey.name_of(58), ApiKey.name_of(4), ApiKey.name_of(999)) == (
        "Envelope",
        "Unknown(4)",
        "Unknown(999)",
    )
    assert (ErrorCode.name_of(41), ErrorCode.name_of(999)) == ("NOT_CONTROLLER", "Unknown(999)")


def test_error_codes_have_no_gap() -> None:
    assert sorted(ErrorCode) == list(range(-1, 137))


def test_error_codes_tell_whether_a_client_tries_again() -> None:
    assert ErrorCode.NOT_CONTROLLER.retriable
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED.retriable
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.CLUSTER_AUTHORIZATION_FAILED.retriable
