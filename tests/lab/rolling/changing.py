"""What changes in running proxies: the configuration, by `penstock reload` or SIGHUP, and the certificate.

None of it may close a connection.
"""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import trustme
import yaml

from proxy.config import split_host_port
from proxy.net.telemetry.status_files import RestartStatus
from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.node import CHECKOUT, Node
from tests.lab.cluster.process import adopt_orphans
from tests.lab.cluster.stack import Stack

COMMAND_TIMEOUT_S = 180
_LOADED = 'penstock_file_reloads_total{file_kind="configuration",outcome="loaded"}'
_CLOSED = "penstock_connections_closed_total"
_BY_CLIENT = ("client_closed", "connection_reset")

Document = dict[str, Any]
Change = Callable[[Document], Document]
"""proxy.yaml as it is, and as it is to be; every key that differs is live."""


def tighter(document: Document) -> Document:
    """Another limit, another log level, and sessions that end where all clients can renew them."""
    listeners = [
        each | ({"connections.max.reauth.ms": 20_000} if each["name"] == "SASL_SSL" else {})
        for each in document["listeners"]
    ]
    changes = {"limits": {"max.connections": 2_000}, "log": {"level": "DEBUG"}, "listeners": listeners}
    return document | changes


def calmer(document: Document) -> Document:
    """The limit is higher and the log short again; sessions still end."""
    return document | {"limits": {"max.connections": 5_000}, "log": {"level": "INFO"}}


def configure(node: Node, change: Change) -> None:
    """Write proxy.yaml anew; nobody is told."""
    document = change(yaml.safe_load(node.proxy_file.read_text(encoding="utf-8")))
    beside = node.proxy_file.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    beside.replace(node.proxy_file)


def reload(node: Node) -> str | None:
    """`penstock reload`; what is wrong, None if nothing."""
    done = _command("reload", node)
    return None if done.returncode == 0 else f"{node.proxy.name}: {done.stderr}"


def restart(node: Node) -> int:
    """`penstock restart`; the pid of the process that serves. SetupError if there is none."""
    adopt_orphans()
    done = _command("restart", node)
    found = RestartStatus.read(node.proxy_file.parent / "spool")
    if done.returncode != 0 or found is None:
        raise SetupError(f"{node.proxy.name}: {done.stderr}")
    return found.pid


def hang_up(node: Node) -> None:
    node.proxy.signal(signal.SIGHUP)


def reloads(node: Node) -> float:
    """How many configurations this process has taken since its start."""
    return node.metrics().get(_LOADED, 0.0)


def has_reloaded(node: Node, before: float) -> bool:
    return reloads(node) > before


def cut(stack: Stack) -> float:
    """How many connections the proxies have closed, other than after their clients."""
    return sum(
        value
        for node in stack.nodes
        for series, value in node.metrics().items()
        if series.startswith(_CLOSED) and not any(f'"{reason}"' in series for reason in _BY_CLIENT)
    )


def _command(name: str, node: Node) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "proxy", name, "-c", str(node.proxy_file)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )


class Authority:
    """A CA that the clients trust beside the stack's own, for the certificates that are put in its place."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._ca = trustme.CA()
        with stack.tls.ca.open("ab") as trusted:
            trusted.write(self._ca.cert_pem.bytes())

    def renew(self) -> bytes:
        """Put a new certificate and key into the files of all proxies; the certificate."""
        issued, tls = self._ca.issue_cert("127.0.0.1", "localhost"), self._stack.tls
        certificate = issued.cert_chain_pems[0].bytes()
        for path, content in ((tls.key, issued.private_key_pem.bytes()), (tls.certificate, certificate)):
            beside = path.with_suffix(".new")
            beside.touch(mode=0o600)
            beside.write_bytes(content)
            beside.replace(path)
        return certificate

    def is_served(self, certificate: bytes) -> bool:
        """By the TLS listeners of all proxies."""
        served = (
            ssl.get_server_certificate(split_host_port(node.wiring.listeners["SASL_SSL"]))
            for node in self._stack.nodes
        )
        return all(
            ssl.PEM_cert_to_DER_cert(each) == ssl.PEM_cert_to_DER_cert(certificate.decode())
            for each in served
        )
