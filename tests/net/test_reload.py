"""SIGHUP and `penstock reload` at lone processes: what changes, what stays, and that nobody is dropped."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.commands.reload_and_restart import EXIT_CONFIG, EXIT_NO_OUTCOME, EXIT_RESTART, reload
from proxy.net.runtime.clock import now_ms
from proxy.net.telemetry.status_files import ReloadStatus
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import probe
from tests.lab.cluster.ports import free_addresses
from tests.net.test_ends_of_certificates import Office
from tests.support.edges import Client
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, LoneProcess, a_lone
from tests.support.office_certificates import OfficeCertificates

pytestmark = [pytest.mark.spec("O9"), pytest.mark.slow]


def edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(yaml.safe_dump(document), encoding="utf-8")


async def reloaded(lone: LoneProcess, spool: Path) -> ReloadStatus:
    """The outcome of a SIGHUP: of a reload that began after it, and not of one that was under way."""
    asked_ms = now_ms() + 1
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while now_ms() < asked_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        lone.process.send_signal(signal.SIGHUP)
        while (status := ReloadStatus.read(spool)) is None or status.began_ms < asked_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return status


async def is_served(client: Client) -> bool:
    client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
    return bool((await client.hears(ApiKey.API_VERSIONS, 0)).api_keys)


async def asks_for_a_token(lone: LoneProcess) -> bool:
    """Whether the HTTP port shows pages that name users to those only who have one."""
    status, _ = await asyncio.to_thread(probe.get, lone.http, "/audit")
    assert (await asyncio.to_thread(probe.get, lone.http, "/livez"))[0] == 200
    return status == 401


def wants_a_token(document: dict[str, Any], directory: Path) -> None:
    (directory / "token").write_text("0123456789abcdef", encoding="utf-8")
    document["http"]["bearer.token.file"] = "token"


def settings_on_record(spool: Path) -> list[tuple[int, str]]:
    """What reloads have changed in this spool: the number of the settings, and who the super users are."""
    lines = [line for path in spool.glob("*.spool") for line in path.read_bytes().split(b"\n")]
    records = [json.loads(line[line.index(b"{") :])["data"] for line in lines if b"{" in line]
    return [
        (record["settings_generation"], record["settings"]["super.users"])
        for record in records
        if record["event"] == "settings_changed"
    ]


async def command(file: Path) -> int:
    return await asyncio.to_thread(reload, file, None, int(1000 * SHOULD_NOT_TAKE_S))


async def lines(lone: LoneProcess, event: str, count: int = 1) -> list[dict[str, Any]]:
    """At least so many, which are written a little after what they report."""
    async with asyncio.timeout(SHOULD_NOT_TAKE_S):
        while True:
            rows = (json.loads(line) for line in lone.output.read_text(encoding="utf-8").split("\n")[:-1])
            found = [row for row in rows if row["event"] == event]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.02)


async def test_a_changed_file_is_in_effect_and_connections_stay(tmp_path: Path) -> None:
    (other,) = free_addresses(1)
    async with a_lone("proxy", tmp_path) as lone:
        file, client = tmp_path / "proxy.yaml", await lone.logs_in()

        def change(document: dict[str, Any]) -> None:
            (listener,) = document["listeners"]
            document["listeners"].append({**listener, "name": "SECOND", "bind": other})
            document["connections.max.reauth.ms"] = 60_000
            document["log"] = {"level": "WARNING"}
            wants_a_token(document, tmp_path)

        assert not await asks_for_a_token(lone)
        edit(file, change)
        status = await reloaded(lone, tmp_path / "spool")
        assert (status.error, status.restart) == (None, [])
        assert sorted(status.changed) == [
            "connections.max.reauth.ms",
            "http > bearer.token.file",
            "listeners > SECOND",
            "log > level",
        ]

        assert await asks_for_a_token(lone)
        assert await is_served(client)
        again = await lone.login()
        assert (await again.hears(ApiKey.SASL_AUTHENTICATE, 2)).session_lifetime_ms == 60_000


@pytest.mark.spec("O15")
async def test_the_outcome_is_one_object_with_the_same_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def outcome(change: Callable[[dict[str, Any]], None]) -> tuple[int, dict[str, Any]]:
        edit(tmp_path / "proxy.yaml", change)
        exit_code = await asyncio.to_thread(
            partial(reload, tmp_path / "proxy.yaml", None, int(1000 * SHOULD_NOT_TAKE_S), as_json=True)
        )
        told = json.loads(capsys.readouterr().out)
        assert told["exit_code"] == exit_code
        return exit_code, told

    async with a_lone("proxy", tmp_path):
        _, changed = await outcome(lambda document: document.update({"connections.max.reauth.ms": 60_000}))
        exit_code, later = await outcome(
            lambda document: document.update({"metadata": {"topic": "elsewhere"}})
        )
        invalid, errors = await outcome(lambda document: document.update({"proxy.idd": "p"}))

    assert (changed["changed"], changed["restart"]) == (["connections.max.reauth.ms"], [])
    assert (exit_code, len(later["restart"])) == (EXIT_RESTART, 1)
    assert (invalid, "proxy.idd" in errors["errors"][0]) == (EXIT_CONFIG, True)


@pytest.mark.spec("R11")
async def test_a_session_ends_when_a_new_list_revokes_its_certificate(tmp_path: Path) -> None:
    (bind,) = free_addresses(1)
    office = Office(tmp_path)
    (alice, serial), (bob, _) = office.client("alice"), office.client("bob")
    office.revokes([])
    ssl_settings = {
        "certificate": str(office.server.certificate),
        "key": str(office.server.key),
        "client.auth": "required",
        "ca": str(tmp_path / "ca.pem"),
        "crl": str(office.crl),
    }

    def change(document: dict[str, Any]) -> None:
        document["sessions.revoke.immediately"] = True
        document["authorizer"]["early.start.listeners"] = ["SASL", "TLS"]
        document["listeners"].append(
            {"name": "TLS", "bind": bind, "security.protocol": "SSL", "ssl": ssl_settings}
        )

    async with a_lone("proxy", tmp_path) as lone:
        edit(tmp_path / "proxy.yaml", change)
        assert (await reloaded(lone, tmp_path / "spool")).error is None
        host, _, port = bind.rpartition(":")
        clients = [
            Client(*await asyncio.open_connection(host, int(port), ssl=tls, server_hostname="localhost"))
            for tls in (alice, bob)
        ]
        lone.clients.extend(clients)
        for client in clients:
            assert await is_served(client)
        office.revokes([serial])

        assert await clients[0].is_cut_off() == b""
        assert await is_served(clients[1])


async def test_listeners_open_move_and_close_while_others_are_served(tmp_path: Path) -> None:
    second, third = free_addresses(2)
    async with a_lone("proxy", tmp_path) as lone:
        file, spool, first = tmp_path / "proxy.yaml", tmp_path / "spool", await lone.logs_in()

        def listeners(*named: tuple[str, str]) -> Callable[[dict[str, Any]], None]:
            def change(document: dict[str, Any]) -> None:
                like = document["listeners"][0]
                document["listeners"] = [{**like, "name": name, "bind": bind} for name, bind in named]
                document["authorizer"]["early.start.listeners"] = [name for name, _ in named]

            return change

        edit(file, listeners(("SASL", lone.bind), ("SECOND", second)))
        assert (await reloaded(lone, spool)).error is None
        of_second = await replace(lone, bind=second).logs_in()

        # Each takes the other's name, and one of them another address.
        edit(file, listeners(("SECOND", lone.bind), ("SASL", third)))
        assert (await reloaded(lone, spool)).error is None
        assert await is_served(await lone.logs_in())
        assert await is_served(await replace(lone, bind=third).logs_in())
        with pytest.raises(ConnectionError):
            await replace(lone, bind=second).client()
        assert [await is_served(client) for client in (first, of_second)] == [True, True]

        # One is removed: its clients are drained, those of the other stay.
        edit(file, listeners(("SECOND", lone.bind)))
        status = await reloaded(lone, spool)
        assert (status.error, status.changed) == (
            None,
            ["listeners > SASL", "authorizer > early.start.listeners"],
        )
        assert await first.is_cut_off() == b""
        assert await is_served(of_second)
        assert await lone.stops() == 0


async def test_a_broken_file_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        file, client = tmp_path / "proxy.yaml", await lone.logs_in()
        good = file.read_text(encoding="utf-8")

        def change(document: dict[str, Any]) -> None:
            document["connections.max.reauth.ms"] = 60_000
            document["limits"] = {"max.connection": 7}

        edit(file, change)
        status = await reloaded(lone, tmp_path / "spool")
        assert status.error is not None
        assert "limits > max.connection: " in status.error

        again = await lone.login()
        assert (await again.hears(ApiKey.SASL_AUTHENTICATE, 2)).session_lifetime_ms == 0
        assert await is_served(client)
        assert await command(file) == EXIT_CONFIG
        series = await lone.metrics()
        assert series['penstock_file_reloads_total{file_kind="configuration",outcome="failed"}'] == 1
        line, *_ = await lines(lone, "configuration not reloaded: the previous one stays in effect")
        assert line["error"] == status.error

        file.write_text(good, encoding="utf-8")
        assert await command(file) == 0


async def test_keys_that_need_a_restart_are_named_and_the_rest_is_in_effect(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        file = tmp_path / "proxy.yaml"

        def change(document: dict[str, Any]) -> None:
            document["proxy.id"] = "proxy-2"
            document["authorizer"]["super.users"] = "User:admin;User:bob"
            document["quota"] = {"window.num": 7}
            document["audit"]["rate.per.principal"] = 7

        edit(file, change)
        assert await command(file) == EXIT_RESTART
        # A second time nothing is left to change, and the keys are still named.
        assert await command(file) == EXIT_RESTART

        told = capfd.readouterr()
        assert told.out.count("audit > rate.per.principal: in effect") == 1
        assert told.err.count("proxy.id needs a restart; proxy-1 stays in effect\n") == 2
        assert "quota > window.num needs a restart; 11 stays in effect\n" in told.err
        assert await lone.metric("penstock_config_restart_needed", lambda keys: keys == 2) == 2
        assert await lone.stops() == 0
    records = [
        line for path in (tmp_path / "spool").glob("*.spool") for line in path.read_bytes().split(b"\n")
    ]
    (record, _) = [line for line in records if b"configuration_changed" in line]
    assert b'"changed":"authorizer > super.users, audit > rate.per.principal"' in record
    assert b'"restart.needed":"proxy.id needs a restart; proxy-1 stays in effect, ' in record
    assert settings_on_record(tmp_path / "spool") == [(1, "User:admin;User:bob")]
    # Nobody answers any more.
    assert await command(file) == EXIT_NO_OUTCOME


async def test_no_client_notices_reloads_under_load_nor_does_the_process_end(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path) as lone:
        file, ended = tmp_path / "proxy.yaml", asyncio.Event()
        good = file.read_text(encoding="utf-8")

        async def load(client: Client) -> int:
            served = 0
            while not ended.is_set():
                assert await is_served(client)
                served += 1
            return served

        clients = [await lone.logs_in() for _ in range(5)]
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(load(client)) for client in clients]
            for number in range(10):
                document = yaml.safe_load(good)
                document["limits"] = {"connections.max.idle.ms": 600_000 + number}
                document["listeners"][0]["connection.failed.authentication.delay.ms"] = number
                # Every other time half a file, and several signals at once.
                text = yaml.safe_dump(document)
                file.write_text(text if number % 2 else text[: len(text) // 2] + "\n :", encoding="utf-8")
                for _ in range(3):
                    lone.process.send_signal(signal.SIGHUP)
                assert ((await reloaded(lone, tmp_path / "spool")).error is None) == bool(number % 2)
            ended.set()
        assert all(task.result() > 10 for task in running)
        assert await lone.stops() == 0


@pytest.mark.parametrize("command_name", ["proxy", "controller"])
async def test_sighup_at_any_time_does_not_end_a_process(tmp_path: Path, command_name: str) -> None:
    async with a_lone(command_name, tmp_path, hangups=True) as lone:
        lone.process.send_signal(signal.SIGHUP)
        lone.process.send_signal(signal.SIGTERM)
        while lone.process.returncode is None:
            # Not send_signal, which would take the exit code away from the loop.
            with suppress(ProcessLookupError):
                os.kill(lone.process.pid, signal.SIGHUP)
            await asyncio.sleep(0.001)
        assert lone.process.returncode == 0


async def test_a_controller_reloads_too(tmp_path: Path) -> None:
    async with a_lone("controller", tmp_path) as lone:
        file, client = tmp_path / "controller.yaml", await lone.logs_in()

        def change(document: dict[str, Any]) -> None:
            document["connections.max.reauth.ms"] = 60_000
            document["metadata"] = {"topic": "elsewhere"}
            document["authorizer"]["super.users"] = "User:admin;User:proxy-2"
            document["quota"] = {"mode": "observe"}
            wants_a_token(document, tmp_path)

        edit(file, change)
        assert await command(file) == EXIT_RESTART
        status = ReloadStatus.read(tmp_path / "spool")
        assert status is not None
        assert (status.changed, status.restart) == (
            [
                "connections.max.reauth.ms",
                "authorizer > super.users",
                "quota > mode",
                "http > bearer.token.file",
            ],
            ["metadata > topic needs a restart; __penstock_metadata stays in effect"],
        )
        assert await asks_for_a_token(lone)
        again = await lone.login()
        assert (await again.hears(ApiKey.SASL_AUTHENTICATE, 2)).session_lifetime_ms == 60_000
        assert await is_served(client)
        assert await lone.stops() == 0
    assert settings_on_record(tmp_path / "spool") == [(1, "User:admin;User:proxy-2")]


async def test_all_workers_reload_and_so_does_one_that_starts_later(tmp_path: Path) -> None:
    async with a_lone("proxy", tmp_path, workers=2) as lone:
        file = tmp_path / "proxy.yaml"
        await lone.metric('penstock_workers{state="down"}', lambda count: count == 0)

        def change(document: dict[str, Any]) -> None:
            document["connections.max.reauth.ms"] = 60_000
            document["listeners"][0]["bind"] = "127.0.0.1:2"
            document["authorizer"]["super.users"] = "User:admin;User:bob"

        edit(file, change)
        assert await command(file) == EXIT_RESTART
        status = ReloadStatus.read(tmp_path / "spool")
        assert status is not None
        assert (status.changed, status.restart) == (
            ["connections.max.reauth.ms", "authorizer > super.users"],
            [f"listeners > SASL > bind needs a restart; {lone.bind} stays in effect"],
        )
        reports = await lines(lone, "configuration reloaded", 3)
        told = {report.get("worker"): (report["changed"], report["restart_needed"]) for report in reports}
        of_a_worker: tuple[Any, Any] = (status.changed, [])
        assert told == {0: of_a_worker, 1: of_a_worker, None: (status.changed, status.restart)}

        started = await lines(lone, "worker started")
        os.kill(started[0]["worker_pid"], signal.SIGKILL)
        await lone.metric("penstock_worker_restarts_total", lambda count: count == 1)
        await lone.metric('penstock_workers{state="down"}', lambda count: count == 0)
        for _ in range(8):  # At either worker.
            again = await lone.login()
            assert (await again.hears(ApiKey.SASL_AUTHENTICATE, 2)).session_lifetime_ms == 60_000
        # The supervisor's own port; nobody could read metrics from now on.
        edit(file, lambda document: wants_a_token(document, tmp_path))
        assert await command(file) == EXIT_RESTART
        assert await asks_for_a_token(lone)
        assert await lone.stops() == 0
    # The first boot of each worker: one that starts later begins with them.
    recorded = [settings_on_record(tmp_path / "spool" / place) for place in (".", "worker-1")]
    assert recorded == [[(1, "User:admin;User:bob")]] * 2


NEEDS_ATTENTION = "a certificate needs attention"


def exchange(certificates: OfficeCertificates, directory: Path, ends_in_days: int) -> dict[str, str]:
    """Put another certificate and its key where the process has them, each by a rename."""
    issued = certificates.issue("new", not_after=datetime.now(UTC) + timedelta(days=ends_in_days))
    paths = {"certificate": directory / "server.crt", "key": directory / "server.key"}
    issued.key.rename(paths["key"])
    issued.certificate.rename(paths["certificate"])
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.spec("O12")
@pytest.mark.parametrize(
    ("command", "workers", "section"),
    [("proxy", 1, "controller"), ("proxy", 2, "controller"), ("proxy", 2, "http"), ("controller", 1, "http")],
)
async def test_a_reload_logs_what_is_wrong_with_certificates_as_a_start_does(
    tmp_path: Path, command: str, workers: int, section: str
) -> None:
    certificates = OfficeCertificates(tmp_path)
    files = exchange(certificates, tmp_path, 90)
    changes: dict[str, Any] = {"workers": workers} if command == "proxy" else {}
    if section == "http":
        changes["http"] = {"bind": free_addresses(1)[0], "ssl": files}
    else:
        peer = {"endpoints": ["127.0.0.1:1"], "security.protocol": "SSL"}
        changes["controller"] = peer | {"ssl": {"ca": str(certificates.ca), **files}}
    async with a_lone(command, tmp_path, **changes) as lone:
        if command == "proxy":
            # Each worker has loaded the certificate: what it loads at its start it does not report.
            await lone.row("listening", workers)
        exchange(certificates, tmp_path, -1)
        loaded = await lone.row(NEEDS_ATTENTION)
        await reloaded(lone, tmp_path / "spool")
        again = await lone.row(NEEDS_ATTENTION, 2)
        assert await lone.stops() == 0
        assert len(lone.rows(NEEDS_ATTENTION)) == 2

    assert [row["key"] for row in (loaded, again)] == [f"{section} > ssl > certificate"] * 2
    assert "expired at" in loaded["reason"]
    assert again["reason"] == loaded["reason"]
