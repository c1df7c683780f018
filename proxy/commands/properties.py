"""The .properties file of a Kafka client (`--command-config`), as far as Penstock's own clients need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from proxy.config import split_host_port
from proxy.error_text import text_of
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import EndpointSettings, SaslLogin

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")


class SettingError(Exception):
    """The file cannot be used; the message says why."""


def properties_of(path: Path) -> dict[str, str]:
    """Return the settings of a file, the last of each key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {text_of(error)}") from error
    found = {}
    for line in re.sub(r"\\\r?\n\s*", "", text).splitlines():
        key, separator, value = line.partition("=")
        if separator and not key.lstrip().startswith(("#", "!")):
            found[key.strip()] = value.strip()
    return found


def cluster_at(servers: str, file: Path | None) -> EndpointSettings:
    """Return how to connect to --bootstrap-server with --command-config, or without one. As `endpoint_of`."""
    return endpoint_of(servers, {} if file is None else properties_of(file))


def endpoint_of(servers: str, settings: Mapping[str, str]) -> EndpointSettings:
    """Return how to connect. SettingError, ValueError or TlsError say what cannot be used."""
    (host, port), *others = map(split_host_port, servers.split(","))
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingError(f"security.protocol is {protocol}; possible are {', '.join(_PROTOCOLS)}")
    tls = _tls(settings) if protocol.endswith("SSL") else None
    return EndpointSettings(
        host=host,
        port=port,
        others=tuple(others),
        ssl=None if tls is None else tls.context,
        tls=tls,
        sasl=_login(settings) if protocol.startswith("SASL") else None,
        client_id=settings.get("client.id", "penstock-admin"),
    )


def _login(settings: Mapping[str, str]) -> SaslLogin:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise SettingError(f"sasl.mechanism is {mechanism}; possible are {', '.join(MECHANISMS)}")
    options = {
        name: re.sub(r"\\(.)", r"\1", quoted) or single or bare
        for name, quoted, single, bare in _JAAS.findall(settings.get("sasl.jaas.config", ""))
    }
    if not options.get("username") or "password" not in options:
        raise SettingError("sasl.jaas.config has no username or no password")
    return SaslLogin(
        mechanism=mechanism,
        username=options["username"],
        password=lambda: options["password"],
        token_auth=options.get("tokenauth", "").lower() == "true",
    )


def _tls(settings: Mapping[str, str]) -> ClientTls:
    ca, pair = (_pem(settings, store) for store in ("truststore", "keystore"))
    checks_name = settings.get("ssl.endpoint.identification.algorithm", "https") != ""
    return ClientTls(ca, pair, pair, checks_name)


def _pem(settings: Mapping[str, str], store: str) -> Path | None:
    location = settings.get(f"ssl.{store}.location")
    if location is None:
        return None
    kind = settings.get(f"ssl.{store}.type", "JKS").upper()
    if kind != "PEM":
        raise SettingError(f"ssl.{store}.type is {kind}; only PEM can be read")
    return Path(location)
