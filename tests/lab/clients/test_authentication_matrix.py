"""Mechanism by client by connections.max.reauth.ms by the credential's life: who renews, who is cut.

Clients that know KIP-368 must not notice that their sessions end; the others come back, and lose nothing that
was acknowledged. `make clients` runs all cells on a stack of their own, each other run one for each client.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.clients.session_cells import ALL, CERTIFICATE, LONG, LONGER, OFF, ON, SHORT, SHORTER, Cell
from tests.lab.clients.session_stage import KILLS, RENEWALS, Place, Seen, play
from tests.lab.clients.session_trail import Trail, of_metrics
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import Stack, StackSettings
from tests.support.gates import Gate
from tests.support.identity_provider import AUDIENCE, ISSUER
from tests.support.office_certificates import OfficeCertificates
from tests.support.running_provider import RunningProvider

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WHOLE = os.environ.get("PENSTOCK_CLIENTS") == "all"
CELLS = ALL if WHOLE else SHORT

LIMITS_MS = {OFF: 0, ON: 16_000, LONG: 600_000}
SHORT_TOKEN_S = 26
"""Longer than it takes a client to get a new one, also a late one: see tests/interop/test_oauthbearer.py."""
LONG_TOKEN_S = 3_600

Scene = tuple[Stack, list[Seen]]


@pytest.fixture(scope="module")
def scene(
    request: pytest.FixtureRequest, kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("sessions")
    if not WHOLE:
        gate: Gate = request.getfixturevalue("gate")
        if not isinstance(gate, Stack):
            pytest.skip("asks for more than a broker has")
        place = Place(lambda _: gate.wiring.listeners["REAUTH"], {}, 0)
        yield gate, play(gate, place, CELLS, kafka_libs, directory)
        return
    with _whole_stage(kafka_libs, directory) as (stack, place):
        yield stack, play(stack, place, CELLS, kafka_libs, directory)


@contextmanager
def _whole_stage(libs: Path, directory: Path) -> Iterator[tuple[Stack, Place]]:
    """A proxy with a listener for each client and limit, an identity provider for each life of a token."""
    short, long = RunningProvider(SHORT_TOKEN_S), RunningProvider(LONG_TOKEN_S)
    certificates = OfficeCertificates(directory / "certificates")
    names = sorted({cell.listener for cell in CELLS})
    addresses = dict(zip(names, free_addresses(len(names)), strict=True))
    with pytest.MonkeyPatch.context() as patch, short.running(), long.running():
        urls = {SHORTER: f"{short.url}/token", LONGER: f"{long.url}/token"}
        allowed = ",".join(urls.values())
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        stack = Stack(StackSettings(directory=directory / "stack", libs=libs))
        _open_listeners(stack, addresses, f"{long.url}/certs", certificates.ca)
        place = Place(
            lambda cell: addresses[cell.listener], urls, SHORT_TOKEN_S * 1000, stack.tls.ca, certificates
        )
        with stack.running():
            yield stack, place


def _open_listeners(stack: Stack, addresses: dict[str, str], jwks_url: str, ca: Path) -> None:
    proxy = yaml.safe_load(stack.proxy_file.read_text())
    limits = {cell.listener: cell.limit for cell in CELLS}
    for name, address in addresses.items():
        listener: dict[str, Any] = {
            "name": name,
            "bind": address,
            "connections.max.reauth.ms": LIMITS_MS[limits[name]],
        }
        if name.endswith("-tls"):
            pair = {"certificate": str(stack.tls.certificate), "key": str(stack.tls.key)}
            rules = {"ca": str(ca), "principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/"}
            listener |= {"security.protocol": "SSL", "ssl": pair | {"client.auth": "required"} | rules}
        else:
            listener |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
                "sasl.oauthbearer.jwks.endpoint.url": jwks_url,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": [AUDIENCE],
            }
        proxy["listeners"].append(listener)
    stack.proxy_file.write_text(yaml.safe_dump(proxy))
    _add_users(stack.proxy_file.parent)


def _add_users(directory: Path) -> None:
    """Those of PLAIN."""
    path = directory / "users.yaml"
    users = yaml.safe_load(path.read_text())
    for cell in CELLS:
        if cell.mechanism == "PLAIN":
            (directory / f"{cell.name}.password").write_text(f"{cell.name}-secret")
            users["users"][cell.name] = {"password.file": f"{cell.name}.password"}
    path.write_text(yaml.safe_dump(users))


@pytest.fixture
def seen(scene: Scene, request: pytest.FixtureRequest) -> Seen:
    cell: Cell = request.param
    return next(each for each in scene[1] if each.cell == cell)


def _cells(**wanted: bool) -> pytest.MarkDecorator:
    chosen = [cell for cell in CELLS if all(getattr(cell, name) == value for name, value in wanted.items())]
    return pytest.mark.parametrize("seen", chosen, indirect=True, ids=lambda cell: cell.name)


@pytest.mark.long
@pytest.mark.spec("R2", "R5", "R9")
@_cells(renews=True, ends=True)
def test_a_client_renews_its_sessions_under_load_and_no_request_fails(seen: Seen) -> None:
    assert min(seen.renewals.values()) >= RENEWALS, seen.row()
    assert sum(seen.kills.values()) == 0, seen.row()
    _nothing_noticed(seen)


@pytest.mark.spec("R3", "R4")
@_cells(renews=False, ends=True)
def test_a_client_that_cannot_renew_is_cut_comes_back_and_loses_nothing(seen: Seen) -> None:
    assert min(seen.kills.values()) >= KILLS, seen.row()
    assert seen.all_renewals == 0, seen.row()
    assert seen.connections > sum(seen.kills.values()), f"did not come back: {seen.row()}"
    _nothing_lost(seen)


@pytest.mark.spec("R1", "R8", "R9")
@(_cells(ends=False) if WHOLE else pytest.mark.skip(reason="runs by `make clients`"))
def test_a_client_whose_session_does_not_end_is_never_asked_again(seen: Seen) -> None:
    assert (seen.all_renewals, sum(seen.kills.values())) == (0, 0), seen.row()
    if seen.cell.mechanism == CERTIFICATE:
        assert seen.connections > 0, "no record of a login by certificate"
        assert seen.opened_after == 0, f"came back: {seen.row()}"
    _nothing_noticed(seen)


def _nothing_noticed(seen: Seen) -> None:
    assert seen.logins_after == 0, f"came back: {seen.row()}"
    assert seen.client["disconnects"] in (0, None), seen.row()
    if seen.client["renewals"] is not None:  # Java counts them itself, but for those of its farewells.
        assert 0 <= seen.all_renewals - seen.client["renewals"] <= seen.connections, seen.row()
    _nothing_lost(seen)


def _nothing_lost(seen: Seen) -> None:
    client = seen.client
    assert (client["errors"], client["lost"]) == ([], []), seen.row()
    assert client["acknowledged"] == client["sent"] > 0, seen.row()


@pytest.mark.spec("R7", "D1")
def test_the_metrics_count_what_the_audit_trail_tells(scene: Scene) -> None:
    stack, all_seen = scene
    for each in all_seen:
        print(each.row())  # noqa: T201  The table of docs/tested-with.md; pytest -rP shows it.
    trail = Trail(stack)
    told, counted = {}, {}
    for _ in range(20):
        trail.read(1)
        told, counted = trail.counts(), of_metrics(stack.metrics())
        if told == counted:
            break
    trail.close()

    assert told == counted
    renewed = sum(count for key, count in counted.items() if key[0] == "penstock_reauthentication_total")
    ending = [each for each in all_seen if each.cell.ends and each.cell.renews]
    assert renewed >= RENEWALS * 2 * len(ending)
    assert renewed == sum(each.all_renewals for each in all_seen)
