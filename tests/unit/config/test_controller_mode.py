"""`controller.mode`: whose log is followed, and what cannot be set with it."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.commands.check import check
from proxy.config import ProxyConfig, load
from proxy.config.doubts import report_groups, warns_of_groups
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("O5")


def kraft(**changes: Any) -> dict[str, Any]:
    return document(controller={"mode": "kraft", "endpoints": ["127.0.0.1:19093"]}, **changes)


def test_with_kraft_the_log_is_kafkas_own(tmp_path: Path) -> None:
    config = load(written(tmp_path, kraft()), ProxyConfig)

    assert (config.controller.mode, config.metadata.topic) == ("kraft", "__cluster_metadata")
    assert check(tmp_path / "proxy.yaml") == []


def test_without_a_mode_the_log_is_our_controllers_topic(tmp_path: Path) -> None:
    config = load(written(tmp_path, document()), ProxyConfig)

    assert (config.controller.mode, config.metadata.topic) == ("penstock", "__penstock_metadata")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            kraft(metadata={"topic": "__penstock_metadata"}),
            "topic: with controller.mode kraft the log is __cluster_metadata",
        ),
        (
            document(metadata={"topic": "__cluster_metadata"}),
            "__cluster_metadata is Kafka's own log; to follow it, write controller: {mode: kraft}",
        ),
        (
            document(controller={"mode": "zookeeper", "endpoints": ["127.0.0.1:19093"]}),
            "controller > mode: expected penstock or kraft",
        ),
        (document(controller={"mode": "kraft"}), "controller > endpoints: is missing"),
    ],
    ids=["a topic with kraft", "Kafka's log as a topic", "an unknown mode", "no endpoints"],
)
def test_what_makes_no_sense_is_told_with_its_key(tmp_path: Path, content: Any, said: str) -> None:
    problems = check(written(tmp_path, content))

    assert len(problems) == 1
    assert said in problems[0]


@pytest.mark.spec("A8")
@pytest.mark.parametrize(("mode", "warnings"), [("kraft", 1), ("penstock", 0)])
def test_groups_among_the_super_users_are_warned_of_where_kafkas_controllers_decide(
    tmp_path: Path, mode: str, warnings: int
) -> None:
    content = document(
        controller={"mode": mode, "endpoints": ["127.0.0.1:19093"]},
        authorizer={
            "class.name": "proxy.security.standard.StandardAuthorizer",
            "super.users": "User:root;Group:admins",
        },
    )
    config = load(written(tmp_path, content), ProxyConfig)

    found = list(warns_of_groups(config))
    with capture_logs() as logged:
        report_groups(config)

    assert [(location, text.split(":")[0]) for location, text in found] == [
        (("authorizer", "super.users"), "Group")
    ] * warnings
    assert [line["key"] for line in logged] == ["authorizer > super.users"] * warnings


@pytest.mark.spec("A8")
@pytest.mark.parametrize(("mode", "warnings"), [("kraft", 1), ("penstock", 0)])
def test_groups_of_tokens_are_warned_of_where_kafkas_controllers_decide(
    tmp_path: Path, mode: str, warnings: int
) -> None:
    listener = {
        "name": "TOKENS",
        "bind": "127.0.0.1:19099",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": "https://idp.acme.org/keys",
        "sasl.oauthbearer.expected.issuer": "https://idp.acme.org",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.groups.claim": "groups",
    }
    content = document(
        controller={"mode": mode, "endpoints": ["127.0.0.1:19093"]},
        authorizer={"class.name": "StandardAuthorizer"},
    )
    content["listeners"] = [*content["listeners"], listener]

    found = [location for location, _ in warns_of_groups(load(written(tmp_path, content), ProxyConfig))]

    assert found == [("listeners", 1)] * warnings
