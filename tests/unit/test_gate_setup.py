"""The gate of a proxy as its file makes it: what clients are kept from."""

from pathlib import Path

import pytest

from proxy import gate_setup
from proxy.config import ProxyConfig, load
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("A7", "E12")

ADMIN = RequestContext(Principal("User", "admin"), "10.0.0.1", "SASL", None, image=MetadataImage.EMPTY)


def test_clients_are_kept_from_the_writer_that_the_file_names_and_from_the_one_the_controller_names(
    tmp_path: Path,
) -> None:
    gate = gate_setup.gate(load(written(tmp_path, document()), ProxyConfig), None)

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
