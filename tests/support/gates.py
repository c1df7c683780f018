"""What the interop tests talk to: a Penstock stack, or for comparison a Kafka broker with its own authorizer.

Both have a super user `admin` and an entrance where SCRAM users log in, so one test says what both must do.
PENSTOCK_INTEROP_TARGET=broker runs the tests on the broker, to see that they ask for what Kafka does;
PENSTOCK_INTEROP_TARGET=kraft on a stack without a controller of ours. PENSTOCK_KAFKA selects the brokers'
release; tests of what a release does not have are marked `needs(Feature.X)` and skipped.
"""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import pytest

from tests.lab.cluster.process import ChildProcess
from tests.lab.cluster.release import Release
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import Entrance, User
from tests.lab.side_by_side.guarded import GuardedBroker

REAUTH_MS = 4_000
EVERYBODY_COMES_FROM_HERE = {"failures": 0}
"""One test's wrong passwords are not to delay the first logins of the next one's users."""


class Gate(Protocol):
    """Where clients log in."""

    users: dict[str, User]

    def entrance(self, listener: str = "SASL_PLAINTEXT") -> Entrance: ...

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User: ...

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT") -> KafkaTools: ...


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip before any process is started for the test."""
    release = Release.chosen()
    for mark in item.iter_markers("needs"):
        for feature in mark.args:
            if not release.has(feature):
                pytest.skip(release.lacks(feature))


@pytest.fixture(scope="session")
def gate(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    directory = tmp_path_factory.mktemp("gate")
    if os.environ.get("PENSTOCK_INTEROP_TARGET") == "broker":
        with GuardedBroker(kafka_libs, directory, reauth_ms=REAUTH_MS).running() as guarded:
            yield guarded
    else:
        kraft = os.environ.get("PENSTOCK_INTEROP_TARGET") == "kraft"
        with a_stack(kafka_libs, directory, "kraft" if kraft else "penstock") as stack:
            yield stack


@contextmanager
def a_stack(
    libs: Path,
    directory: Path,
    controller: Literal["penstock", "kraft"],
    *,
    brokers: int = 1,
    broker_properties: MutableMapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Penstock up and ready, with our controller or with Kafka's own."""
    settings = StackSettings(
        directory=directory,
        libs=libs,
        reauth_ms=REAUTH_MS,
        proxy_changes={"login.backoff": EVERYBODY_COMES_FROM_HERE},
        controller=controller,
        brokers=brokers,
        broker_properties={} if broker_properties is None else broker_properties,
    )
    with Stack(settings).running() as stack:
        yield stack


@pytest.fixture
def stack(gate: Gate) -> Stack:
    """For what only Penstock has: its metrics, its audit trail, its processes."""
    if not isinstance(gate, Stack):
        pytest.skip("asks for more than a broker has")
    return gate


@pytest.fixture
def our_controller(stack: Stack) -> ChildProcess:
    """For what is said of our controller, or of its log and its audit records."""
    if stack.kraft:
        pytest.skip("Kafka's own controller does the work here")
    return stack.controller
