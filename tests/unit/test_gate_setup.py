"""The gate of a proxy as its file makes it: what clients are kept from."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.app import gate_setup
from proxy.config import ProxyConfig, load
from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.net.pages.readiness import Readiness
from proxy.quota.throttle import never_shared
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from tests.support.images import image_of, quota_record
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


@pytest.mark.spec("O8")
def test_the_gate_of_a_proxy_has_a_clock_so_that_no_session_occupies_the_loop(tmp_path: Path) -> None:
    pace = gate_setup.gate(load(written(tmp_path, document()), ProxyConfig), never_shared).pace

    pace.begin()

    assert pace.now_ns is not None


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


KRAFT: dict[str, Any] = {"endpoints": ["127.0.0.1:19093"], "mode": "kraft"}
LOGIN = {"mechanism": "PLAIN", "username": "proxy-1", "password.file": "pw"}
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
WARNING = "the broker applies default quotas to all users of this proxy as one"


def at_broker(
    directory: Path, *limits: Any, controller: Any = None, **upstream: Any
) -> tuple[list[str], str]:
    """The quotas in the warning, and what /readyz says, when the log has these records of quotas."""
    (directory / "pw").write_text("secret\n")
    peer = {"bootstrap": "127.0.0.1:9092", "security.protocol": "SASL_PLAINTEXT", "sasl": LOGIN} | upstream
    config = load(written(directory, document(controller=controller or KRAFT, upstream=peer)), ProxyConfig)
    checked = gate_setup.QuotasAtBroker(config)
    with capture_logs() as lines:
        for count in range(len(limits) + 1):
            checked.update(image_of(*limits[:count]).quotas)
    warned = [quota for line in lines if line["event"] == WARNING for quota in line["quotas"]]
    return warned, Readiness((), tuple(checked.notes())).text(detailed=True)


@pytest.mark.spec("Q8", "O2")
@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ({"user": None}, "users/<default>"),
        ({"user": None, "client_id": None}, "users/<default>/clients/<default>"),
        ({"client_id": None}, "clients/<default>"),
    ],
)
def test_a_default_quota_that_the_broker_applies_to_all_users_as_one_is_reported(
    tmp_path: Path, entity: dict[str, None], path: str
) -> None:
    default = quota_record(PRODUCE, 1000.0, remove=False, **entity)

    warned, ready = at_broker(tmp_path, default, default)

    assert warned == [f"{PRODUCE} of {path}"], "once, not for each image"
    headline, note = ready.splitlines()
    assert headline == "ready"
    assert note == f"degraded: {WARNING}: {PRODUCE} of {path}; user proxy-1 has no quota of its own"


@pytest.mark.spec("Q8", "Q3")
def test_a_quota_of_the_proxys_own_user_ends_the_report_for_its_key_only(tmp_path: Path) -> None:
    defaults = [quota_record(key, 1000.0, user=None) for key in (PRODUCE, FETCH)]
    own = quota_record(PRODUCE, 1e12, user="proxy-1")

    assert at_broker(tmp_path, own, *defaults)[0] == [f"{FETCH} of users/<default>"]
    assert at_broker(tmp_path, *defaults, own)[1].endswith(
        f": {FETCH} of users/<default>; user proxy-1 has no quota of its own\n"
    )
    others = quota_record(PRODUCE, 1e12, user="proxy-2")
    assert at_broker(tmp_path, others, *defaults)[0] != []
    by_client = quota_record(PRODUCE, 1e12, user="proxy-1", client_id=None)
    assert at_broker(tmp_path, by_client, defaults[0]) == ([], "ready\n")


@pytest.mark.spec("Q8")
@pytest.mark.parametrize(
    ("changes", "users"),
    [
        ({}, ["proxy-1"]),
        ({"identity": "user"}, []),
        ({"security.protocol": "PLAINTEXT", "sasl": None}, ["ANONYMOUS"]),
        ({"controller": {"endpoints": ["127.0.0.1:19093"]}}, []),
    ],
    ids=["a login", "the users themselves", "no login", "Penstock's controller"],
)
def test_only_the_principal_that_the_broker_sees_in_place_of_users_counts(
    tmp_path: Path, changes: dict[str, Any], users: list[str]
) -> None:
    warned, _ = at_broker(tmp_path, quota_record(PRODUCE, 1.0, user=None), **changes)
    silenced = [quota_record(PRODUCE, 1e12, user=user) for user in users]

    assert len(warned) == len(users)
    assert at_broker(tmp_path, *silenced, quota_record(PRODUCE, 1.0, user=None), **changes)[0] == []
