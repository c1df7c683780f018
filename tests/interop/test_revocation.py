"""With real processes: credentials taken away end sessions where that is wanted; guessing gets slower."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.runtime.clock import now_ms
from proxy.security.passwords import hash_password
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.side_by_side.steps import Connection, Scram, Shake, Step, Token
from tests.support.cluster_admin import ClusterAdmin, admin

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

REAUTH_MS = 1_000
SOON_S = 15.0


@pytest.fixture(scope="module")
def strict(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    changes = {
        "sessions.revoke.immediately": True,
        "connections.expired.close.idle": True,
        "login.backoff": {"failures": 2, "initial.ms": 50, "max.ms": 200},
    }
    directory = tmp_path_factory.mktemp("strict")
    settings = StackSettings(directory=directory, libs=kafka_libs, reauth_ms=REAUTH_MS, proxy_changes=changes)
    stack = Stack(settings)
    with stack.running():
        yield stack


@contextmanager
def session(stack: Stack, *steps: Step, listener: str = "SASL_PLAINTEXT") -> Iterator[Connection | None]:
    """A connection that is logged in; None where the login failed."""
    with Connection(stack.entrance(listener).bootstrap) as connection:
        said = [connection.play(step) for step in steps]
        yield connection if all(each["error"] == 0 for each in said) else None


def lasts(session: Connection | None, for_s: float = SOON_S) -> bool:
    assert session is not None
    return session.stays_open(for_s)


def by_scram(user: Any) -> tuple[Step, ...]:
    return Shake("SCRAM-SHA-256"), Scram(user.name, user.password)


def by_plain(name: str, password: str) -> tuple[Step, ...]:
    return Shake(), Token(f"\0{name}\0{password}".encode())


def put_users(stack: Stack, **passwords: str) -> None:
    """These users beside those that the stack has."""
    path = stack.proxy_file.parent / "users.yaml"
    users = yaml.safe_load(path.read_text())["users"]
    users = {name: entry for name, entry in users.items() if "password.file" in entry}
    users |= {name: {"password.hash": hash_password(word, bytes(16))} for name, word in passwords.items()}
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"users": users}))
    new.rename(path)


def revoked(stack: Stack) -> float:
    return sum(
        value for name, value in stack.metrics().items() if name.startswith("penstock_sessions_revoked")
    )


@pytest.mark.spec("R10")
def test_a_scram_user_that_is_removed_or_has_a_new_password_is_cut_off_at_once(strict: Stack) -> None:
    cluster = ClusterAdmin(strict)
    removed, changed, kept = (cluster.user(name) for name in ("removed", "changed", "kept"))
    before = revoked(strict)
    mechanism = admin.ScramMechanism.SCRAM_SHA_256

    with (
        session(strict, *by_scram(removed)) as first,
        session(strict, *by_scram(changed)) as second,
        session(strict, *by_scram(kept)) as third,
    ):
        info = admin.ScramCredentialInfo(mechanism, 4096)
        alterations = [
            admin.UserScramCredentialDeletion(removed.name, mechanism),
            admin.UserScramCredentialUpsertion(changed.name, info, b"another-password"),
        ]
        for future in cluster.client.alter_user_scram_credentials(alterations).values():
            future.result(SOON_S)
        lasting = [lasts(first), lasts(second), lasts(third, 1.0)]
    with session(strict, *by_scram(removed)) as again:
        assert again is None

    assert lasting == [False, False, True]
    assert revoked(strict) - before == 2


@pytest.mark.spec("R9", "R10")
def test_a_user_of_the_file_comes_and_goes_with_the_file(strict: Stack) -> None:
    put_users(strict, carol="c-secret")
    until_ms = now_ms() + SOON_S * 1000
    while True:
        # A failed login takes a tenth of a second.
        with session(strict, *by_plain("carol", "c-secret")) as carol:
            if carol is not None:
                put_users(strict)
                assert not lasts(carol)
                return
        assert now_ms() < until_ms


@pytest.mark.spec("R3")
def test_an_idle_connection_past_its_end_is_swept_away(strict: Stack) -> None:
    alice = ClusterAdmin(strict).user("alice")

    with session(strict, *by_scram(alice), listener="REAUTH") as idle:
        assert not lasts(idle)
    closed = {name for name, value in strict.metrics().items() if "session_expired_idle" in name and value}
    assert any("connections_closed" in name for name in closed)


@pytest.mark.spec("R6")
def test_many_failures_are_answered_late_and_lock_nobody_out(strict: Stack) -> None:
    alice = ClusterAdmin(strict).user("often-guessed-at")

    for _ in range(8):
        with session(strict, *by_plain(alice.name, "a guess")) as guessed:
            assert guessed is None
    with session(strict, *by_scram(alice)) as known:
        assert known is not None
    delayed = {
        name: value for name, value in strict.metrics().items() if "penstock_authentication_delayed" in name
    }
    assert sum(delayed.values()) >= 4
