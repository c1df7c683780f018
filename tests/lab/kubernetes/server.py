"""Kubernetes' API server with etcd, for as long as a `with` block: no nodes, no controllers; no pods start.

The server is built once by Go from the module of Kubernetes into the user's cache, which takes half an hour
of CPU time. `etcd` has to be in PATH (Debian: etcd-server). Everybody who has the token may do everything.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.lab.cluster.errors import SetupError
from tests.lab.cluster.kafka import cache_directory
from tests.lab.cluster.ports import free_addresses

VERSION = "33.5"
"""Of Kubernetes 1, and of its staging modules 0. Later ones need an etcd that Debian 12 does not have."""
START_S = 60
DEFINITIONS = {
    "github.com/prometheus-operator/prometheus-operator@v0.83.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "github.com/cert-manager/cert-manager@v1.17.2": ("deploy/crds/crd-certificates.yaml",),
    "sigs.k8s.io/gateway-api@v1.3.0": ("config/crd/experimental/gateway.networking.k8s.io_tlsroutes.yaml",),
}
"""Module -> its files with the kinds that the chart renders and an operator defines."""
_STAGING = re.compile(r"^\s*(k8s\.io/[a-z-]+) v0\.0\.0$", re.MULTILINE)


def api_server() -> Path:
    """The program, built if the cache does not have it. SetupError without Go, or if it cannot be built."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / f"kube-apiserver-1.{VERSION}"
    with (cache / "kube-apiserver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                _build(Path(work) / "source", Path(work) / "program").rename(program)
    return program


def definitions() -> Iterator[dict[str, Any]]:
    """The definitions of the operators' kinds. cert-manager's are templates: such lines are left out."""
    for module, files in DEFINITIONS.items():
        with tempfile.TemporaryDirectory() as work:
            directory = Path(json.loads(_run([_go(), "mod", "download", "-json", module], Path(work)))["Dir"])
        for file in files:
            text = (directory / file).read_text(encoding="utf-8")
            found = yaml.safe_load("\n".join(line for line in text.splitlines() if "{{" not in line))
            yield found


def _go() -> str:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise SetupError("no `go` in PATH: kube-apiserver cannot be built")
    return go


def _build(source: Path, program: Path) -> Path:
    """`go install` takes no module with replace directives: a copy has the published ones of staging."""
    go = _go()
    downloaded = _run([go, "mod", "download", "-json", f"k8s.io/kubernetes@v1.{VERSION}"], source.parent)
    shutil.copytree(json.loads(downloaded)["Dir"], source, ignore=shutil.ignore_patterns("vendor", "go.work"))
    _run(["chmod", "-R", "u+w", str(source)], source)
    module = source / "go.mod"
    text = module.read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if "=> ./staging/" not in line)
    module.write_text(_STAGING.sub(rf"\t\1 v0.{VERSION}", text), encoding="utf-8")
    version = f"-s -w -X k8s.io/component-base/version.gitVersion=v1.{VERSION}"
    _run([go, "build", "-p", "1", "-ldflags", version, "-o", str(program), "./cmd/kube-apiserver"], source)
    return program


def _run(command: list[str], directory: Path) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off", "CGO_ENABLED": "0"}
    done = subprocess.run(
        command, cwd=directory, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SetupError(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
    return done.stdout


class Api:
    """Requests to the server, which give the status, the object in the response, and the warnings."""

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}"}
        # The server makes a certificate for itself, which nobody has signed.
        self._tls = ssl._create_unverified_context()

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any], list[str]]:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": content_type}
        request = urllib.request.Request(f"https://{self._address}{path}", data, headers, method=method)
        try:
            response = urllib.request.urlopen(request, timeout=30, context=self._tls)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            text = response.read().decode()
            found = json.loads(text) if text.startswith("{") else {"message": text}
            return response.status, found, response.headers.get_all("Warning") or []


@contextmanager
def running() -> Iterator[Api]:
    """A server with an empty etcd."""
    program = api_server()
    if shutil.which("etcd") is None:
        raise SetupError("no `etcd` in PATH; Debian: apt install etcd-server")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        address, etcd, peers = free_addresses(3)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (directory / "accounts.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        token = secrets.token_hex(16)
        (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n", encoding="utf-8")
        options = [
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls=http://{etcd}",
            f"--advertise-client-urls=http://{etcd}",
            f"--listen-peer-urls=http://{peers}",
        ]
        stack.enter_context(_process(directory / "etcd.log", ["etcd", *options]))
        options = [
            f"--etcd-servers=http://{etcd}",
            f"--cert-dir={directory}/certificates",
            "--bind-address=127.0.0.1",
            f"--secure-port={address.rsplit(':', 1)[1]}",
            f"--token-auth-file={directory}/tokens.csv",
            "--authorization-mode=AlwaysAllow",
            f"--service-account-key-file={directory}/accounts.key",
            f"--service-account-signing-key-file={directory}/accounts.key",
            "--service-account-issuer=https://localhost",
            "--service-cluster-ip-range=10.96.0.0/16",
            # The controllers that make the accounts' tokens do not run.
            "--disable-admission-plugins=ServiceAccount",
        ]
        server = stack.enter_context(_process(directory / "server.log", [str(program), *options]))
        api = Api(address, token)
        _wait(api, server, directory / "server.log")
        yield api


@contextmanager
def _process(log: Path, command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()


def define(api: Api, definition: dict[str, Any]) -> None:
    """Define a kind, and wait until the server knows it."""
    name = definition["metadata"]["name"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, found, _ = api.request("POST", path, definition)
    for _ in range(START_S * 2):
        conditions = found["status"].get("conditions") or () if status in (200, 201) else ()
        if any((each["type"], each["status"]) == ("Established", "True") for each in conditions):
            return
        if status not in (200, 201):
            break
        threading.Event().wait(0.5)
        status, found, _ = api.request("GET", f"{path}/{name}")
    raise SetupError(f"{name} cannot be defined: {status} {found.get('message')}")


def _wait(api: Api, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(START_S * 2):
        with suppress(OSError):
            if api.request("GET", "/readyz")[0] == 200:
                return
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.5)
            break
    raise SetupError(f"kube-apiserver is not ready:\n{log.read_text(encoding='utf-8')[-2000:]}")


if __name__ == "__main__":
    sys.stdout.write(f"{api_server()}\n")
