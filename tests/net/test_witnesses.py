"""Proxy and controller exchange the ends of their audit trails, and each records that of the other."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from forwarding.envelope import AUTHORIZER_NOT_READY, Sender
from forwarding.net import forwarder as forwarder_module
from forwarding.net.connection import MIN_WITNESS_INTERVAL_MS, ControllerConnection, ListenerContext
from forwarding.net.metrics import ControllerMetrics
from forwarding.net.server import Server
from forwarding.versions import (
    AUDIT_END_TAG,
    ENVELOPE_ERROR_TAG,
    SAME_ID_TAG,
    TRANSACTIONAL_ID_TAG,
    witness_request,
)
from proxy.audit.chain import LONGEST_END, Chain, witnessed_end
from proxy.audit.checkpoints import Checkpoint, Signer
from proxy.audit.record import AuditEvent
from proxy.net.audit import audit_log as audit_log_module
from proxy.net.audit.spool import Spool
from proxy.net.audit.writer import Fsync
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.logins.verification import Verifications
from proxy.net.runtime.clock import now_ms
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.net.test_audit_log_and_http import AUTHOR, running
from tests.net.test_audit_path import SlowDisk, an_audit_log, fill
from tests.net.test_controller_logins import Endpoint, asked, logged_in
from tests.support.controllers import FILES, a_forwarder, controller_config
from tests.support.edges import on_uvloop
from tests.support.signing import signing_key
from tests.support.waiting import turns_until

pytestmark = pytest.mark.spec("D8")

LINK = "ab" * 32
OF_PROXY, OF_CONTROLLER = f"proxy-1/b007/41/{LINK}", f"controller-1/b008/7/{LINK}"


@pytest.mark.parametrize("end", [OF_PROXY, f"a/b/c/-1/{LINK}", f"ä/b/{10**17}/{LINK}"])
def test_an_end_of_a_trail_is_taken_as_it_is(end: str) -> None:
    assert witnessed_end(end.encode()) == end


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"proxy-1/b007/41/",
        OF_PROXY.encode()[:-1],
        OF_PROXY.encode() + b"\n",
        f"proxy-1/b007/-2/{LINK}".encode(),
        f"proxy\n1/b007/4/{LINK}".encode(),
        f"{'p' * LONGEST_END}/b007/4/{LINK}".encode(),
    ],
)
def test_anything_else_is_none(text: bytes) -> None:
    assert witnessed_end(text) is None


@on_uvloop
async def test_a_controller_records_the_end_that_an_authenticated_proxy_sends() -> None:
    endpoint = Endpoint()
    object.__setattr__(endpoint.context, "audit_end", lambda: OF_CONTROLLER)
    connection = endpoint.connection()

    async def witness(end: str) -> bytes | None:
        _, response = await asked(connection, ApiKey.API_VERSIONS, 3, witness_request(end))
        tags: dict[int, bytes] = response.unknown_tags
        assert TRANSACTIONAL_ID_TAG in tags
        return tags.get(AUDIT_END_TAG)

    assert await witness(OF_PROXY) is None
    await logged_in(connection)
    assert await witness("no end") is None
    assert await witness(OF_PROXY) == OF_CONTROLLER.encode()
    # A peer that does it all the time is answered, and recorded as often as it may be.
    assert await witness(OF_PROXY) == OF_CONTROLLER.encode()
    endpoint.uptime_ms += MIN_WITNESS_INTERVAL_MS
    assert await witness(OF_PROXY) == OF_CONTROLLER.encode()

    seen = [event for event in endpoint.events if event.event == "witnessed"]
    assert [(e.message, e.principal, e.host, e.listener) for e in seen] == [
        (OF_PROXY, "User:proxy-1", "10.0.0.1", "CONTROLLER")
    ] * 2


@pytest.mark.spec("D14", "O5")
@on_uvloop
async def test_a_signed_end_is_recorded_and_names_its_process_like_another_one() -> None:
    endpoint = Endpoint()
    object.__setattr__(endpoint.context, "audit_end", lambda: OF_CONTROLLER)
    connection = endpoint.connection()
    await logged_in(connection)
    signer = Signer("proxy-1", signing_key("proxy-1"))
    told = []
    for boot_id in ("b007", "b008", "b007", "b008"):
        end = signer.signed(Checkpoint("proxy-1", boot_id, 42, LINK, endpoint.now_ms).text())
        _, response = await asked(connection, ApiKey.API_VERSIONS, 3, witness_request(end))
        told.append(response.unknown_tags.get(SAME_ID_TAG))
        endpoint.uptime_ms += MIN_WITNESS_INTERVAL_MS

    seen = [event.message for event in endpoint.events if event.event == "witnessed"]
    assert [Checkpoint.parse(message or "").boot_id for message in seen] == ["b007", "b008"] * 2  # type: ignore[union-attr]
    assert told[-1] == b"boot b007 on host 10.0.0.1"


@pytest.mark.spec("D8", "D15", "O5")
@on_uvloop
async def test_a_clock_that_is_set_back_stops_no_witness_and_makes_no_second_process_of_a_restarted_one() -> (
    None
):
    endpoint = Endpoint()
    told = []

    async def witnessed(boot_id: str, connection: ControllerConnection) -> None:
        request = witness_request(f"proxy-1/{boot_id}/41/{LINK}")
        _, response = await asked(connection, ApiKey.API_VERSIONS, 3, request)
        told.append(response.unknown_tags.get(SAME_ID_TAG))
        endpoint.now_ms += MIN_WITNESS_INTERVAL_MS
        endpoint.uptime_ms += MIN_WITNESS_INTERVAL_MS

    for boot_id in ("b007", "b008"):
        connection = endpoint.connection()
        await logged_in(connection)
        for _look in range(4):
            await witnessed(boot_id, connection)
        endpoint.now_ms -= 3 * MIN_WITNESS_INTERVAL_MS
    await witnessed("b008", connection)

    seen = [event.message for event in endpoint.events if event.event == "witnessed"]
    assert told == [None] * 9
    assert seen == [f"proxy-1/b00{boot}/41/{LINK}" for boot in (7, 7, 7, 7, 8, 8, 8, 8, 8)]


@pytest.mark.spec("E4", "O5")
@on_uvloop
async def test_only_a_peer_that_has_logged_in_gets_the_error_of_its_envelopes() -> None:
    endpoint = Endpoint()
    senders = list[Sender]()

    def envelope_error(sender: Sender) -> int:
        senders.append(sender)
        return AUTHORIZER_NOT_READY

    object.__setattr__(endpoint.context, "envelope_error", envelope_error)
    connection = endpoint.connection()
    request = types.ApiVersionsRequest(client_software_name="check", client_software_version="1")
    request.unknown_tags = {ENVELOPE_ERROR_TAG: b""}

    async def tags() -> dict[int, bytes]:
        _, response = await asked(connection, ApiKey.API_VERSIONS, 3, request)
        return dict(response.unknown_tags)

    assert ENVELOPE_ERROR_TAG not in await tags()
    await logged_in(connection)
    assert (await tags())[ENVELOPE_ERROR_TAG] == AUTHORIZER_NOT_READY.to_bytes(2, "big")

    assert [(str(sender.principal), sender.host) for sender in senders] == [("User:proxy-1", "10.0.0.1")]
    assert [event.event for event in endpoint.events] == ["authentication"]


@asynccontextmanager
async def a_controller(
    versions: Callable[[], dict[int, tuple[int, int]]], record: Callable[[AuditEvent], None]
) -> AsyncIterator[EndpointSettings]:
    """Penstock's, whose clock goes on by MIN_WITNESS_INTERVAL_MS at each look."""
    clock = itertools.count(step=MIN_WITNESS_INTERVAL_MS)

    async def serve(*_envelope: Any) -> Any:
        raise AssertionError("no Envelope comes here")

    context = ListenerContext(
        *("CONTROLLER", None, versions, serve, record, now_ms, Verifications(CollectorRegistry())),
        monotonic_ms=clock.__next__,
        transactional_id="ours",
        audit_end=lambda: OF_CONTROLLER,
    )
    server = Server(controller_config(), FILES, None, context, ControllerMetrics(CollectorRegistry()))
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(20):
        run = tasks.create_task(server.run())
        await server.listening.wait()
        yield EndpointSettings(host="127.0.0.1", port=server.port)
        server.drain()
        await asyncio.wait([run])


@on_uvloop
async def test_a_proxy_and_its_controller_witness_each_other_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder_module, "WITNESS_INTERVAL_MS", 1)
    recorded: list[AuditEvent] = []
    seen: list[str] = []
    async with a_controller(dict, recorded.append) as endpoint, a_forwarder(endpoint) as forwarder:
        forwarder.audit_end = lambda: OF_PROXY
        forwarder.on_witnessed = seen.append
        await turns_until(lambda: len(seen) > 1)

    assert set(seen) == {OF_CONTROLLER}
    assert {(event.event, event.message) for event in recorded} == {("witnessed", OF_PROXY)}
    assert len(recorded) > 1


@pytest.mark.spec("O5", "D15")
@on_uvloop
async def test_the_controller_tells_each_of_two_proxies_of_one_id_where_the_other_one_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder_module, "WITNESS_INTERVAL_MS", 1)
    told: dict[str, list[str | None]] = {"b001": [], "b002": [], "alone": []}
    async with (
        a_controller(dict, lambda _event: None) as endpoint,
        a_forwarder(endpoint) as one,
        a_forwarder(endpoint) as twin,
        a_forwarder(endpoint) as another,
    ):
        forwarders = (one, twin, another)
        keys = ("proxy-1/b001", "proxy-1/b002", "proxy-2/alone")
        for forwarder, key in zip(forwarders, keys, strict=True):
            forwarder.on_same_id = told[key.split("/")[1]].append
            forwarder.audit_end = f"{key}/41/{LINK}".__str__
        await turns_until(lambda: any(told["b001"]) and any(told["b002"]) and len(told["alone"]) > 3)

    assert set(told["b001"]) - {None} == {"boot b002 on host 127.0.0.1"}
    assert set(told["b002"]) - {None} == {"boot b001 on host 127.0.0.1"}
    assert set(told["alone"]) == {None}


@pytest.mark.spec("E8", "O10")
@on_uvloop
async def test_a_proxy_learns_the_versions_of_a_controller_whose_broker_was_upgraded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forwarder_module, "WITNESS_INTERVAL_MS", 1)
    before, after = {int(ApiKey.UPDATE_FEATURES): (0, 1)}, {int(ApiKey.UPDATE_FEATURES): (0, 2)}
    versions, offered = [before], list[Mapping[int, tuple[int, int]]]()
    async with (
        a_controller(lambda: versions[-1], lambda _event: None) as endpoint,
        a_forwarder(endpoint, on_api_versions=offered.append) as forwarder,
    ):
        forwarder.audit_end = lambda: OF_PROXY
        await turns_until(lambda: len(offered) == 1)
        versions.append(after)
        await turns_until(lambda: len(offered) > 1)

    assert [{key: each.get(key) for key in after} for each in offered] == [before, after]


async def test_an_end_moves_on_though_the_latest_record_is_never_written_yet(tmp_path: Path) -> None:
    audit = an_audit_log(Spool(tmp_path, 1 << 24), fsync=Fsync.NEVER)
    audit.append(AuditEvent(event="authentication"))
    audit.writer.on_written()
    # Without a turn of the loop nothing else writes.
    audit.writer.written_count = 1
    audit.append(AuditEvent(event="authentication"))
    audit.writer.on_written()

    assert audit.end.startswith(f"{AUTHOR.key.decode()}/0/")


async def test_an_end_is_of_a_record_that_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a disk that hangs would be lost with the process, and is not to be missed then."""
    # A look at the segment would find the pipe in its place.
    monkeypatch.setattr(audit_log_module, "WATCH_INTERVAL_MS", 2**62)
    start = f"{AUTHOR.key.decode()}/-1/{Chain(AUTHOR.key).last}"
    spool = Spool(tmp_path, 1 << 24)
    async with running(an_audit_log(spool, fsync=Fsync.NEVER)) as audit, asyncio.timeout(20):
        assert audit.end == start
        audit.append(AuditEvent(event="authentication"))
        await turns_until(lambda: audit.end != start)
        written = audit.end
        assert written.startswith(f"{AUTHOR.key.decode()}/0/")

        disk = SlowDisk(spool)
        fill(
            audit, AuditEvent(event="authorization_summary", message="s" * 2_000), lambda: audit.sequence > 30
        )
        # A report of what was written before comes late.
        audit.writer.on_written()
        assert audit.end == written
        disk.answers()
        await turns_until(lambda: audit.end.startswith(f"{AUTHOR.key.decode()}/30/"))
    await audit.close(1_000)
