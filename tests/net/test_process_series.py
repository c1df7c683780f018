"""What a process tells of itself: CPU, memory, files, how late its loop is, when its certificates end."""

import asyncio
import os
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from cryptography import x509
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from proxy.net.files.tls import (
    Certificates,
    ClientTls,
    KeyPair,
    ServerTls,
    ServerTlsSettings,
    TlsError,
    certificate_series,
    expiry_of_cas,
    expiry_of_chain,
)
from proxy.net.files.watched_file import FileReloads
from proxy.net.runtime.merged_metrics import Series
from proxy.net.telemetry.process_metrics import LoopLag, ProcessSeries
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster import probe
from tests.lab.cluster.ports import free_addresses
from tests.support.edges import on_uvloop
from tests.support.lone_processes import SHOULD_NOT_TAKE_S, a_lone
from tests.support.promlint import problems

pytestmark = pytest.mark.spec("O12")

SERIES = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
}


def samples(registry: CollectorRegistry) -> dict[str, float]:
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def test_a_process_is_seen_as_proc_shows_it(tmp_path: Path) -> None:
    fields = [b"0"] * 50
    fields[11], fields[12], fields[19], fields[20], fields[21] = b"150", b"50", b"1000", b"4096000", b"7"
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_bytes(b"42 (a) name (b) " + b" ".join(fields))
    (tmp_path / "stat").write_bytes(b"cpu 1 2\nbtime 1700000000\n")
    registry, ticks = CollectorRegistry(), os.sysconf("SC_CLK_TCK")
    registry.register(ProcessSeries(tmp_path))

    found = samples(registry)

    assert found["process_cpu_seconds_total"] == 200 / ticks
    assert found["process_start_time_seconds"] == 1_700_000_000 + 1_000 / ticks
    assert found["process_virtual_memory_bytes"] == 4_096_000
    assert found["process_resident_memory_bytes"] == 7 * os.sysconf("SC_PAGE_SIZE")


def test_without_proc_there_is_only_the_limit_of_files(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(ProcessSeries(tmp_path))

    assert {"process_max_fds"} <= set(samples(registry)) <= {"process_max_fds", "process_open_fds"}


@on_uvloop
async def test_whoever_holds_the_loop_is_seen_in_its_lag() -> None:
    registry = CollectorRegistry()

    def late() -> float:
        below = registry.get_sample_value("penstock_event_loop_lag_seconds_bucket", {"le": "0.05"})
        return (registry.get_sample_value("penstock_event_loop_lag_seconds_count") or 0) - (below or 0)

    async with asyncio.TaskGroup() as tasks:
        lag = tasks.create_task(LoopLag(registry).run())
        while not late():
            await asyncio.sleep(0)
            held_until_s = os.times().elapsed + 0.2
            while os.times().elapsed < held_until_s:
                pass
        lag.cancel()


class Authority:
    """Certificates that end when the test says."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self._directory = directory
        self.ca_file = directory / "ca.crt"
        self.ca_file.write_bytes(self.ca.cert_pem.bytes())

    def pair(self, name: str, expires: datetime) -> KeyPair:
        issued = self.ca.issue_cert(name, not_after=expires)
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        return KeyPair(certificate, key)


def in_year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def test_each_certificate_in_use_has_its_end_and_a_reload_moves_it(tmp_path: Path) -> None:
    authority, registry = Authority(tmp_path), CollectorRegistry()
    pair, by_name = authority.pair("proxy", in_year(2090)), authority.pair("other", in_year(2080))
    own = authority.pair("own", in_year(2085))
    server = ServerTls(
        ServerTlsSettings(key_pair=pair, server_names={"other": by_name}, ca=authority.ca_file)
    )
    client = ClientTls(authority.ca_file, own.certificate, own.key, True)
    held = Certificates([server, None, client], FileReloads(CollectorRegistry()))
    registry.register(Series(lambda: certificate_series(held.expiries)))
    name = "penstock_certificate_expiry_timestamp_seconds"

    before = samples(registry)

    assert set(before) == {
        f"{name} {path}"
        for path in (pair.certificate, by_name.certificate, own.certificate, authority.ca_file)
    }
    assert before[f"{name} {pair.certificate}"] == in_year(2090).timestamp()
    assert before[f"{name} {by_name.certificate}"] == in_year(2080).timestamp()

    authority.pair("proxy", in_year(2095))
    server.reload()
    assert samples(registry)[f"{name} {pair.certificate}"] == in_year(2095).timestamp()

    pair.key.write_bytes(b"")
    authority_again = authority.ca.issue_cert("proxy", not_after=in_year(2099))
    pair.certificate.write_bytes(authority_again.cert_chain_pems[0].bytes())
    with pytest.raises(TlsError):
        server.reload()
    assert samples(registry)[f"{name} {pair.certificate}"] == in_year(2095).timestamp()


def test_of_a_chain_the_first_counts_and_of_several_cas_the_last_to_expire(tmp_path: Path) -> None:
    authority, several = Authority(tmp_path), tmp_path / "several.crt"
    pairs = [authority.pair(str(year), in_year(year)) for year in (2070, 2090, 2080)]
    several.write_bytes(b"".join(pair.certificate.read_bytes() for pair in pairs))

    assert expiry_of_chain(several) == in_year(2070).timestamp()
    assert expiry_of_cas(several) == in_year(2090).timestamp()
    assert expiry_of_cas(tmp_path / "missing") is expiry_of_chain(pairs[0].key) is None


@pytest.mark.slow
@pytest.mark.parametrize("command", ["proxy", "controller"])
@on_uvloop
async def test_proxy_and_controller_tell_of_themselves_by_the_rules_of_prometheus(
    command: str, tmp_path: Path
) -> None:
    async with a_lone(command, tmp_path) as lone:
        await lone.metric("penstock_event_loop_lag_seconds_count", lambda count: count > 0)
        (await lone.client()).asks(ApiKey.API_VERSIONS, 0, t.ApiVersionsRequest())
        await lone.logs_in()
        found = await lone.metrics()
        _, text = await asyncio.to_thread(probe.get, lone.http, "/metrics")
        async with httpx.AsyncClient(headers={"Accept": "application/openmetrics-text"}) as client:
            response = await client.get(f"http://{lone.http}/metrics")

    # This parser rejects what is not OpenMetrics.
    families = openmetrics.text_string_to_metric_families(response.text)  # type: ignore[no-untyped-call]
    assert {sample.name for family in families for sample in family.samples} >= SERIES - {"process_open_fds"}
    # Kernels before 6.2 do not count open files.
    assert {name for name in found if name.startswith("process_")} | {"process_open_fds"} == SERIES
    assert problems(text) == []


@pytest.mark.slow
@pytest.mark.spec("O2")
@pytest.mark.parametrize(
    ("command", "changes"), [("proxy", {}), ("proxy", {"workers": 2}), ("controller", {})]
)
@on_uvloop
async def test_the_certificate_of_the_http_port_is_among_those_that_expire_and_is_reloaded(
    command: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair, name = authority.pair("localhost", in_year(2090)), "penstock_certificate_expiry_timestamp_seconds"
    port = free_addresses(1)[0].rpartition(":")[2]
    files = {"certificate": str(pair.certificate), "key": str(pair.key)}
    context = ssl.create_default_context()
    authority.ca.configure_trust(context)

    async def expiry_s(client: httpx.AsyncClient) -> float | None:
        text = (await client.get(f"https://localhost:{port}/metrics")).text
        families = (each for each in text_string_to_metric_families(text) if each.name == name)
        found = {each.labels["file"]: each.value for family in families for each in family.samples}
        return found.get(str(pair.certificate))

    http = {"bind": f"127.0.0.1:{port}", "ssl": files}
    async with a_lone(command, tmp_path, http=http, **changes), asyncio.timeout(SHOULD_NOT_TAKE_S):
        for year in (2090, 2095):
            authority.pair("localhost", in_year(year))
            async with httpx.AsyncClient(verify=context) as client:
                while await expiry_s(client) != in_year(year).timestamp():  # noqa: ASYNC110 - a file has no event
                    await asyncio.sleep(0.1)
        # A handshake takes the new one too: the series is that of what is served.
        _, writer = await asyncio.open_connection(
            "127.0.0.1", int(port), ssl=context, server_hostname="localhost"
        )
        served = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(True))
        writer.close()
        await writer.wait_closed()

    assert served.not_valid_after_utc == in_year(2095)


def test_what_the_linter_is_to_find_it_finds() -> None:
    text = (
        "# HELP a_count Help\n# TYPE a_count gauge\na_count 1\n"
        "# HELP b_total Help\n# TYPE b_total gauge\nb_total 1\n"
        "# HELP c_ms_total Help\n# TYPE c_ms_total counter\nc_ms_total 1\n"
        "# TYPE d gauge\nd 1\nd 2\n"
    )

    assert [problem.split(" ")[0].rstrip(":") for problem in problems(text)] == [
        "a_count",
        "b_total",
        "c_ms",
        "d",
        "d",
    ]
