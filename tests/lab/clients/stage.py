"""Starts a client's driver at an entrance, as a user who may do all, and gathers what it says.

A driver is a process of its own: clients log, spin threads and abort, and Java and Go have to be built first.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.lab.clients.franz_go import franz_go
from tests.lab.clients.scenarios import Scenario
from tests.lab.cluster import jvm, kafka
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.java import java
from tests.lab.cluster.users import User
from tests.support import go_program
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
DRIVER_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Driver:
    name: str
    listener: str
    """Of the proxy; a broker has SASL_PLAINTEXT only."""
    mechanism: str
    command: Callable[[Path, Path], list[str]]
    """Kafka's jars and a directory of its own in, the command line out; builds what has to be built."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a driver said of one scenario."""

    result: str
    detail: str


@dataclass(frozen=True, slots=True)
class Run:
    """All that a driver said."""

    version: str
    outcomes: Mapping[str, Outcome]


def _python(module: str) -> Callable[[Path, Path], list[str]]:
    return lambda _libs, _directory: [sys.executable, "-W", "ignore", "-m", f"tests.lab.clients.{module}"]


def _java(libs: Path, directory: Path) -> list[str]:
    sources = [str(path) for path in sorted((HERE / "java").glob("*.java"))]
    beside = Path(java()).with_name("javac")
    program = str(beside) if beside.exists() else shutil.which("javac")
    if program is None:
        _not_here(
            "no `javac` beside `java` or in PATH: the Java driver cannot be built", "PENSTOCK_REQUIRE_KAFKA"
        )
    # With the newest classes: what an older client lacks, the driver finds out when it calls it.
    compiled = [program, "-nowarn", "-cp", jvm.class_path(kafka.libs()), "-d", str(directory), *sources]
    subprocess.run(compiled, check=True)
    return jvm.command(libs, "Driver", [], jvm.SHORT_LIVED, "WARN", directory)


def _not_here(why: str, required_by: str) -> NoReturn:
    """Skip, or fail where the variable of that name is 1: no client goes dark unnoticed."""
    if os.environ.get(required_by) == "1":
        pytest.fail(why)
    pytest.skip(f"{why} ({required_by}=1 requires it)")


def _go(build: Callable[[Path], Path]) -> Callable[[Path, Path], list[str]]:
    def command(_libs: Path, directory: Path) -> list[str]:
        try:
            return [str(build(directory))]
        except SetupError as error:
            _not_here(str(error), "PENSTOCK_REQUIRE_GO")

    return command


def _terraform(directory: Path) -> Path:
    return go_program.build(HERE / "terraform", directory / "terraform", "Terraform's provider")


DRIVERS = {
    driver.name: driver
    for driver in (
        Driver("java", "SASL_SSL", "SCRAM-SHA-512", _java),
        Driver("librdkafka", "SASL_SSL", "SCRAM-SHA-256", _python("librdkafka_driver")),
        Driver("kafka-python", "SASL_PLAINTEXT", "SCRAM-SHA-512", _python("kafka_python_driver")),
        Driver("aiokafka", "SASL_SSL", "SCRAM-SHA-256", _python("aiokafka_driver")),
        Driver("franz-go", "SASL_SSL", "PLAIN", _go(franz_go)),
    )
}

DECLARED = {
    "terraform": Driver("terraform", "SASL_SSL", "SCRAM-SHA-512", _go(_terraform)),
    "user-operator": Driver("user-operator", "SASL_SSL", "SCRAM-SHA-512", _java),
}
"""Tools that make a cluster what a file says."""


def prefix(driver: Driver) -> str:
    """The names of the topics that its scenarios use begin with it and the scenario's name."""
    return f"clients-{driver.name}"


def worker(gate: Gate, driver: Driver) -> User:
    """A user of the driver's mechanism with ALL rights by ACLs, but on one topic; no super user."""
    cluster_admin = ClusterAdmin(gate)
    if driver.mechanism == "PLAIN" and "bob" in gate.users:
        user = User("bob", "PLAIN", gate.users["bob"].password)
    else:
        mechanism = "SCRAM-SHA-256" if driver.mechanism == "PLAIN" else driver.mechanism
        user = cluster_admin.user(f"worker-{driver.name}", mechanism)
    cluster_admin.allow(user, "ALL", cluster=True)
    cluster_admin.allow(user, "ALL", topic="*")
    cluster_admin.allow(user, "ALL", group="*")
    cluster_admin.allow(user, "ALL", transactional_id="*")
    cluster_admin.deny(user, "WRITE", "ALTER", topic=cluster_admin.topic(f"{prefix(driver)}-denied"))
    return user


def run(
    driver: Driver, command: list[str], gate: Gate, listener: str, scenarios: Mapping[str, Scenario]
) -> Run:
    """Play the scenarios; a scenario that the driver did not get to is not in the outcomes."""
    user, entrance = worker(gate, driver), gate.entrance(listener)
    login: dict[str, Any] = {
        "bootstrap": entrance.bootstrap,
        "protocol": entrance.security_protocol,
        "mechanism": user.mechanism,
        "user": user.name,
        "password": user.password,
        "ca": None if entrance.ca is None else str(entrance.ca),
    }
    order = {"login": login, "prefix": prefix(driver), "scenarios": dict(scenarios)}
    done = subprocess.run(
        command,
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=DRIVER_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, f"{driver.name} said nothing and ended with {done.returncode}"
    return Run(
        lines[0]["version"],
        {line["scenario"]: Outcome(line["result"], line["detail"]) for line in lines[1:]},
    )
