"""Who is turned away at real sockets: by number and by rate, plain and under TLS; and what stays behind."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.quota.connections import TOO_FAST, TOO_MANY_OF_ADDRESS, AcceptRates, ConnectionLimits
from proxy.session.gate import Gate
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.net.test_tls_listener import (
    Authority,
    a_tls_edge,
    is_turned_away,
    policy_with,
    principal_of,
    tls_of,
)
from tests.support.edges import Edge, a_gate, an_edge, an_edge_and_its_broker, on_uvloop
from tests.support.images import image_of, quota_record

pytestmark = pytest.mark.spec("Q12", "O6")

TWO = ConnectionLimits(max_connections_per_ip=2)


async def served(edge: Edge) -> Any:
    client = await edge.client()
    client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
    await client.hears(ApiKey.API_VERSIONS, 0)
    return client


def limited(gate: Gate, rate: float | None) -> None:
    assert gate.image is not None
    gate.image = image_of(
        quota_record("connection_creation_rate", rate or 0.0, remove=rate is None, ip="127.0.0.1"),
        base=gate.image,
    )


@on_uvloop
async def test_one_too_many_of_an_address_is_closed_until_another_one_leaves() -> None:
    async with an_edge_and_its_broker(limits=TWO) as (edge, _):
        first, _second = await served(edge), await served(edge)

        assert await (await edge.client()).is_cut_off() == b""
        assert (edge.reasons, edge.opened_count) == ([TOO_MANY_OF_ADDRESS], 2)

        first.leaves()
        await edge.until(lambda: edge.quotas.count == 1)
        await served(edge)


@on_uvloop
async def test_one_who_hurries_hears_nothing_and_is_closed_and_the_quota_can_be_taken_back() -> None:
    gate = a_gate()
    async with an_edge(gate, "127.0.0.1:1") as edge:
        limited(gate, 0.2)
        await served(edge)
        await served(edge)

        third = await edge.client()
        third.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())

        assert await third.is_cut_off() == b""
        assert (edge.reasons, edge.opened_count, edge.quotas.count) == ([TOO_FAST], 2, 2)
        limited(gate, None)
        await served(edge)


@on_uvloop
async def test_in_observe_mode_one_who_hurries_is_served_and_told_of_in_the_log() -> None:
    gate = a_gate()
    gate.quotas.enforced = False
    async with an_edge(gate, "127.0.0.1:1") as edge:
        limited(gate, 0.1)
        with capture_logs() as lines:
            await served(edge)
            await served(edge)

        assert (edge.reasons, edge.opened_count) == ([], 2)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
        "connection would be rejected"
    ]


@on_uvloop
async def test_one_who_hurries_is_not_even_shaken_hands_with(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth="required")) as (edge, _):
        limited(edge.gate, 0.1)
        await principal_of(edge, authority.client("alice"))

        await is_turned_away(edge, authority.client("alice"))

        await edge.until(lambda: edge.quotas.count == 0)
        assert edge.reasons == ["client_closed", TOO_FAST]
        assert edge.events == [event for event in edge.events if event.event != "authentication_failed"]


@on_uvloop
async def test_a_handshake_that_fails_gives_its_place_back(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth="required")) as (edge, _):
        for _ in range(3):
            await is_turned_away(edge, authority.client(None))

        await edge.until(lambda: edge.quotas.count == 0)
        assert await principal_of(edge, authority.client("alice")) == "User:alice"


@on_uvloop
async def test_a_certificate_without_a_principal_gives_its_place_back(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with a_tls_edge(tls_of(authority, client_auth="required"), "RULE:^CN=service-(.*)$/$1/") as (
        edge,
        _,
    ):
        await is_turned_away(edge, authority.client("alice"))

        await edge.until(lambda: len(edge.events) == 1 and edge.quotas.count == 0)


@on_uvloop
async def test_lines_about_rejected_connections_are_sampled() -> None:
    async with an_edge_and_its_broker(limits=ConnectionLimits(max_connections_per_ip=0)) as (edge, _):
        with capture_logs() as lines:
            await (await edge.client()).is_cut_off()

    (line,) = [line for line in lines if line["event"] == "connection rejected"]
    assert (line["reason"], line["stranger"]) == (TOO_MANY_OF_ADDRESS, True)


@on_uvloop
async def test_who_comes_faster_than_a_listener_accepts_waits_and_is_served() -> None:
    rates = AcceptRates(None, {"SASL": 1}, window_num=2)
    async with an_edge_and_its_broker(accept_rates=rates) as (edge, _):
        clients = [await edge.client() for _ in range(3)]
        for client in clients:
            client.asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
        for client in clients:
            await client.hears(ApiKey.API_VERSIONS, 0)

        assert (edge.reasons, edge.opened_count, edge.quotas.count) == ([], 3, 3)
        assert 0 < edge.admission.accept_waited_ms["SASL"] <= 2_000


@on_uvloop
async def test_a_handshake_waits_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = {"tls": tls_of(authority, client_auth="required"), "policy": policy_with({})}
    rates = AcceptRates(1, window_num=2)
    async with an_edge_and_its_broker(accept_rates=rates, **settings) as (edge, _):
        for _ in range(2):
            await principal_of(edge, authority.client("alice"))

        assert edge.reasons == ["client_closed"] * 2
        assert list(edge.admission.accept_waited_ms) == [edge.listener.policy.name]
        assert edge.admission.accept_waited_ms[edge.listener.policy.name] <= 1_000


@on_uvloop
async def test_a_listener_that_closes_while_it_waits_lets_go_whom_it_holds() -> None:
    rates = AcceptRates(0, window_num=2, window_size_seconds=3_600)
    async with an_edge_and_its_broker(accept_rates=rates) as (edge, _):
        held = await edge.client()
        await edge.until(lambda: edge.admission.accept_waited_ms["SASL"] > 0)

        edge.listener.stop_accepting()

        assert await held.is_cut_off() == b""
        assert edge.opened_count == 0
