"""The gate of a proxy as its file makes it: what clients are kept from."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxy import gate_setup
from proxy.config import ProxyConfig, load
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import never_shared
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from tests.unit.config.test_proxy_config import document, written

ADMIN = RequestContext(Principal("User", "admin"), "10.0.0.1", "SASL", None, image=MetadataImage.EMPTY)


@pytest.mark.spec("A7", "E12")
def test_clients_are_kept_from_the_writer_that_the_file_names_and_from_the_one_the_controller_names(
    tmp_path: Path,
) -> None:
    gate = gate_setup.gate(load(written(tmp_path, document()), ProxyConfig), never_shared)

    def kept_from(name: str) -> list[bool]:
        asked = [
            Action(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name),
            Action(Operation.READ, ResourceType.GROUP, f"{name}-election"),
        ]
        return [not decision.allowed for decision in gate.authorizer.authorize(ADMIN, asked)]

    assert kept_from("penstock-controller") == [True, True]
    assert kept_from("company-writer") == [False, False]

    assert gate_setup.protect_writer(gate, "company-writer") is True
    assert gate_setup.protect_writer(gate, "company-writer") is False
    assert gate_setup.protect_writer(gate, "penstock-controller") is False

    assert kept_from("penstock-controller") == kept_from("company-writer") == [True, True]
    assert kept_from("another") == [False, False]


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    "authorizer",
    [
        pytest.param({"class.name": ""}, id="empty on purpose"),
        pytest.param({}, id="none, without authentication"),
        pytest.param({"class.name": "proxy.security.standard.StandardAuthorizer"}, id="one"),
    ],
)
def test_a_proxy_that_allows_everything_logs_a_warning(tmp_path: Path, authorizer: dict[str, str]) -> None:
    plaintext = {"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}
    config = load(written(tmp_path, document(authorizer=authorizer, listeners=[plaintext])), ProxyConfig)

    with capture_logs() as lines:
        gate_setup.gate(config, never_shared)

    (decision,) = gate_setup.gate(config, never_shared).authorizer.authorize(
        ADMIN, [Action(Operation.WRITE, ResourceType.TOPIC, "orders")]
    )
    warned = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert decision.allowed is ("class.name" not in authorizer or not authorizer["class.name"])
    assert warned == ["No authorizer configured; all requests are allowed"] * decision.allowed
