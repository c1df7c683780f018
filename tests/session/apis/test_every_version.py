"""Whatever a client asks in whatever version: what is sent on and what is told fits that version."""

from random import Random
from typing import Any

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.table import TABLE, rejection
from proxy.session.call import Respond
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request as request_schema
from proxy.wire.catalog import response as response_schema
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import Asking
from tests.support.wire_messages import MessageFiller

VERSIONS = [(key, version) for key in sorted(TABLE) for version in codecs.request_versions(key)]

EVERYTHING = [f"ALL {kind.name} *" for kind in ResourceType if kind >= ResourceType.TOPIC]
NO_TOPICS = [right for right in EVERYTHING if "TOPIC" not in right]
NO_CLUSTER = [f"DENY {operation.name} CLUSTER kafka-cluster" for operation in Operation if operation > 2]
RIGHTS: dict[str, list[str]] = {
    "nothing": [],
    "everything": EVERYTHING,
    "no topics": NO_TOPICS,
    "no cluster": EVERYTHING + NO_CLUSTER,
}


def named(pair: tuple[int, int]) -> str:
    return f"{ApiKey.name_of(pair[0])}-v{pair[1]}"


def legible(request: Any) -> Any:
    """With numbers of ACLs that somebody knows: with others a request cannot be read."""
    numbers = ("resource_type", "resource_pattern_type", "resource_type_filter", "pattern_type_filter")
    for part in (request, *getattr(request, "creations", ()), *getattr(request, "filters", ())):
        for attribute in (*numbers, "operation", "permission_type"):
            if hasattr(part, attribute):
                setattr(part, attribute, 3)
    return request


@pytest.mark.spec("A7")
@pytest.mark.parametrize("rights", RIGHTS.values(), ids=RIGHTS)
@pytest.mark.parametrize("pair", VERSIONS, ids=named)
def test_any_request_is_answered_or_sent_on_in_its_version(pair: tuple[int, int], rights: list[str]) -> None:
    key, version = pair
    filler = MessageFiller(Random(f"{key}/{version}"))
    asking = Asking(key, version, *rights).where_it_can_ask()

    for _ in range(8):
        asked = asking.for_(legible(filler.message(request_schema(key).name, version)))
        asked = asked.settled(lambda key, version: filler.message(response_schema(key).name, version))
        if isinstance(asked.verdict, Respond):
            assert asked.answer is not None
        else:
            assert asked.forwarded is not None
            assert asked.told(filler.message(response_schema(key).name, version)) is not None


@pytest.mark.spec("A7")
@pytest.mark.parametrize("pair", VERSIONS, ids=named)
def test_any_request_can_be_refused_as_a_whole(pair: tuple[int, int]) -> None:
    key, version = pair
    request = MessageFiller(Random(f"{key}/{version}")).message(request_schema(key).name, version)

    response = rejection(key, version, request, ErrorCode.UNKNOWN_SERVER_ERROR, "not today")

    assert codes_in(roundtrip(key, version, response)) <= {ErrorCode.UNKNOWN_SERVER_ERROR}


def roundtrip(key: int, version: int, response: Any) -> Any:
    codec = codecs.response(key, version)
    return codec.decode_exactly(codec.encode(response))


def codes_in(message: Any) -> set[int]:
    """Every error code of a message and of all that is in it, but not those of a field the version lacks."""
    found = set()
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name.endswith("error_code") and value != ErrorCode.NONE:
            found.add(value)
        elif isinstance(value, list):
            found |= {code for part in value if hasattr(type(part), "__slots__") for code in codes_in(part)}
    return found


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("api_key", "rights", "request_"),
    [
        (
            ApiKey.FIND_COORDINATOR,
            ("DESCRIBE GROUP team",),
            t.FindCoordinatorRequest(coordinator_keys=["team", "others"]),
        ),
        (
            ApiKey.DESCRIBE_TRANSACTIONS,
            ("DESCRIBE TRANSACTIONAL_ID mine",),
            t.DescribeTransactionsRequest(transactional_ids=["mine", "others"]),
        ),
        (
            ApiKey.DELETE_TOPICS,
            ("DELETE TOPIC orders",),
            t.DeleteTopicsRequest(
                topics=[t.DeleteTopicsRequest.DeleteTopicState(name=name) for name in ("orders", "secrets")]
            ),
        ),
    ],
)
def test_what_is_left_of_a_request_has_its_unknown_fields(
    api_key: int, rights: tuple[str, ...], request_: Any
) -> None:
    request_.unknown_tags = {5_000: b"later"}
    asking = Asking(api_key, codecs.request_versions(api_key)[-1], *rights)

    assert asking.for_(request_).forwarded.unknown_tags == {5_000: b"later"}
