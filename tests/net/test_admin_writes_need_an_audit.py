"""A proxy whose audit spool is full changes nothing: what could not be recorded is not asked for."""

from pathlib import Path

import pytest
import yaml

from proxy.app.process import ProxyProcess
from proxy.audit.record import AuditEvent
from proxy.config import ProxyConfig, load
from proxy.session.effects import ToController
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

SPOOL_BYTES = 1 << 20


@pytest.fixture
def process(tmp_path: Path) -> ProxyProcess:
    document = {
        "proxy.id": "proxy-1",
        "listeners": [{"name": "PLAIN", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"}],
        "upstream": {"bootstrap": "127.0.0.1:1"},
        "controller": {"endpoints": ["127.0.0.1:1"]},
        "audit": {"spool.dir": "spool", "spool.max.bytes": SPOOL_BYTES},
    }
    path = tmp_path / "proxy.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return ProxyProcess(load(path, ProxyConfig))


@pytest.mark.spec("D3")
async def test_an_admin_write_is_refused_while_the_spool_takes_no_records(process: ProxyProcess) -> None:
    while not process._audit.rejects("admin"):
        process._audit.append(AuditEvent(event="forwarded", message="x" * 8_000))
    request = ToController(ApiKey.CREATE_ACLS, 3, 7, "admin", b"", b"", bytes(4), 30_000)

    reply = await process._forward(request)

    assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
