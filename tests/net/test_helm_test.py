"""The script of `helm test` at the listener of a proxy: deploy/helm/penstock/files/connection_test.py."""

import asyncio
import sys
from pathlib import Path

import pytest

from proxy.net.files.tls import ServerTls, ServerTlsSettings
from tests.net.test_tls_listener import Authority, a_tls_edge
from tests.support.edges import on_uvloop

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "penstock" / "files" / "connection_test.py"


async def the_script(*arguments: object) -> tuple[int | None, str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    return process.returncode, printed.decode()


@pytest.mark.spec("O15")
@on_uvloop
async def test_a_listener_of_a_proxy_passes(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    async with a_tls_edge(ServerTls(ServerTlsSettings(key_pair=authority.key_pair()))) as (edge, _):
        code, printed = await the_script(authority.file, f"localhost:{edge.port}")
        assert (code, "ok, " in printed) == (0, True), printed

        code, printed = await the_script(stranger.file, f"localhost:{edge.port}")
        assert (code, "certificate verify failed" in printed) == (1, True), printed
