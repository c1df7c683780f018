"""Topics that Metadata asks after and that are missing, where our controller makes them: who is asked."""

import pytest

from proxy.security.principal import Principal, deserialize
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import produce, produced
from tests.session.topic_creation import (
    CREATE_TOPICS,
    CREATOR,
    METADATA,
    UNKNOWN,
    answered,
    finds_missing,
    heard,
    id_of,
    made,
    metadata,
    passed_on,
    question,
    talking,
    to_be_made,
    wanted,
)

pytestmark = pytest.mark.spec("E9")

PRODUCE = ApiKey.PRODUCE
DENIED, VIOLATION = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("version", [4, 9, 13])
def test_a_missing_topic_is_made_by_the_controller_as_the_client_asked_it_to(version: int) -> None:
    talk = talking()

    finds_missing(talk, version, "new")
    asked = talk.controller[-1]
    assert deserialize(asked.principal) == Principal("User", "alice")
    assert (asked.correlation_id, asked.client_id) == (talk.correlation_id, "app")
    assert asked.client_address == bytes([10, 0, 0, 1])
    assert talk.forwarded() == [], "the broker waits for the controller"
    talk.controller_answers(made(new=0))

    assert passed_on(talk) == (["new"], False)
    talk.answers(METADATA, version, metadata(version, new=0))
    assert heard(talk, version) == {"new": 0}
    (event,) = talk.told("forwarded")
    assert (event.method, event.api_version, event.error_code) == ("CreateTopics", asked.api_version, 0)
    assert (event.principal, event.correlation_id) == ("User:alice", talk.correlation_id)
    assert event.request_bytes is None, "the client has asked for no topic to be made"
    assert len(talk.session.pipeline) == 0


@pytest.mark.parametrize(("version", "told"), [(4, DENIED), (9, DENIED), (10, VIOLATION), (13, VIOLATION)])
def test_a_topic_that_a_policy_refuses_is_told_as_each_version_can(version: int, told: int) -> None:
    talk = talking()

    finds_missing(talk, version, "bad", "good")
    talk.controller_answers(made(bad=VIOLATION, good=0))
    assert passed_on(talk) == (["bad", "good"], False)
    talk.answers(METADATA, version, metadata(version, bad=UNKNOWN, good=0))

    assert heard(talk, version) == {"bad": told, "good": 0}
    assert talk.told("forwarded")[0].error_code == VIOLATION


@pytest.mark.parametrize(
    ("code", "at_the_broker", "told"),
    [
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, UNKNOWN, UNKNOWN),
        (ErrorCode.INVALID_REPLICATION_FACTOR, UNKNOWN, UNKNOWN),
        (ErrorCode.REQUEST_TIMED_OUT, UNKNOWN, UNKNOWN),
        (DENIED, UNKNOWN, DENIED),
        pytest.param(ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0, id="somebody else has made it meanwhile"),
        pytest.param(0, UNKNOWN, UNKNOWN, id="the broker has not heard of it yet"),
    ],
)
def test_the_client_hears_what_became_of_its_topic(code: int, at_the_broker: int, told: int) -> None:
    talk = talking()

    finds_missing(talk, 12, "new")
    talk.controller_answers(made(new=code))
    assert passed_on(talk) == (["new"], False)
    talk.answers(METADATA, 12, metadata(12, new=at_the_broker))

    assert heard(talk, 12) == {"new": told}
    assert talk.mutes == []


@pytest.mark.parametrize("code", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR])
@pytest.mark.parametrize("close", [False, True], ids=["not reached", "speaks another version"])
def test_without_an_answer_of_the_controller_nothing_is_made(code: ErrorCode, close: bool) -> None:
    talk = talking()

    finds_missing(talk, 12, "new")
    talk.controller_answers(error_code=code, close=close)
    assert passed_on(talk) == (["new"], False)
    talk.answers(METADATA, 12, metadata(12, new=UNKNOWN))

    assert heard(talk, 12) == {"new": UNKNOWN}
    assert talk.closed is None
    assert talk.told("forwarded")[0].envelope_error_code == code


@pytest.mark.parametrize("offered", [None, (2, 3)])
def test_nothing_is_made_where_the_controller_does_not_serve_it(offered: tuple[int, int] | None) -> None:
    talk = talking()
    talk.gate.versions = dict(talk.gate.versions)
    del talk.gate.versions[CREATE_TOPICS]
    if offered is not None:
        talk.gate.versions[CREATE_TOPICS] = offered

    talk.asks(METADATA, 12, wanted("new"))
    assert question(talk) == (["new"], False)
    answered(talk, new=UNKNOWN)
    assert passed_on(talk) == (["new"], False)
    talk.answers(METADATA, 12, metadata(12, new=UNKNOWN))

    assert talk.controller == []
    assert heard(talk, 12) == {"new": UNKNOWN}


def test_an_answer_of_the_controller_that_cannot_be_read_ends_the_connection() -> None:
    talk = talking()

    finds_missing(talk, 12, "new")
    talk.controller_answers(body=b"\xff")

    assert talk.close_reason == "controller_protocol"
    assert talk.forwarded() == []


def test_topics_that_are_known_cost_no_question_and_the_broker_is_not_to_make_them() -> None:
    talk = talking()

    talk.asks(METADATA, 12, wanted("orders", "payments"))

    assert passed_on(talk) == (["orders", "payments"], False)
    assert talk.controller == []


def test_a_known_topic_that_is_gone_is_made_when_the_client_asks_again() -> None:
    talk = talking()

    talk.asks(METADATA, 12, wanted("orders"))
    assert passed_on(talk) == (["orders"], False)
    talk.answers(METADATA, 12, metadata(12, orders=UNKNOWN))
    assert heard(talk, 12) == {"orders": UNKNOWN}
    finds_missing(talk, 12, "orders")
    talk.controller_answers(made(orders=0))

    assert passed_on(talk) == (["orders"], False)


def test_a_topic_that_turned_out_to_exist_is_asked_about_once() -> None:
    talk = talking()

    talk.asks(METADATA, 5, wanted("old"))
    assert question(talk) == (["old"], False)
    answered(talk, old=0)
    assert passed_on(talk) == (["old"], False)
    talk.answers(METADATA, 5, metadata(5, old=0))
    assert heard(talk, 5) == {"old": 0}
    talk.asks(METADATA, 5, wanted("old"))

    assert passed_on(talk) == (["old"], False)
    assert talk.controller == []


@pytest.mark.parametrize("version", [0, 1, 3])
def test_versions_without_the_switch_have_the_broker_list_all_which_makes_nothing(version: int) -> None:
    talk = talking()

    finds_missing(talk, version, "bad", "good")
    talk.controller_answers(made(bad=VIOLATION, good=0))

    assert passed_on(talk)[0] == ([] if version == 0 else None)
    talk.answers(METADATA, version, metadata(version, other=0, good=0))
    assert heard(talk, version) == {"bad": DENIED, "good": 0}


@pytest.mark.parametrize("version", [4, 12])
def test_each_name_of_a_mixed_request_gets_what_is_due_to_it(version: int) -> None:
    talk = talking("DESCRIBE TOPIC *", "DENY DESCRIBE TOPIC hidden", "CREATE TOPIC m*", "CREATE TOPIC no!")
    names = ("orders", "hidden", "hers", "mine", "mybad", "mythere", "no!")

    talk.asks(METADATA, version, wanted(*names))
    assert question(talk) == (["mine", "mybad", "mythere"], False)
    answered(talk, mine=UNKNOWN, mybad=UNKNOWN, mythere=0)
    assert to_be_made(talk) == ["mine", "mybad"]
    talk.controller_answers(made(mine=0, mybad=VIOLATION))
    assert passed_on(talk) == (["orders", "hers", "mine", "mybad", "mythere", "no!"], False)
    invalid = {"no!": int(ErrorCode.INVALID_TOPIC_EXCEPTION)}
    talk.answers(
        METADATA,
        version,
        metadata(version, orders=0, hers=UNKNOWN, mine=0, mybad=UNKNOWN, mythere=0, **invalid),
    )

    assert heard(talk, version) == {
        "orders": 0,
        "hidden": DENIED,
        "hers": DENIED,
        "mine": 0,
        "mybad": VIOLATION if version >= 10 else DENIED,
        "mythere": 0,
        **invalid,
    }
    denied = [(event.operation, event.resource_name) for event in talk.events if event.granted is False]
    assert denied == [("DESCRIBE", "hidden"), ("CREATE", "hers")]


def test_kafkas_own_topics_are_made_by_the_broker() -> None:
    talk = talking()

    talk.asks(METADATA, 12, wanted("__consumer_offsets", "new"))
    assert question(talk) == (["__consumer_offsets"], True)
    answered(talk, __consumer_offsets=UNKNOWN)
    assert question(talk) == (["new"], False)
    answered(talk, new=UNKNOWN)
    assert to_be_made(talk) == ["new"]
    talk.controller_answers(made(new=0))

    assert passed_on(talk) == (["__consumer_offsets", "new"], False)


@pytest.mark.parametrize("rights", [("DESCRIBE TOPIC *",), ("CREATE CLUSTER kafka-cluster",)])
def test_without_both_rights_no_one_is_asked_about_the_topic(rights: tuple[str, ...]) -> None:
    talk = talking(*rights)

    talk.asks(METADATA, 12, wanted("new"))

    assert all(r.header.correlation_id == talk.correlation_id for r in talk.forwarded())
    assert talk.controller == []


def test_a_client_that_does_not_ask_for_it_has_nothing_made() -> None:
    talk = talking()

    talk.asks(METADATA, 12, wanted("new", create=False))

    assert passed_on(talk) == (["new"], False)


@pytest.mark.parametrize(("version", "may_make"), [(3, True), (4, False), (13, False)])
def test_a_broker_that_does_not_tell_whether_it_makes_topics_is_told_not_to(
    version: int, may_make: bool
) -> None:
    talk = talking(creates=False)

    talk.asks(METADATA, version, wanted("new"))

    assert passed_on(talk) == (["new"], may_make)


def test_with_kafkas_controller_the_broker_makes_topics_as_ever() -> None:
    talk = talking()
    talk.gate.creates_topics_at_controller = False

    talk.asks(METADATA, 12, wanted("new"))

    assert passed_on(talk) == (["new"], True)


def test_requests_before_and_after_are_answered_in_their_order() -> None:
    talk = talking(*CREATOR, "WRITE TOPIC orders")
    first = talk.asks(PRODUCE, 9, produce("orders"))
    talk.forwarded()
    second = talk.asks(METADATA, 12, wanted("new"))
    third = talk.asks(PRODUCE, 9, produce("orders"))
    assert question(talk) == (["new"], False)

    talk.answers(PRODUCE, 9, produced("orders"), first)
    answered(talk, new=UNKNOWN)
    assert talk.forwarded() == [], "while the controller has it, nothing else is taken"
    # `talk` keeps the number of the last request, and the controller was asked for the one before.
    assert talk.controller[-1].correlation_id == second
    talk.controller_answers(made(new=0))
    assert [request.header.correlation_id for request in talk.forwarded()] == [second, third]
    talk.answers(METADATA, 12, metadata(12, new=0), second)
    talk.answers(PRODUCE, 9, produced("orders"), third)

    answers = talk.heard_all((PRODUCE, 9), (METADATA, 12), (PRODUCE, 9))
    assert [correlation_id for correlation_id, _ in answers] == [first, second, third]


def test_a_client_that_cannot_be_named_to_the_controller_gets_its_answer_without_the_topic() -> None:
    class Nameless:
        def serialize(self, principal: Principal) -> bytes:
            raise ValueError("no name for it")

        def deserialize(self, data: bytes) -> Principal:
            raise NotImplementedError

    talk = talking()
    talk.gate.serde = Nameless()

    talk.asks(METADATA, 12, wanted("new"))
    assert question(talk) == (["new"], False)
    answered(talk, new=UNKNOWN)
    assert passed_on(talk) == (["new"], False)
    talk.answers(METADATA, 12, metadata(12, new=UNKNOWN))

    assert heard(talk, 12) == {"new": UNKNOWN}
    (event,) = talk.told("request_refused")
    assert (event.method, event.message) == ("CreateTopics", "no name for it")


def test_a_topic_that_a_broker_did_not_know_for_a_moment_is_known_again_by_the_same_id() -> None:
    talk = talking()
    talk.gate.topic_names.learn(id_of("slow"), "slow")

    talk.asks(METADATA, 12, wanted("slow"))
    assert passed_on(talk) == (["slow"], False)
    talk.answers(METADATA, 12, metadata(12, slow=UNKNOWN))
    talk.asks(METADATA, 12, wanted("slow"))
    assert question(talk) == (["slow"], False)
    answered(talk, slow=0)
    assert passed_on(talk) == (["slow"], False)
    talk.answers(METADATA, 12, metadata(12, slow=0))
    talk.asks(METADATA, 12, wanted("slow"))

    assert passed_on(talk) == (["slow"], False)
    assert talk.gate.topic_names.name(id_of("slow")) == "slow"
