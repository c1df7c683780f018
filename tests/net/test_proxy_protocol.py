"""A listener behind a load balancer: the client's address counts, and nothing without a header gets in."""

import asyncio
import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from proxy.net.clients import acceptor, proxy_protocol
from proxy.quota.connections import TOO_MANY_OF_ADDRESS, ConnectionLimits
from proxy.session.gate import ListenerPolicy
from tests.support.edges import Client, Edge, a_server_tls, an_edge_and_its_broker, is_served, on_uvloop

pytestmark = pytest.mark.spec("O14")

HERE = IPv4Network("127.0.0.0/24")
FROM_ALICE = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 9093\r\n"
LOCAL = bytes.fromhex("0d0a0d0a000d0a515549540a 20 00 0000")


def policy(*networks: IPv4Network) -> ListenerPolicy:
    return ListenerPolicy("SASL", None, balancers=networks or (HERE,))


async def reason(edge: Edge) -> tuple[str | None, str | None, str | None]:
    """Of the only record: the mechanism, the address and the text."""
    await edge.until(lambda: bool(edge.events))
    (event,) = edge.events
    assert event.event == "authentication_failed"
    return event.mechanism, event.host, event.message


@pytest.mark.parametrize("pause_s", [0, 0.005], ids=["at once", "byte by byte"])
@on_uvloop
async def test_the_client_has_the_address_of_the_header(pause_s: float) -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        if pause_s:
            client.writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(len(FROM_ALICE)):
                client.writer.write(FROM_ALICE[at : at + 1])
                await asyncio.sleep(pause_s)
        else:
            client.writer.write(FROM_ALICE)
        await is_served(client)

        assert edge.connection.session.peer.host == "192.0.2.7"
        assert edge.connection.session.peer.balancer == "127.0.0.1"
        assert edge.quotas.of_address("192.0.2.7") == 1
        client.leaves()
        await edge.all_gone()
        assert edge.quotas.of_address("192.0.2.7") == 0
        summaries = [event for event in edge.events if event.event == "authorization_summary"]
        assert {(event.host, event.balancer) for event in summaries} == {("192.0.2.7", "127.0.0.1")}


@on_uvloop
async def test_tls_begins_behind_the_header(tmp_path: Path) -> None:
    tls, trusting = a_server_tls(tmp_path)
    async with an_edge_and_its_broker(policy=policy(), tls=tls) as (edge, _):
        plain = socket.create_connection(("127.0.0.1", edge.port))
        plain.sendall(FROM_ALICE)
        streams = await asyncio.open_connection(sock=plain, ssl=trusting, server_hostname="localhost")
        client = Client(*streams)
        edge.clients.append(client)
        await is_served(client)

        assert edge.connection.session.peer.host == "192.0.2.7"


@on_uvloop
async def test_a_balancer_that_speaks_for_itself_has_its_own_address() -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        client.writer.write(LOCAL)
        await is_served(client)

        assert edge.connection.session.peer.host == "127.0.0.1"
        assert edge.connection.session.peer.balancer is None


@on_uvloop
async def test_who_is_no_balancer_is_closed_and_recorded() -> None:
    async with an_edge_and_its_broker(policy=policy(IPv4Network("10.0.0.0/8"))) as (edge, _):
        client = await edge.client()
        client.writer.write(FROM_ALICE)
        assert await client.is_cut_off() == b""

        assert await reason(edge) == (
            "PROXY",
            "127.0.0.1",
            "the address is not in proxy.protocol.networks",
        )
        assert edge.opened_count == 0


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"PROXY TCP4 nobody 127.0.0.1 1 2\r\n", "has an invalid address or port"),
        (b"\0\0\0\x17\0\x12\0\3\0\0\0\1\0\4test", "does not begin with a PROXY protocol header"),
        (FROM_ALICE[:20], "was closed before its PROXY protocol header was complete"),
    ],
)
@on_uvloop
async def test_a_connection_without_a_valid_header_is_closed_and_recorded(sent: bytes, says: str) -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        client.writer.write(sent)
        client.writer.write_eof()
        assert await client.is_cut_off() == b""

        mechanism, host, message = await reason(edge)
        assert (mechanism, host) == ("PROXY", "127.0.0.1")
        assert message is not None
        assert message.endswith(says)


@on_uvloop
async def test_a_header_that_does_not_end_in_time_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_protocol, "HEADER_TIMEOUT_S", 0.2)
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        client.writer.write(FROM_ALICE[:-1])
        assert await client.is_cut_off() == b""

        assert await reason(edge) == ("PROXY", "127.0.0.1", "no PROXY protocol header within 0 s")


@on_uvloop
async def test_a_check_that_the_port_is_open_leaves_no_record() -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        checking = await edge.client()
        checking.writer.write_eof()
        assert await checking.is_cut_off() == b""
        client = await edge.client()
        client.writer.write(FROM_ALICE)
        await is_served(client)

        assert edge.events == []


@on_uvloop
async def test_a_second_header_is_no_header() -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        client.writer.write(FROM_ALICE + b"PROXY TCP4 192.0.2.8 127.0.0.1 40000 9093\r\n")
        assert await client.is_cut_off() == b""

        assert edge.reasons != []


@on_uvloop
async def test_limits_of_an_address_count_the_clients() -> None:
    limits = ConnectionLimits(max_connections_per_ip=1)
    async with an_edge_and_its_broker(policy=policy(), limits=limits) as (edge, _):
        first, other = await edge.client(), await edge.client()
        first.writer.write(FROM_ALICE)
        await is_served(first)
        other.writer.write(FROM_ALICE.replace(b"192.0.2.7", b"192.0.2.8"))
        await is_served(other)
        again = await edge.client()
        again.writer.write(FROM_ALICE)
        assert await again.is_cut_off() == b""

        assert edge.reasons == [TOO_MANY_OF_ADDRESS]


@on_uvloop
async def test_connections_without_a_header_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "MAX_WITHOUT_HEADER", 2)
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        silent = [await edge.client(), await edge.client()]
        await edge.until(lambda: edge.listener.is_beginning)
        late = await edge.client()
        late.writer.write(FROM_ALICE)
        await is_served(late)
        assert await silent[0].is_cut_off() == b""
        assert (await reason(edge))[2] == "no PROXY protocol header before 2 more connections came"
        silent[1].writer.write(FROM_ALICE)
        await is_served(silent[1])


@on_uvloop
async def test_who_has_sent_no_header_does_not_hold_up_the_end_of_the_listener() -> None:
    async with an_edge_and_its_broker(policy=policy()) as (edge, _):
        client = await edge.client()
        await edge.until(lambda: edge.listener.is_beginning)
        edge.listener.stop_accepting()
        assert await client.is_cut_off() == b""
        await edge.until(lambda: not edge.listener.is_beginning)
