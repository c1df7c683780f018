"""SCRAM credentials with an end in AlterUserScramCredentials and DescribeUserScramCredentials."""

from typing import Any

import pytest

from proxy.metadata.acl import UNTIL_TAG, end_of_tags, tags_of_end
from proxy.session.call import ForwardToController, Respond
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asking
from tests.support.images import image_of, scram_record

pytestmark = pytest.mark.spec("A11")

ALTER, DESCRIBE = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
END_MS = 1_801_418_400_000


def upsertion(tags: dict[int, bytes] | None) -> t.AlterUserScramCredentialsRequest:
    request = t.AlterUserScramCredentialsRequest
    new = request.ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p", unknown_tags=tags
    )
    return request(upsertions=[new])


def test_an_end_is_forwarded_and_named_in_the_record() -> None:
    asked = Asking(ALTER, 0, f"ALTER {CLUSTER_RIGHT}").for_(upsertion(tags_of_end(END_MS)))

    assert isinstance(asked.verdict, ForwardToController)
    (forwarded,) = asked.verdict.message.upsertions
    assert end_of_tags(forwarded.unknown_tags) == END_MS
    assert asked.call.api is not None
    assert asked.call.api.objects is not None
    (named,) = asked.call.api.objects(asked.verdict.message, None, asked.call.gate)
    assert named["details"] == {"mechanism": "SCRAM-SHA-256", "until": "2027-01-31T18:00:00.000Z"}


@pytest.mark.parametrize("tags", [tags_of_end(END_MS), {UNTIL_TAG: b""}], ids=["valid", "malformed"])
@pytest.mark.parametrize(
    ("rights", "error"),
    [([f"ALTER {CLUSTER_RIGHT}"], ErrorCode.INVALID_REQUEST), ([], ErrorCode.CLUSTER_AUTHORIZATION_FAILED)],
)
def test_kafkas_controller_is_sent_no_end(tags: Any, rights: list[str], error: ErrorCode) -> None:
    asking = Asking(ALTER, 0, *rights)
    asking.gate.ends_acls = False

    asked = asking.for_(upsertion(tags))

    assert isinstance(asked.verdict, Respond)
    assert [(each.user, each.error_code) for each in asked.answer.results] == [("bob", error)]


@pytest.mark.parametrize("knows_ends", [True, False])
def test_a_description_has_the_end_and_says_whether_the_cluster_knows_any(knows_ends: bool) -> None:
    ending = scram_record("bob")
    ending.unknown_tags = tags_of_end(END_MS)
    asking = Asking(DESCRIBE, 0, f"DESCRIBE {CLUSTER_RIGHT}", base=image_of(ending, scram_record("al")))
    asking.gate.ends_acls = knows_ends

    answer = asking.for_(t.DescribeUserScramCredentialsRequest(users=None)).answer

    assert (UNTIL_TAG in (answer.unknown_tags or {})) == knows_ends
    ends = [(each.user, end_of_tags(each.credential_infos[0].unknown_tags)) for each in answer.results]
    assert ends == [("al", None), ("bob", END_MS)]
