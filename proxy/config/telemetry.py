"""The `telemetry:` section: an OTLP receiver."""

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator

from proxy.config.addresses import LOOPBACK
from proxy.config.parts import (
    RESTART,
    ExistingFile,
    Milliseconds,
    Part,
    SecretFile,
    Unset,
)
from proxy.error_text import text_of
from proxy.net.files.tls import TlsError, client_context
from proxy.net.files.watched_file import FileReloads
from proxy.net.telemetry.spans import NoTraces, Traces

PATH = "/v1/traces"
"""The path of OTLP/HTTP, if the endpoint has none."""
EXTRA = ("opentelemetry", "requests", "google")
"""Packages that only the extra `otel` installs."""


def _endpoint(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"expected https://host:4318{PATH}, found {text!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the URL must not contain a user name or password, because it is logged; use headers.file"
        )
    if parts.query or parts.fragment:
        raise ValueError("the URL must not contain a query, because it is logged; use headers.file")
    if parts.port == 4317:
        raise ValueError("port 4317 is for OTLP over gRPC; use the receiver's HTTP port, usually 4318")
    return text if parts.path not in ("", "/") else text.rstrip("/") + PATH


class OtlpSsl(Part):
    """TLS for the connection to the receiver, PEM files; read again after a failed connection."""

    ca: Annotated[ExistingFile | None, RESTART, Unset("the system's")] = None
    """PEM file with the CAs of the receiver's certificate; read again after a failed connection."""
    certificate: Annotated[ExistingFile | None, RESTART] = None
    """PEM file with Penstock's own certificate; read again likewise."""
    key: Annotated[SecretFile | None, RESTART] = None
    """PEM file with its key; read again likewise."""

    @model_validator(mode="after")
    def _can_be_used(self) -> "OtlpSsl":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key belong together; write both, or remove both")
        try:
            client_context(self.ca, self.certificate, self.key)
        except TlsError as error:
            raise ValueError(str(error)) from error
        return self


class Otlp(Part):
    """A receiver of OTLP over HTTP, such as an OpenTelemetry Collector."""

    endpoint: Annotated[str, AfterValidator(_endpoint), RESTART]
    """An OTLP receiver over HTTP: `https://collector:4318`. Without a path, `/v1/traces` is added. Needs `pip
    install '.[otel]'`; the image includes it."""
    headers_file: Annotated[SecretFile | None, RESTART] = None
    """HTTP headers for the receiver, one `Name: value` per line, such as `Authorization: Bearer …`. Reloaded
    when it changes. Over `http://` to another machine it causes a warning."""
    ssl: OtlpSsl | None = None
    service_name: Annotated[str, Field(min_length=1, max_length=255), RESTART] = "penstock"
    """`service.name` of the spans. `service.instance.id` is `proxy.id` or `controller.id`."""
    timeout_ms: Annotated[Milliseconds, Field(ge=100, le=60_000), RESTART] = 10_000
    """How long one batch may take, including retries; then its spans are dropped."""
    queue_max_spans: Annotated[int, Field(ge=16, le=1_000_000), RESTART] = 2_048
    """Maximum number of spans that wait to be sent; further ones are dropped."""

    @model_validator(mode="after")
    def _can_be_used(self) -> "Otlp":
        if self.ssl is not None and not self.endpoint.startswith("https:"):
            raise ValueError("ssl is set, but endpoint begins with http://; write https://")
        try:
            from proxy.net.telemetry.otlp import Headers
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRA:
                raise
            raise ValueError(
                f"telemetry.otlp needs an extra that is not installed ({error}); run pip install"
                " '.[otel]' in a checkout"
            ) from error
        try:
            Headers(self.headers_file)
        except OSError as error:
            raise ValueError(f"headers.file: {text_of(error)}") from error
        return self

    def exposure(self) -> str | None:
        """A warning if the network can read the headers; otherwise None."""
        parts = urlsplit(self.endpoint)
        if self.headers_file is None or parts.scheme == "https" or parts.hostname in LOOPBACK:
            return None
        return (
            f"telemetry.otlp.endpoint {self.endpoint}: the content of headers.file is sent in clear text;"
            " use https://"
        )


class TelemetryConfig(Part):
    """The `telemetry:` section; by default nothing is sent."""

    otlp: Annotated[Otlp | None, Unset("no traces")] = None
    """See [traces](#traces)."""


def traces(
    telemetry: TelemetryConfig, instance: str, registry: CollectorRegistry, reloads: FileReloads
) -> Traces:
    """The traces of a process with the name `instance`. ValueError or OSError name an invalid key or file."""
    otlp = telemetry.otlp
    if otlp is None:
        return NoTraces()
    from proxy.net.telemetry.otlp import OtlpSettings, OtlpTraces

    ssl = otlp.ssl or OtlpSsl()
    settings = OtlpSettings(
        endpoint=otlp.endpoint,
        instance=instance,
        version=_version(),
        service=otlp.service_name,
        timeout_ms=otlp.timeout_ms,
        queue_max_spans=otlp.queue_max_spans,
        headers_file=otlp.headers_file,
        ca=ssl.ca,
        certificate=ssl.certificate,
        key=ssl.key,
    )
    return OtlpTraces(settings, registry, reloads)


def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return "unknown"
