"""The keys of traces: off by default, what they stand for, and what is wrong with them, named."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from proxy.commands.check import checked
from proxy.config import ConfigError, ProxyConfig, TelemetryConfig, load, traces
from proxy.net.files.watched_file import FileReloads
from proxy.net.telemetry.otlp import OtlpTraces
from proxy.net.telemetry.spans import NoTraces
from tests.support.office_certificates import OfficeCertificates
from tests.unit.config.test_proxy_config import document, written
from tests.unit.config.test_warnings import closed

pytestmark = pytest.mark.spec("O5", "O12")

URL = "https://collector:4318"


def telemetry(directory: Path, **otlp: Any) -> TelemetryConfig:
    """`__` is a dot."""
    path = directory / "telemetry.yaml"
    keys = {name.replace("__", "."): value for name, value in otlp.items()}
    path.write_text(yaml.safe_dump({"otlp": keys}))
    return load(path, TelemetryConfig)


def made(settings: TelemetryConfig) -> Any:
    registry = CollectorRegistry()
    return traces(settings, "proxy-1", registry, FileReloads(registry))


def test_there_are_no_traces_by_default(tmp_path: Path) -> None:
    config = load(written(tmp_path, document()), ProxyConfig)

    assert config.telemetry.otlp is None
    assert isinstance(made(config.telemetry), NoTraces)


@pytest.mark.parametrize(
    ("written_as", "endpoint"),
    [
        (URL, f"{URL}/v1/traces"),
        (f"{URL}/", f"{URL}/v1/traces"),
        (f"{URL}/tempo/v1/traces", f"{URL}/tempo/v1/traces"),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
    ],
)
def test_an_endpoint_without_a_path_has_that_of_the_protocol(
    tmp_path: Path, written_as: str, endpoint: str
) -> None:
    settings = telemetry(tmp_path, endpoint=written_as)

    assert settings.otlp is not None
    assert settings.otlp.endpoint == endpoint
    assert isinstance(made(settings), OtlpTraces)


@pytest.mark.parametrize(
    ("otlp", "error"),
    [
        ({}, "endpoint"),
        ({"endpoint": "collector:4318"}, "expected https://host:4318/v1/traces, found 'collector:4318'"),
        ({"endpoint": "https://u:p@collector:4318"}, "must not contain a user name or password"),
        ({"endpoint": "https://collector:4318/?api-key=x"}, "must not contain a query"),
        ({"endpoint": "http://collector:4317"}, "port 4317 is for OTLP over gRPC"),
        ({"endpoint": URL, "sampling__ratio": 0.01}, "sampling.ratio"),
        ({"endpoint": URL, "timeout__ms": 1}, "timeout.ms"),
        ({"endpoint": URL, "queue__max__spans": 0}, "queue.max.spans"),
        ({"endpoint": URL, "service__name": ""}, "service.name"),
        ({"endpoint": URL, "headers__file": "missing"}, "no such file"),
        ({"endpoint": URL, "headers__file": "telemetry.yaml"}, "headers.file: .*telemetry.yaml:1"),
        ({"endpoint": "http://collector:4318", "ssl": {}}, "write https://"),
        ({"endpoint": URL, "ssl": {"ca": "telemetry.yaml"}}, "telemetry.yaml"),
        ({"endpoint": URL, "ssl": {"certificate": "telemetry.yaml"}}, "certificate and key belong together"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, otlp: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        telemetry(tmp_path, **otlp)


def test_certificates_are_tried(tmp_path: Path) -> None:
    office = OfficeCertificates(tmp_path)
    issued = office.issue("penstock")
    ssl = {"ca": str(office.ca), "certificate": str(issued.certificate), "key": str(issued.key)}

    assert isinstance(made(telemetry(tmp_path, endpoint=URL, ssl=ssl)), OtlpTraces)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "proxy.net.telemetry.otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(ConfigError, match=r"telemetry.otlp needs .* pip install '\.\[otel\]'"):
        telemetry(tmp_path, endpoint=URL)


def with_traces(directory: Path, otlp: str) -> Path:
    path = closed(directory)
    (directory / "headers").write_text("Authorization: Bearer x")
    (directory / "headers").chmod(0o600)
    path.write_text(path.read_text() + f"\ntelemetry: {{otlp: {{{otlp}, headers.file: headers}}}}\n")
    return path


@pytest.mark.parametrize(
    ("endpoint", "warnings"),
    [("http://collector:4318", 1), ("http://localhost:4318", 0), ("https://collector:4318", 0)],
)
def test_headers_that_would_cross_the_network_in_the_clear_are_warned_of(
    tmp_path: Path, endpoint: str, warnings: int
) -> None:
    found = checked(with_traces(tmp_path, f"endpoint: '{endpoint}'"))

    assert found.problems == []
    assert sum("in clear text" in line and "headers.file" in line for line in found.warnings) == warnings


def test_a_file_of_headers_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    path = with_traces(tmp_path, f"endpoint: '{URL}'")
    (tmp_path / "headers").chmod(0o644)

    assert any("headers" in line for line in checked(path).warnings)
