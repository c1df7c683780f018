"""`penstock quotas`: the page /quotas of a running proxy, as a table or as JSON."""

import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proxy.commands.running import show_quotas
from proxy.metadata.quota_entity import QuotaEntity
from proxy.net.pages.http_access import HttpAccess
from proxy.net.pages.http_server import HttpServer
from proxy.net.pages.quota_page import quota_page
from proxy.net.pages.readiness import Readiness
from proxy.net.runtime.chunked import run_in_slices
from proxy.quota.keys import PRODUCER_BYTE_RATE
from proxy.quota.throttle import ClientQuotas
from tests.lab.cluster.ports import free_addresses
from tests.net.test_connection_page import a_configuration
from tests.session.conversation import NOW_MS, Quotas
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("O2", "Q4")


async def test_it_prints_a_table_or_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bind = free_addresses(1)[0]
    file = a_configuration(tmp_path, bind)
    quotas = ClientQuotas(Quotas())
    image = quotas_image({QuotaEntity(client_id="a\nb"): {PRODUCER_BYTE_RATE: 1_000.0}})
    quotas.bucket(PRODUCER_BYTE_RATE, image, "u", "a\nb").record(5_000, NOW_MS)
    host, _, port = bind.rpartition(":")

    async def page() -> bytes:
        return await run_in_slices(quota_page(quotas, [], NOW_MS))

    server = HttpServer(
        HttpAccess(host=host, port=int(port)),
        CollectorRegistry(),
        lambda: Readiness((), ()),
        {"/quotas": page},
    )
    await server.start()
    try:
        codes = [await asyncio.to_thread(show_quotas, file, as_json=False)]
        table = capsys.readouterr().out.splitlines()
        codes.append(await asyncio.to_thread(show_quotas, file, as_json=True))
        printed = json.loads(capsys.readouterr().out)
    finally:
        await server.close()
    codes.append(show_quotas(file, as_json=False))
    no_response = capsys.readouterr().err
    codes.append(show_quotas(tmp_path / "no.yaml", as_json=False))

    assert codes == [0, 0, 1, 2]
    assert [line.split()[:4] for line in table] == [
        ["QUOTA", "QUOTA-ID", "RATE", "LIMIT"],
        ["producer_byte_rate", repr(":a\nb"), "500", "1000"],
    ]
    assert printed == json.loads(await page())
    assert no_response.startswith(f"penstock quotas: {bind}: no response")
