"""Clients that change things through a proxy all the while, and controllers that die and freeze under them.

Real processes: two controllers, a proxy. What the clients were told is compared with what the log holds, read
by the real feed: each change once, and each client's changes in its order.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forwarding.net.log import FORWARD_ID_HEADER
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.metadata.transactions import Committed
from proxy.wire import metadata_records, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.ports import free_addresses
from tests.support.controller_processes import controller_file, everything_in, proxy_file, running
from tests.support.controllers import (
    a_forwarder,
    acl_creation,
    acls_request,
    endpoint_of,
    forward,
    plaintext,
)
from tests.support.two_sides import limit_request

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CLIENTS = 4
CHANGES_BETWEEN = 8
"""Of each client before the next misfortune."""
TIMEOUT_S = 90


class Client:
    """Makes one change after another, of three kinds in turn, each different from all others."""

    def __init__(self, name: str, endpoint: EndpointSettings) -> None:
        self.name = name
        self._endpoint = endpoint
        self.acknowledged: list[str] = []
        self._news = asyncio.Event()
        self.over = False

    async def run(self) -> None:
        async with await Channel.open(self._endpoint) as channel:
            while not self.over:
                number = len(self.acknowledged)
                api_key, version, request = self._change(number)
                answer = await channel.request(api_key, version, request, timeout_ms=TIMEOUT_S * 1_000)
                results = answer.entries if api_key == ApiKey.ALTER_CLIENT_QUOTAS else answer.results
                assert [result.error_code for result in results] == [0], answer
                self.acknowledged.append(f"{self.name}/{number}")
                self._news.set()

    async def has(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.acknowledged) < count:
                self._news.clear()
                await self._news.wait()

    def _change(self, number: int) -> tuple[int, int, Any]:
        match number % 3:
            case 0:
                creation = acl_creation(f"{self.name}/{number}")
                return ApiKey.CREATE_ACLS, 3, types.CreateAclsRequest(creations=[creation])
            case 1:
                return ApiKey.ALTER_CLIENT_QUOTAS, 1, limit_request(self.name, float(number))
        scram = types.AlterUserScramCredentialsRequest
        upsertion = scram.ScramCredentialUpsertion(
            name=self.name, mechanism=1, iterations=4096 + number, salt=b"s", salted_password=bytes(32)
        )
        return ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, scram(upsertions=[upsertion])


def changes_in(steps: Sequence[Committed]) -> list[str]:
    """Who made each change and as which one, in the log's order."""
    return [_change(metadata_records.decode_record(value)) for step in steps for value in step.values]


def _change(record: Any) -> str:
    match type(record).__name__:
        case "AccessControlEntryRecord":
            return str(record.resource_name)
        case "ClientQuotaRecord":
            return f"{record.entity[0].entity_name}/{int(record.value)}"
    return f"{record.name}/{record.iterations - 4096}"


async def _opened(endpoint: EndpointSettings) -> None:
    """Until the proxy listens."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                async with await Channel.open(endpoint):
                    return
            except ChannelError:
                await asyncio.sleep(0.1)


@pytest.mark.spec("E5", "E12", "E13")
async def test_each_acknowledged_change_is_in_the_log_once_and_in_order_whatever_becomes_of_controllers(
    kafka: Broker, topic_name: str, tmp_path: Path
) -> None:
    *binds, entrance = free_addresses(3)
    files = [
        controller_file(tmp_path, f"controller-{number}", bind, kafka, topic_name)
        for number, bind in enumerate(binds)
    ]
    proxy = proxy_file(tmp_path, entrance, binds, kafka, topic_name)
    clients = [Client(f"client-{number}", endpoint_of(entrance)) for number in range(CLIENTS)]

    async def all_go_on() -> None:
        wanted = [len(client.acknowledged) + CHANGES_BETWEEN for client in clients]
        await asyncio.gather(*(each.has(count) for each, count in zip(clients, wanted, strict=True)))

    async with running(files[0]) as first, running(proxy, "proxy", "proxy", "-c"):
        await _opened(endpoint_of(entrance))
        async with running(files[1]) as second, asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(client.run()) for client in clients]
            await all_go_on()
            first.kill()
            await all_go_on()
            async with running(files[0]):
                second.send_signal(signal.SIGSTOP)
                await all_go_on()
                second.send_signal(signal.SIGCONT)
                await all_go_on()
                # Back to life, the frozen one finds itself fenced and no longer elected.
                async with a_forwarder(endpoint_of(binds[1])) as to_the_old_one:
                    late, _ = await forward(
                        to_the_old_one, ApiKey.CREATE_ACLS, acls_request("late"), timeout_ms=2_000
                    )
                for client in clients:
                    client.over = True
                await asyncio.wait(streams)
                _, steps = await everything_in(plaintext(kafka), topic_name)

    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
    changes = changes_in(steps)
    assert "late" not in changes
    assert {change: times for change, times in Counter(changes).items() if times > 1} == {}
    for client in clients:
        assert [change for change in changes if change.startswith(f"{client.name}/")] == client.acknowledged
    ids = Counter(dict(step.headers)[FORWARD_ID_HEADER] for step in steps)
    assert set(ids.values()) == {1}
