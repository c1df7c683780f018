"""Owner and ACLs of a topic among its configs: who gets them in a response, and where nothing stores them."""

from typing import Any

import pytest

from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import AllowAll
from proxy.session.apis.configs import penstock_configs
from proxy.session.call import ForwardToController
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.apis.asking import Asking
from tests.support.images import acl_record, image_of
from tests.support.metadata_log import owned
from tests.support.topic_requests import create_topics

pytestmark = pytest.mark.spec("A6")

TOPIC, BROKER = 2, 4
OWNED = image_of(*owned("orders", "User:olga"), acl_record(9, "orders", principal="User:bob"))
RIGHTS = ("DESCRIBE_CONFIGS TOPIC orders", "ALTER_CONFIGS TOPIC orders", "CREATE TOPIC orders")
OWNER = ("owner", "User:olga")


def question(*names: str, keys: list[str] | None = None, **flags: Any) -> Any:
    request = t.DescribeConfigsRequest
    resources = [
        request.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
        for name in names
    ]
    return request(resources=resources, **flags)


def answered(*names: str, error_code: int = 0) -> Any:
    response = t.DescribeConfigsResponse
    config = response.DescribeConfigsResourceResult(name="retention.ms", value="1", config_source=5)
    return response(
        results=[
            response.DescribeConfigsResult(
                resource_type=TOPIC, resource_name=name, error_code=error_code, configs=[config]
            )
            for name in names
        ]
    )


def told(result: Any) -> list[tuple[str, str]]:
    return [(config.name, config.value) for config in result.configs]


BOTH = ["owner", "acls"]
O11 = pytest.mark.spec("O11")


def all_described() -> Asking:
    """Where topic.owner.described is set."""
    asking = Asking(ApiKey.DESCRIBE_CONFIGS, 4, *RIGHTS, base=OWNED)
    asking.gate.describes_topic_configs = True
    return asking


@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_CONFIGS))
def test_owner_and_acls_are_returned_to_a_request_that_names_them(version: int) -> None:
    request = question("orders", keys=["retention.ms", *BOTH])
    asked = Asking(ApiKey.DESCRIBE_CONFIGS, version, *RIGHTS, base=OWNED).for_(request)

    assert asked.goes_as_it_came
    (result,) = asked.told(answered("orders")).results
    mine = "User:alice:CREATE+DESCRIBE_CONFIGS+ALTER_CONFIGS:allow:*"
    assert told(result) == [("retention.ms", "1"), OWNER, ("acls", f"{mine};User:bob:READ:allow:*")]
    assert [config.config_source for config in result.configs] == [5, 1, 1]


@O11
@pytest.mark.parametrize("version", codecs.request_versions(ApiKey.DESCRIBE_CONFIGS))
@pytest.mark.parametrize("keys", [None, [], ["retention.ms"]])
def test_a_request_that_names_neither_gets_what_the_broker_has(version: int, keys: list[str] | None) -> None:
    asking = Asking(ApiKey.DESCRIBE_CONFIGS, version, *RIGHTS, base=OWNED)

    assert asking.for_(question("orders", keys=keys)).passes_unread


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (None, BOTH),
        ([], BOTH),
        (["owner"], ["owner"]),
        (["acls", "retention.ms"], ["acls"]),
        (["retention.ms"], []),
    ],
)
def test_with_the_setting_a_request_without_names_gets_both(keys: list[str] | None, names: list[str]) -> None:
    asked = all_described().for_(question("orders", keys=keys))

    (result,) = asked.told(answered("orders")).results
    assert [config.name for config in result.configs] == ["retention.ms", *names]


@O11
def test_of_several_topics_each_gets_what_is_named_for_it() -> None:
    request, both = question("orders"), ("DESCRIBE_CONFIGS TOPIC *",)
    request.resources += question("payments", keys=["owner"]).resources
    base = image_of(*owned("payments", "User:olga", 3), base=OWNED)

    orders, payments = (
        Asking(ApiKey.DESCRIBE_CONFIGS, 4, *both, base=base)
        .for_(request)
        .told(answered("orders", "payments"))
        .results
    )

    assert told(orders) == [("retention.ms", "1")]
    assert told(payments) == [("retention.ms", "1"), OWNER]


@pytest.mark.parametrize("wanted", [True, False])
def test_synonyms_and_documentation_are_told_when_asked_for(wanted: bool) -> None:
    request = question("orders", keys=BOTH, include_synonyms=wanted, include_documentation=wanted)

    (result,) = (
        Asking(ApiKey.DESCRIBE_CONFIGS, 4, *RIGHTS, base=OWNED).for_(request).told(answered("orders")).results
    )

    owner = result.configs[1]
    assert [(s.name, s.value, s.source) for s in owner.synonyms] == ([(*OWNER, 1)] if wanted else [])
    assert (owner.documentation is not None) is wanted
    assert owner.config_type == 2


def test_a_topic_without_either_and_one_that_is_not_there_are_told_as_the_broker_tells_them() -> None:
    rights = ("DESCRIBE_CONFIGS TOPIC *",)
    none = Asking(ApiKey.DESCRIBE_CONFIGS, 4, *rights).for_(question("payments", keys=BOTH))
    missing = Asking(ApiKey.DESCRIBE_CONFIGS, 4, *rights, base=OWNED).for_(question("orders", keys=BOTH))

    assert none.passes_unread
    (result,) = missing.told(answered("orders", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)).results
    assert told(result) == [("retention.ms", "1")]


def test_one_who_may_not_describe_the_configs_learns_no_owner() -> None:
    answer = Asking(ApiKey.DESCRIBE_CONFIGS, 4, "READ TOPIC orders", base=OWNED).for_(
        question("orders", keys=BOTH)
    )

    (result,) = answer.answer.results
    assert (result.error_code, result.configs) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


def test_where_acls_of_the_log_do_not_count_neither_is_told() -> None:
    asking = Asking(ApiKey.DESCRIBE_CONFIGS, 4, base=OWNED)
    asking.gate.authorizer = AllowAll()

    assert asking.for_(question("orders", keys=BOTH)).passes_unread


def test_a_text_too_long_for_old_clients_says_where_to_look_instead() -> None:
    image = image_of(*(acl_record(n, "orders", principal=f"User:{'x' * 100}{n}") for n in range(300)))

    text = "(300 ACLs: kafka-acls --list --topic orders)"
    assert penstock_configs(image, "orders", BOTH) == {"acls": text}
    assert penstock_configs(MetadataImage.EMPTY, "orders", BOTH) == {}


def creation(name: str = "owner") -> Any:
    return create_topics("orders", configs={name: "User:alice"})


def alteration(key: int, name: str = "owner", kind: int = TOPIC) -> Any:
    request: Any = t.AlterConfigsRequest if key == ApiKey.ALTER_CONFIGS else t.IncrementalAlterConfigsRequest
    config = request.AlterableConfig(name=name, value="User:alice")
    resource = request.AlterConfigsResource(resource_type=kind, resource_name="orders", configs=[config])
    return request(resources=[resource])


REQUESTS = [
    (ApiKey.CREATE_TOPICS, creation, "topics"),
    (ApiKey.ALTER_CONFIGS, lambda name="owner": alteration(ApiKey.ALTER_CONFIGS, name), "responses"),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        lambda name="owner": alteration(ApiKey.INCREMENTAL_ALTER_CONFIGS, name),
        "responses",
    ),
]


@pytest.mark.parametrize(("key", "request_", "parts"), REQUESTS)
@pytest.mark.parametrize("name", ["owner", "acls"])
@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        pytest.param({"stores_topic_configs": False}, "stored by Penstock's own controller", id="kraft"),
        pytest.param({"authorizer": AllowAll()}, "no effect at this proxy", id="authorizer of all"),
    ],
)
def test_where_they_have_no_effect_they_are_rejected(
    gate: dict[str, Any], reason: str, key: int, request_: Any, parts: str, name: str
) -> None:
    asking = Asking(key, codecs.request_versions(key)[-1], *RIGHTS)
    for attribute, value in gate.items():
        setattr(asking.gate, attribute, value)

    (result,) = getattr(asking.for_(request_(name)).answer, parts)

    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert reason in result.error_message
    assert isinstance(asking.for_(request_("retention.ms")).verdict, ForwardToController)


@pytest.mark.parametrize(("key", "request_", "parts"), REQUESTS)
def test_otherwise_they_go_to_the_controller_as_they_are(key: int, request_: Any, parts: str) -> None:
    asked = Asking(key, codecs.request_versions(key)[-1], *RIGHTS).for_(request_())

    assert isinstance(asked.verdict, ForwardToController)
    assert asked.forwarded == request_()
