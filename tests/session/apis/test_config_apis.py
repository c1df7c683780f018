"""Configs described and altered: under whose right each resource stands, and who carries the change out."""

from typing import Any

import pytest

from proxy.session.apis.configs import RIGHTS_CHANGED
from proxy.session.call import Forward, ForwardToController
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import CLUSTER_RIGHT, Asked, Asking, image_with
from tests.session.conversation import Conversation

pytestmark = pytest.mark.spec("A7")

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
INVALID = ErrorCode.INVALID_REQUEST
ERRORS = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    BROKER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    LOGGER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    METRICS: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
ALTER_APIS = [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS]
ALTERS = [pytest.param(k, v, id=f"{k.name}-v{v}") for k in ALTER_APIS for v in codecs.request_versions(k)]

Resource = tuple[int, str]


def described(*resources: Resource) -> Any:
    struct = t.DescribeConfigsRequest.DescribeConfigsResource
    return t.DescribeConfigsRequest(
        resources=[struct(resource_type=kind, resource_name=name) for kind, name in resources]
    )


def results(parts: list[Any]) -> list[tuple[int, str, int]]:
    return [(part.resource_type, part.resource_name, part.error_code) for part in parts]


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_CONFIGS))
def test_denied_resources_are_put_back_with_the_error_of_their_kind(version: int) -> None:
    rights = ("DESCRIBE_CONFIGS TOPIC a", "ALTER_CONFIGS GROUP team")
    asked = Asking(ApiKey.DESCRIBE_CONFIGS, version, *rights).for_(
        described((BROKER, "1"), (TOPIC, "a"), (TOPIC, "b"), (GROUP, "team"), (GROUP, "x"), (METRICS, "m"))
    )

    assert [(r.resource_type, r.resource_name) for r in asked.forwarded.resources] == [
        (TOPIC, "a"),
        (GROUP, "team"),
    ]
    result = t.DescribeConfigsResponse.DescribeConfigsResult
    broker_answers = [
        result(resource_type=GROUP, resource_name="team"),
        result(resource_type=TOPIC, resource_name="a"),
    ]
    told = asked.told(t.DescribeConfigsResponse(results=broker_answers))
    assert results(told.results) == [
        (BROKER, "1", ERRORS[BROKER]),
        (TOPIC, "a", 0),
        (TOPIC, "b", ERRORS[TOPIC]),
        (GROUP, "team", 0),
        (GROUP, "x", ERRORS[GROUP]),
        (METRICS, "m", ERRORS[METRICS]),
    ]
    assert told.results[2].error_message == "Topic authorization failed."


@pytest.mark.parametrize("kind", [BROKER, LOGGER, METRICS])
def test_brokers_loggers_and_metrics_stand_under_the_cluster(kind: int) -> None:
    asking = Asking(ApiKey.DESCRIBE_CONFIGS, 4, f"DESCRIBE_CONFIGS {CLUSTER_RIGHT}")

    assert asking.for_(described((kind, "1"))).passes_unread
    assert asking.for_(described((TOPIC, "a"))).answer.results[0].error_code == ERRORS[TOPIC]


def test_a_resource_of_an_unknown_type_fails_the_whole_request() -> None:
    answer = Asking(ApiKey.DESCRIBE_CONFIGS, 4, "ALL TOPIC *").for_(described((TOPIC, "a"), (3, "x"))).answer

    assert results(answer.results) == [(TOPIC, "a", INVALID), (3, "x", INVALID)]


def alteration(key: ApiKey, *resources: Resource, configs: tuple[tuple[str, str | None], ...] = ()) -> Any:
    request: Any = t.AlterConfigsRequest if key == ApiKey.ALTER_CONFIGS else t.IncrementalAlterConfigsRequest
    return request(
        resources=[
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[request.AlterableConfig(name=config, value=value) for config, value in configs],
            )
            for kind, name in resources
        ],
        validate_only=True,
    )


def altered(key: ApiKey, *resources: Resource) -> Any:
    response: Any = (
        t.AlterConfigsResponse if key == ApiKey.ALTER_CONFIGS else t.IncrementalAlterConfigsResponse
    )
    struct = response.AlterConfigsResourceResponse
    return response(responses=[struct(resource_type=kind, resource_name=name) for kind, name in resources])


def left(asked: Asked) -> list[Resource]:
    return [(part.resource_type, part.resource_name) for part in asked.forwarded.resources]


@pytest.mark.spec("E2", "E3")
@pytest.mark.parametrize(("key", "version"), ALTERS)
def test_resources_that_may_not_be_altered_are_put_back(key: ApiKey, version: int) -> None:
    asked = Asking(key, version, "ALTER_CONFIGS TOPIC b", "ALTER_CONFIGS GROUP team").for_(
        alteration(key, (TOPIC, "a"), (TOPIC, "b"), (BROKER, ""), (GROUP, "team"), (METRICS, "m"))
    )

    assert isinstance(asked.verdict, ForwardToController)
    assert left(asked) == [(TOPIC, "b"), (GROUP, "team")]
    assert asked.forwarded.validate_only
    told = asked.told(altered(key, (GROUP, "team"), (TOPIC, "b")))
    assert results(told.responses) == [
        (TOPIC, "a", ERRORS[TOPIC]),
        (TOPIC, "b", 0),
        (BROKER, "", ERRORS[BROKER]),
        (GROUP, "team", 0),
        (METRICS, "m", ERRORS[METRICS]),
    ]


@pytest.mark.parametrize(("key", "version"), ALTERS)
def test_with_nothing_left_to_alter_nobody_is_asked(key: ApiKey, version: int) -> None:
    answer = Asking(key, version).for_(alteration(key, (TOPIC, "b"), (TOPIC, "a"))).answer

    assert results(answer.responses) == [(TOPIC, "b", ERRORS[TOPIC]), (TOPIC, "a", ERRORS[TOPIC])]


@pytest.mark.parametrize(("key", "version"), ALTERS)
def test_a_resource_named_twice_or_of_no_type_is_invalid_before_it_is_denied(
    key: ApiKey, version: int
) -> None:
    asked = Asking(key, version).for_(alteration(key, (TOPIC, "a"), (3, "x"), (TOPIC, "a")))

    assert results(asked.answer.responses) == [
        (TOPIC, "a", INVALID),
        (3, "x", INVALID),
        (TOPIC, "a", INVALID),
    ]
    assert asked.denials == []


@pytest.mark.parametrize("key", ALTER_APIS)
@pytest.mark.parametrize("configs", [(("k", "1"), ("k", "2")), (("k", None),)])
def test_config_keys_named_twice_or_without_a_value_are_invalid(
    key: ApiKey, configs: tuple[tuple[str, str | None], ...]
) -> None:
    asked = Asking(key, 1, "ALL TOPIC *").for_(alteration(key, (TOPIC, "a"), configs=configs))

    assert results(asked.answer.responses) == [(TOPIC, "a", INVALID)]


def test_a_config_key_that_is_deleted_needs_no_value() -> None:
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    request = alteration(key, (TOPIC, "a"), configs=(("k", None),))
    request.resources[0].configs[0].config_operation = 1

    assert left(Asking(key, 1, "ALL TOPIC *").for_(request)) == [(TOPIC, "a")]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [((BROKER, ""), ForwardToController), ((BROKER, "1"), Forward), ((LOGGER, "1"), Forward)],
)
def test_what_one_broker_has_to_look_at_goes_to_the_broker_behind_us(
    resource: Resource, expected: type
) -> None:
    asking = Asking(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, f"ALTER_CONFIGS {CLUSTER_RIGHT}")

    asked = asking.for_(alteration(ApiKey.INCREMENTAL_ALTER_CONFIGS, resource))

    assert isinstance(asked.verdict, expected)
    assert left(asked) == [resource]


def test_loggers_are_unknown_to_the_old_way_of_altering_configs() -> None:
    asking = Asking(ApiKey.ALTER_CONFIGS, 1, f"ALTER_CONFIGS {CLUSTER_RIGHT}")

    answer = asking.for_(alteration(ApiKey.ALTER_CONFIGS, (LOGGER, "1"))).answer

    assert results(answer.responses) == [(LOGGER, "1", INVALID)]


MIXED = (TOPIC, "a"), (BROKER, "1"), (TOPIC, "secrets"), (BROKER, "")
CONFIGS_RIGHTS = f"ALTER_CONFIGS {CLUSTER_RIGHT}", "ALTER_CONFIGS TOPIC a"


@pytest.mark.spec("E2", "E4", "D12")
@pytest.mark.parametrize(("key", "version"), ALTERS)
@pytest.mark.parametrize("policy", [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION])
def test_what_one_broker_has_to_look_at_takes_nothing_else_past_the_controller(
    key: ApiKey, version: int, policy: ErrorCode
) -> None:
    talk = Conversation(*CONFIGS_RIGHTS)
    talk.asks(key, version, alteration(key, *MIXED, configs=(("k", "v"),)))

    assert talk.forwarded() == []
    sent = codecs.request(key, version).decode_exactly(talk.controller[-1].body)
    assert [(each.resource_type, each.resource_name) for each in sent.resources] == [
        (TOPIC, "a"),
        (BROKER, ""),
    ]
    assert sent.validate_only
    response = altered(key, (TOPIC, "a"), (BROKER, ""))
    response.responses[0].error_code = policy
    talk.controller_answers(response)

    (request,) = talk.forwarded()
    of_broker = [(each.resource_type, each.resource_name) for each in request.message.resources]
    assert (of_broker, request.message.validate_only) == ([(BROKER, "1")], True)
    talk.answers(key, version, altered(key, (BROKER, "1")))
    assert results(talk.heard(key, version).responses) == [
        (TOPIC, "a", policy),
        (BROKER, "1", 0),
        (TOPIC, "secrets", ERRORS[TOPIC]),
        (BROKER, "", 0),
    ]
    named = [
        {(each["type"], each["name"]) for each in event.objects or ()}
        for event in talk.events
        if event.event in ("forwarded", "admin_request")
    ]
    assert named == [{("TOPIC", "a"), ("BROKER", "")}, {("BROKER", "1")}]


@pytest.mark.parametrize("key", ALTER_APIS)
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize("loggers", [(), ((LOGGER, "1"),)])
@pytest.mark.parametrize("rejected", [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION])
def test_what_fails_as_a_whole_fails_for_the_broker_too(
    key: ApiKey, code: ErrorCode, loggers: tuple[Resource, ...], rejected: ErrorCode
) -> None:
    """As on an operation that Kafka's controller does not know: a broker forwards its own configs with the
    rest, also if Penstock's has rejected a part of it before. Levels of its loggers it has set before."""
    loggers = loggers if key == ApiKey.INCREMENTAL_ALTER_CONFIGS else ()
    talk = Conversation(*CONFIGS_RIGHTS)
    talk.asks(key, 1, alteration(key, *MIXED, *loggers))
    of_topic = code
    if code == ErrorCode.UNKNOWN_SERVER_ERROR:
        of_topic = rejected or code
        response = altered(key, (TOPIC, "a"), (BROKER, ""))
        response.responses[0].error_code, response.responses[1].error_code = of_topic, code
        talk.controller_answers(response)
    else:
        talk.controller_answers(error_code=code)

    sent = [
        (each.resource_type, each.resource_name)
        for request in talk.forwarded()
        for each in request.message.resources
    ]
    assert sent == [*loggers]
    if loggers:
        talk.answers(key, 1, altered(key, *loggers))
    assert results(talk.heard(key, 1).responses) == [
        (TOPIC, "a", of_topic),
        (BROKER, "1", code),
        (TOPIC, "secrets", ERRORS[TOPIC]),
        (BROKER, "", code),
        *((*logger, 0) for logger in loggers),
    ]


def test_one_resource_that_the_controller_rejects_leaves_the_broker_its_part() -> None:
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    talk = Conversation(*CONFIGS_RIGHTS)
    talk.asks(key, 1, alteration(key, *MIXED))

    response = altered(key, (TOPIC, "a"), (BROKER, ""))
    response.responses[0].error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    talk.controller_answers(response)

    (request,) = talk.forwarded()
    assert [each.resource_name for each in request.message.resources] == ["1"]


@pytest.mark.spec("A4", "S2")
def test_no_config_of_a_broker_is_altered_by_a_right_that_has_ended_meanwhile() -> None:
    """Eight requests of one principal are on their way to the controller: it makes the ninth wait itself."""
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    talk = Conversation(*CONFIGS_RIGHTS)
    talk.asks(key, 1, alteration(key, *MIXED[:2]))

    talk.gate.image = image_with("ALTER_CONFIGS TOPIC a")
    talk.controller_answers(altered(key, (TOPIC, "a")))

    assert talk.forwarded() == []
    failed = (BROKER, "1", ErrorCode.UNKNOWN_SERVER_ERROR)
    assert results(talk.heard(key, 1).responses) == [(TOPIC, "a", 0), failed]
    (event,) = talk.told("request_refused")
    assert (event.message, event.error_code) == (RIGHTS_CHANGED, failed[2])


@pytest.mark.spec("D3")
@pytest.mark.parametrize("resources", [MIXED[1:2], MIXED])
def test_no_config_of_a_broker_is_altered_whose_record_could_not_be_kept(
    resources: tuple[Resource, ...],
) -> None:
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    talk = Conversation(*CONFIGS_RIGHTS)
    talk.gate.rejects_changes = True
    talk.asks(key, 1, alteration(key, *resources))
    if len(resources) > 1:
        talk.controller_answers(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)

    assert talk.forwarded() == []
    found = {(kind, name): code for kind, name, code in results(talk.heard(key, 1).responses)}
    assert found[BROKER, "1"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(found) == set(resources)
