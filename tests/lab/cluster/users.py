"""Who logs in where, in the words of each client: Kafka's .properties, librdkafka, aiokafka, our Channel.

Knows passwords, so nothing here is printed. Fed by tests.lab.cluster.stack.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.net.kafka.channel import EndpointSettings, SaslLogin

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True)
class User:
    name: str
    mechanism: str
    password: str = field(repr=False)
    by_token: bool = False
    """Name and password are a delegation token's id and HMAC."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """One listener of the proxy as its clients see it."""

    bootstrap: str
    ca: Path | None = None
    """The certificate its TLS is checked against; None where it has no TLS."""

    @property
    def security_protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL"


def java_properties(user: User, entrance: Entrance) -> str:
    """A file for --command-config."""
    module = _LOGIN_MODULES[user.mechanism]
    extension = ' tokenauth="true"' if user.by_token else ""
    lines = [
        f"security.protocol={entrance.security_protocol}",
        f"sasl.mechanism={user.mechanism}",
        f'sasl.jaas.config={module} required username="{user.name}" password="{user.password}"{extension};',
    ]
    if entrance.ca is not None:
        lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={entrance.ca}"]
    return "\n".join([*lines, ""])


def librdkafka_settings(user: User, entrance: Entrance) -> dict[str, object]:
    tls = {} if entrance.ca is None else {"ssl.ca.location": str(entrance.ca)}
    return {
        "bootstrap.servers": entrance.bootstrap,
        "security.protocol": entrance.security_protocol,
        "sasl.mechanism": user.mechanism,
        "sasl.username": user.name,
        "sasl.password": user.password,
        **tls,
    }


def channel_settings(user: User, address: str, **more: Any) -> EndpointSettings:
    """For Penstock's own Channel; without TLS."""
    host, _, port = address.rpartition(":")
    login = SaslLogin(
        mechanism=user.mechanism,
        username=user.name,
        password=lambda: user.password,
        token_auth=user.by_token,
    )
    return EndpointSettings(host=host, port=int(port), sasl=login, **more)


def aiokafka_settings(user: User, entrance: Entrance) -> dict[str, object]:
    """Also what kafka-python takes."""
    tls = {} if entrance.ca is None else {"ssl_context": ssl.create_default_context(cafile=str(entrance.ca))}
    return {
        "bootstrap_servers": entrance.bootstrap,
        "security_protocol": entrance.security_protocol,
        "sasl_mechanism": user.mechanism,
        "sasl_plain_username": user.name,
        "sasl_plain_password": user.password,
        **tls,
    }
