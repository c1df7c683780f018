"""ACLs with an end in CreateAcls and DescribeAcls."""

from typing import Any

import pytest

from proxy.metadata.acl import (
    UNTIL_TAG,
    ResourceType,
    end_of_tags,
    tags_of_end,
)
from proxy.metadata.delta import without_ended
from proxy.session.call import ForwardToController, Respond
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.errors import WireError
from tests.session.apis.asking import CLUSTER_RIGHT, Asking
from tests.session.conversation import Conversation
from tests.support.acl_filters import describe_acls
from tests.support.controllers import acl_creation
from tests.support.images import acl_record, image_of

pytestmark = pytest.mark.spec("A11")

CREATE, DESCRIBE = ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS
END_MS = 1_801_418_400_000
END_TEXT = "2027-01-31T18:00:00.000Z"
MAY_ALTER = f"ALTER {CLUSTER_RIGHT}"


def creation(until_ms: int | None = None, **changes: Any) -> Any:
    return acl_creation("orders", "User:bob", **({"unknown_tags": tags_of_end(until_ms)} | changes))


def existing(until_ms: int | None, number: int = 900) -> Any:
    record = acl_record(number, "orders", principal="User:bob")
    record.unknown_tags = tags_of_end(until_ms)
    return record


@pytest.mark.parametrize("version", [2, 3])
def test_a_creation_with_an_end_is_forwarded_with_it(version: int) -> None:
    asked = Asking(CREATE, version, MAY_ALTER).for_(t.CreateAclsRequest(creations=[creation(END_MS)]))

    assert isinstance(asked.verdict, ForwardToController)
    (forwarded,) = asked.verdict.message.creations
    assert end_of_tags(forwarded.unknown_tags) == END_MS


@pytest.mark.parametrize("raw", [tags_of_end(END_MS), {UNTIL_TAG: b""}], ids=["valid", "malformed"])
def test_kafkas_controller_is_sent_no_creation_with_an_end(raw: dict[int, bytes]) -> None:
    asking = Asking(CREATE, 3, MAY_ALTER)
    asking.gate.ends_acls = False

    alone = asking.for_(t.CreateAclsRequest(creations=[creation(unknown_tags=raw)]))
    beside = asking.for_(t.CreateAclsRequest(creations=[creation(unknown_tags=raw), creation()]))

    assert isinstance(alone.verdict, Respond)
    (result,) = alone.answer.results
    assert (result.error_code, "controller is Kafka's" in result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        True,
    )
    assert isinstance(beside.verdict, ForwardToController)
    assert [each.unknown_tags for each in beside.verdict.message.creations] == [None]
    made = t.CreateAclsResponse(results=[t.CreateAclsResponse.AclCreationResult()])
    assert [each.error_code for each in beside.told(made).results] == [ErrorCode.INVALID_REQUEST, 0]


def test_a_creation_with_two_ends_cannot_be_read() -> None:
    codec = codecs.request(CREATE, 3)
    body = codec.encode(t.CreateAclsRequest(creations=[creation(END_MS)]))
    at = body.rindex(b"\x01\x90\x4e\x08")
    twice = body[:at] + b"\x02" + body[at + 1 : at + 12] + body[at + 1 :]

    with pytest.raises(WireError, match="tagged field 10000 is there twice"):
        codec.decode_exactly(twice)


@pytest.mark.parametrize("version", codecs.request_versions(DESCRIBE))
def test_acls_are_described_with_their_ends_to_clients_whose_version_has_tagged_fields(version: int) -> None:
    asking = Asking(DESCRIBE, version, f"DESCRIBE {CLUSTER_RIGHT}", base=image_of(existing(END_MS)))

    wanted = describe_acls(resource_type_filter=ResourceType.TOPIC)
    (resource,) = asking.for_(wanted).answer.resources
    (described,) = resource.acls

    assert end_of_tags(described.unknown_tags) == (END_MS if version >= 2 else None)
    assert asking.for_(wanted).answer.unknown_tags == ({UNTIL_TAG: b""} if version >= 2 else None)
    asking.gate.ends_acls = False
    assert asking.for_(wanted).answer.unknown_tags is None

    asking.image = without_ended(asking.image, END_MS)
    assert asking.for_(wanted).answer.resources == []


def test_of_two_acls_that_differ_by_their_end_the_later_one_is_described() -> None:
    def described(*ends: int | None) -> int | None:
        records = [existing(end, 900 + number) for number, end in enumerate(ends)]
        asking = Asking(DESCRIBE, 3, f"DESCRIBE {CLUSTER_RIGHT}", base=image_of(*records))
        (resource,) = asking.for_(describe_acls(resource_type_filter=ResourceType.TOPIC)).answer.resources
        (acl,) = resource.acls
        return end_of_tags(acl.unknown_tags)

    assert described(END_MS, END_MS + 5, END_MS + 1) == END_MS + 5
    assert described(END_MS, None, END_MS + 1) is None
    assert described(-1) == -1


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    ("before", "until_ms", "named"),
    [
        ((), None, {}),
        ((), END_MS, {"key": "until", "new_value": END_TEXT}),
        ((None,), END_MS, {"key": "until", "old_value": "never", "new_value": END_TEXT}),
        ((END_MS,), END_MS, {"key": "until", "old_value": END_TEXT, "new_value": END_TEXT}),
        ((END_MS,), None, {"key": "until", "old_value": END_TEXT, "new_value": "never"}),
        (
            (END_MS - 1,),
            END_MS,
            {"key": "until", "old_value": "2027-01-31T17:59:59.999Z", "new_value": END_TEXT},
        ),
    ],
)
def test_the_record_names_the_end_before_and_after(
    before: tuple[int | None, ...], until_ms: int | None, named: dict[str, str]
) -> None:
    talk = Conversation(MAY_ALTER)
    talk.gate.image = image_of(*map(existing, before), base=talk.gate.image or image_of())

    talk.asks(CREATE, 3, t.CreateAclsRequest(creations=[creation(until_ms)]))
    talk.controller_answers(t.CreateAclsResponse(results=[t.CreateAclsResponse.AclCreationResult()]))

    (event,) = talk.told("forwarded")
    (found,) = event.objects or ()
    assert {key: value for key, value in found.items() if key in ("key", "old_value", "new_value")} == named
