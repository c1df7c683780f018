"""What a proxy imports before it listens: nothing of what its file does not ask for (decision 0065).

Modules are counted, not seconds: a restart is as long as its imports, and a module that comes back unnoticed
shows here on any machine.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.commands.init import Wanted, write_examples

pytestmark = [pytest.mark.spec("O4"), pytest.mark.slow]

CHECKOUT = Path(__file__).resolve().parents[2]
PUT_TOGETHER = """
import json, sys
from pathlib import Path
from proxy.config import ProxyConfig, load
from proxy.app.process import ProxyProcess
from proxy.commands.check import check
from proxy.config.reloading import ConfigFile
path = Path(sys.argv[1])
process = ProxyProcess(load(path, ProxyConfig), file=ConfigFile.checked_by(check, path, ProxyConfig))
print(json.dumps(sorted(sys.modules)))
"""
OURS = 285
"""How many modules of ours a proxy may be made of. Before a new one raises this: can it be imported later?"""


def imported(directory: Path, **changes: Any) -> set[str]:
    """Names of all modules of a process that is put together and about to run; by the example's file."""
    write_examples(Wanted(directory, "sidecar"))
    path = directory / "proxy.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    changed = document | {"listeners": [document["listeners"][0] | changes]}
    if changes.get("security.protocol") == "PLAINTEXT":
        del changed["users.file"], changed["listeners"][0]["ssl"]
        changed["listeners"][0]["sasl.enabled.mechanisms"] = []
        changed["controller"] = {"endpoints": ["localhost:9094"]}
    path.write_text(yaml.safe_dump(changed), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PUT_TOGETHER, str(path)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_proxy_imports_neither_the_controller_nor_what_no_listener_enables(tmp_path: Path) -> None:
    modules = imported(tmp_path)

    needless = {"httpx", "joserfc", "gssapi", "opentelemetry", "pyspark", "proxy.net.logins.kerberos"}
    assert modules & needless == set()
    assert [name for name in modules if name.startswith("forwarding.controller")] == []
    assert modules & {"forwarding.config", "forwarding.net.process", "proxy.workers.supervisor"} == set()
    ours = sorted(name for name in modules if name.startswith(("proxy.", "forwarding.")))
    assert len(ours) <= OURS, ours


def test_without_tls_nothing_that_reads_certificates_is_imported(tmp_path: Path) -> None:
    assert "cryptography" not in imported(tmp_path, **{"security.protocol": "PLAINTEXT"})


def test_what_a_listener_enables_is_imported_before_it_listens(tmp_path: Path) -> None:
    tokens = {
        "sasl.enabled.mechanisms": ["OAUTHBEARER"],
        "sasl.oauthbearer.jwks.endpoint.url": "https://idp.example/keys",
        "sasl.oauthbearer.expected.issuer": "https://idp.example",
        "sasl.oauthbearer.expected.audience": ["kafka"],
    }

    modules = imported(tmp_path, **tokens)

    # Else the first login would hold the loop for as long as the import takes.
    assert {"httpx", "joserfc", "cryptography", "proxy.security.sasl.oauthbearer"} <= modules
