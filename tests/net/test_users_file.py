"""The users file: read at the start, again when it changes, and what becomes of those who are logged in."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from proxy.app.logins import Revocations
from proxy.commands.check import checked_users
from proxy.config import ConfigError, WatchedUsers
from proxy.config import ListenerConfig as ListenerSettings
from proxy.net.clients.connection import Connection
from proxy.net.files.watched_file import FileReloads
from proxy.net.logins.credentials import Credentials, PlainUsers, StoredUser, keyed_password, sasl_listener
from proxy.net.runtime.chunked import iterate_in_slices
from proxy.security.passwords import cost_of, hash_password
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Deferred, Rejected
from proxy.security.sasl.plain import PlainExchange
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.net.test_disconnect import logged_in
from tests.session.conversation import plain_token
from tests.support.edges import a_broker, a_gate, an_edge, on_uvloop
from tests.support.waiting import turns_until

LISTENER = ListenerSettings.model_validate(
    {
        "name": "SASL",
        "bind": "127.0.0.1:0",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["PLAIN"],
    }
)
INTERVAL_MS = 10


class Users:
    """A users file of a test: alice by hash, bob by a file of his own."""

    def __init__(self, directory: Path) -> None:
        self.path, self.secret = directory / "users.yaml", directory / "bob.password"
        self.registry = CollectorRegistry()
        self.changes = 0
        self.secret.write_text("b-secret\n")
        self.write(alice="a-secret")

    def write(self, **passwords: str) -> None:
        users = {
            name: {"password.hash": hash_password(password, bytes(16))}
            for name, password in passwords.items()
        }
        self.put(yaml.safe_dump({"users": users | {"bob": {"password.file": "bob.password"}}}), self.path)

    def put(self, content: str, path: Path) -> None:
        new = path.with_suffix(".new")
        new.write_text(content)
        new.rename(path)

    def watched(self) -> WatchedUsers:
        return WatchedUsers(self.path, FileReloads(self.registry), self._changed, INTERVAL_MS)

    def count(self, outcome: str) -> float | None:
        labels = {"file_kind": "users", "outcome": outcome}
        return self.registry.get_sample_value("penstock_file_reloads_total", labels)

    def _changed(self) -> None:
        self.changes += 1


def knows(users: WatchedUsers, name: str, password: str) -> bool:
    return users.known.verify(name, password) is not None


@pytest.mark.spec("R9")
def test_hashes_and_files_of_passwords_are_known_from_the_start(tmp_path: Path) -> None:
    users = Users(tmp_path).watched()

    assert knows(users, "alice", "a-secret")
    assert knows(users, "bob", "b-secret")
    assert not knows(users, "bob", "b-secret\n")
    assert not knows(users, "carol", "a-secret")
    assert "b-secret" not in repr(vars(users.known))


@pytest.mark.spec("R9")
def test_an_unknown_user_costs_what_most_known_ones_cost() -> None:
    costly, usual = f"scrypt$15$8$1${'A' * 24}${'A' * 43}=", hash_password("x", bytes(16))

    for stored, cost in (((), (14, 8, 1)), ((costly, costly, usual), (15, 8, 1)), ((usual,), (14, 8, 1))):
        users = PlainUsers({str(number): StoredUser(each) for number, each in enumerate(stored)})
        assert cost_of(users.dummy_hash) == cost


@pytest.mark.spec("R9", "O5")
@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("users: {alice: {password.hash: nonsense}}", "users > alice > password.hash"),
        ("users: {alice: {password.file: missing}}", "no such file"),
        ("users: {alice: {}}", "write either password.hash or password.file"),
        ("users: {alice: {password.file: empty}}", "the file is empty"),
        ('users: {alice: {password.file: bob.password, groups: ["a\\0"]}}', "groups: .*control character"),
        ("users: {alice: {password.file: bob.password, groups: [7]}}", "groups"),
        (
            "users: {alice: {password.file: bob.password, until: 2027-01-31}}",
            "until: expected a time with its",
        ),
        (
            'users: {alice: {password.file: bob.password, until: "2027-01-31T18"}}',
            "until: expected a time",
        ),
        ("[", "not valid YAML"),
    ],
)
def test_a_broken_file_is_an_error_at_the_start(tmp_path: Path, content: str, error: str) -> None:
    files = Users(tmp_path)
    (tmp_path / "empty").write_text("\n")
    files.path.write_text(content)

    with pytest.raises(ConfigError, match=error):
        files.watched()


@pytest.mark.spec("R9", "R10")
@on_uvloop
async def test_changes_are_taken_and_a_broken_file_leaves_the_last_good_one(tmp_path: Path) -> None:
    files = Users(tmp_path)
    users = files.watched()
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(users.run())
        files.write(alice="a-secret", carol="c-secret")
        await turns_until(lambda: files.count("loaded") == 1)
        assert knows(users, "carol", "c-secret")

        files.put("users: {alice: {password.hash: nonsense}}", files.path)
        await turns_until(lambda: files.count("failed") == 1)
        assert knows(users, "carol", "c-secret")

        files.put("another\n", files.secret)
        await turns_until(lambda: files.count("loaded") == 2)
        assert knows(users, "bob", "another")
        assert not knows(users, "bob", "b-secret")
        run.cancel()


@pytest.mark.spec("A11", "R2")
@pytest.mark.parametrize("until", ["2027-01-31T18:00Z", "2027-01-31T18:00:00Z", "2027-01-31T19:00+01:00"])
def test_a_user_logs_in_until_the_end_of_its_credential(tmp_path: Path, until: str) -> None:
    files = Users(tmp_path)
    files.put(f"users: {{bob: {{password.file: bob.password, until: {until}}}}}", files.path)
    users, end_ms = files.watched(), 1_801_418_400_000

    def outcome(now_ms: int) -> Any:
        checked = PlainExchange(users.known).respond(plain_token("bob"), now_ms)
        return checked.work() if isinstance(checked, Deferred) else checked

    for _ in ("verified", "remembered"):
        accepted = outcome(end_ms - 1)
        assert isinstance(accepted, Accepted)
        assert accepted.expires_at_ms == end_ms
        rejected = outcome(end_ms)
        assert isinstance(rejected, Rejected)
        assert rejected.message == "Authentication failed: Invalid username or password"
        assert rejected.reason == "the credential of 'bob' has ended"


@pytest.mark.spec("A11", "O8")
def test_check_warns_of_a_user_whose_credential_has_ended(tmp_path: Path) -> None:
    files = Users(tmp_path)
    files.secret.chmod(0o600)
    entries = "".join(
        f"  {name}: {{password.file: bob.password, until: {year}-01-31T18:00Z}}\n"
        for name, year in (("bob", 2001), ("carol", 2999))
    )
    files.put(f"users:\n{entries}", files.path)

    assert checked_users(files.path).warnings == [
        f"{files.path}: users > bob > until: is past, so bob cannot log in; remove the user"
    ]


@pytest.mark.spec("A11", "R10")
@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [(7, 8, True), (7, 7, True), (7, None, True), (None, None, True), (7, 6, False), (None, 7, False)],
)
def test_only_an_earlier_end_ends_the_sessions_of_a_user(
    before: int | None, after: int | None, holds: bool
) -> None:
    known = PlainUsers({"alice": StoredUser(keyed_password("a-secret"), (), before)})
    login = known.verify("alice", "a-secret")
    assert login is not None
    assert login.still_valid is not None
    known.replace({"alice": StoredUser(keyed_password("a-secret"), (), after)})

    assert login.still_valid() is holds


@pytest.mark.spec("A8")
def test_a_user_has_the_groups_of_the_file(tmp_path: Path) -> None:
    files = Users(tmp_path)
    document = yaml.safe_load(files.path.read_text())
    document["users"]["bob"]["groups"] = ["payments", "ops: eu", "payments"]
    files.put(yaml.safe_dump(document), files.path)
    users = files.watched()

    def principal(user: str) -> Principal:
        checked = PlainExchange(users.known).respond(plain_token(user), 0)
        outcome = checked.work() if isinstance(checked, Deferred) else checked
        assert isinstance(outcome, Accepted)
        return outcome.principal

    for _ in ("verified", "remembered"):
        assert principal("bob").groups == ("ops: eu", "payments")
        assert principal("alice").groups == ()


@pytest.mark.spec("A8", "R10")
def test_who_gets_other_groups_logs_in_with_these_and_an_older_login_is_not_valid_any_more() -> None:
    def users(*groups: str) -> dict[str, StoredUser]:
        return {"alice": StoredUser(keyed_password("a-secret"), groups)}

    known = PlainUsers(users("ops"))
    before = known.verify("alice", "a-secret")
    assert before is not None
    assert before.still_valid is not None
    known.replace(users("ops"))
    assert before.still_valid()

    known.replace(users("dev"))
    after = known.remembered("alice", "a-secret")
    assert after is not None
    assert after.groups == ("dev",)
    assert not before.still_valid()


@pytest.mark.spec("R9", "R10")
def test_a_remembered_password_is_wrong_once_another_one_is_in_effect() -> None:
    known = PlainUsers({"alice": StoredUser(keyed_password("a-secret"))})
    assert known.verify("alice", "a-secret") is not None
    assert known.remembered("alice", "a-secret") is not None

    known.replace({"alice": StoredUser(keyed_password("another"))})
    assert known.remembered("alice", "a-secret") is None
    assert known.verify("alice", "a-secret") is None


@pytest.mark.spec("R10")
@on_uvloop
async def test_who_is_taken_out_of_the_file_is_cut_off_at_once_where_that_is_wanted(tmp_path: Path) -> None:
    files = Users(tmp_path)
    users = WatchedUsers(
        files.path, FileReloads(files.registry), lambda: revocations.credentials_changed(), INTERVAL_MS
    )
    listener = sasl_listener(LISTENER, Credentials(users.known, lambda: None))
    async with a_broker() as broker, an_edge(a_gate(), broker.address, listener) as edge:
        revocations = Revocations(lambda: iterate_in_slices(list(edge.listener.connections)))
        alice, bob = await logged_in(edge, "alice"), await logged_in(edge, "bob")
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(part) for part in (users.run(), revocations.run())]
            files.put(yaml.safe_dump({"users": {"bob": {"password.file": "bob.password"}}}), files.path)

            assert await alice.is_cut_off() == b""
            for task in background:
                task.cancel()
        assert edge.reasons == ["session_revoked"]
        (event,) = [event for event in edge.events if event.event == "session_revoked"]
        assert event.principal == "User:alice"
        bob.asks(ApiKey.API_VERSIONS, 2, t.ApiVersionsRequest())
        assert (await bob.hears(ApiKey.API_VERSIONS, 2)).error_code == 0


@pytest.mark.spec("R10", "O8")
@on_uvloop
async def test_credentials_that_change_all_the_time_leave_the_loop_to_others() -> None:
    checks = 0

    async def connections() -> AsyncIterator[Connection]:
        nonlocal checks
        checks += 1
        await asyncio.sleep(0.02)  # As tens of thousands of connections take.
        for connection in list[Connection]():
            yield connection

    revocations = Revocations(connections)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(revocations.run())
        for _ in range(500):
            revocations.credentials_changed()
            await asyncio.sleep(0.001)
        running.cancel()

    # A fifth of the time; it would be 25 or more.
    assert 1 <= checks <= 10
