"""The .properties file of a Kafka client (`--command-config`), as far as Penstock's own clients need it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from proxy.config.addresses import host_port, split_host_port
from proxy.error_text import text_of
from proxy.net.files.tls import ClientTls
from proxy.net.kafka.channel import EndpointSettings, SaslLogin

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_VALUE = r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s;"']+))"""
_OPTION = re.compile(rf"\s+(?P<name>\w+)\s*=\s*{_VALUE}")
_MODULE = re.compile(r"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)(?=\s)", re.IGNORECASE)
_ENTRY = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NOT_READ = (
    *("ssl.truststore.certificates", "ssl.keystore.certificate.chain", "ssl.keystore.key"),
    "ssl.key.password",
)
"""Without them the connection would be another one than is meant."""


class SettingError(Exception):
    """The file cannot be used; the message says why."""


def properties_of(path: Path) -> dict[str, str]:
    """Return the settings of a file, the last of each key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {text_of(error)}") from error
    entries = (_ENTRY.fullmatch(line) for line in _lines(text))
    return {_unescaped(entry[1]): _unescaped(entry[2]).strip() for entry in entries if entry is not None}


def _lines(text: str) -> Iterator[str]:
    """Yield the lines as java.util.Properties joins them, without comments."""
    line = ""
    for part in re.split(r"\r\n|\r|\n", text):
        part = part.lstrip(" \t\f")
        if not line and part.startswith(("#", "!")):
            continue
        line += part
        if (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1]
            continue
        yield line
        line = ""
    yield line


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _CHARACTERS.get(found[2], found[2]), text
    )


def cluster_at(servers: str, file: Path | None) -> EndpointSettings:
    """Return how to connect to --bootstrap-server with --command-config, or without one. As `endpoint_of`."""
    return endpoint_of(servers, {} if file is None else properties_of(file))


def endpoint_of(servers: str, settings: Mapping[str, str]) -> EndpointSettings:
    """Return how to connect. SettingError, ValueError or TlsError say what cannot be used."""
    (host, port), *others = (split_host_port(host_port(each.strip())) for each in servers.split(","))
    for key in _NOT_READ:
        if key in settings:
            raise SettingError(
                f"{key} is not read; name PEM files with ssl.*.location, and a key without password"
            )
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
    options = _jaas_options(settings.get("sasl.jaas.config", ""))
    if not options.get("username") or "password" not in options:
        raise SettingError("sasl.jaas.config has no username or no password")
    return SaslLogin(
        mechanism=mechanism,
        username=options["username"],
        password=lambda: options["password"],
        token_auth=options.get("tokenauth", "").lower() == "true",
    )


def _jaas_options(text: str) -> dict[str, str]:
    """Return the options of the module. What Kafka cannot read is an error: a password would be cut short."""
    options, found = {}, _MODULE.match(text)
    end = 0 if found is None else found.end()
    while (option := _OPTION.match(text, end)) is not None:
        quoted = option["double"] or option["single"] or ""
        options[option["name"]] = option["bare"] or re.sub(r"\\(.)", r"\1", quoted)
        end = option.end()
    if text and (found is None or text[end:].strip() != ";"):
        raise SettingError(
            'sasl.jaas.config cannot be read; write MODULE required username="..." password="..."; with'
            ' \\\\" for a quotation mark in a password and four backslashes for one'
        )
    return options


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
