"""Makes the principal that ACLs and quotas name from what a connection has proved (KIP-189).

proxy.net.clients.listener calls the builder when a connection is made, the SASL side when a login is
accepted. `principal.builder.class` may name another class; its exceptions are failed authentications.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from proxy.error_text import text_of
from proxy.security.mapping_rules import DEFAULT, MappingRules
from proxy.security.plugin import plugin
from proxy.security.principal import ANONYMOUS, USER_TYPE, Principal

MAPPING_RULES = "ssl.principal.mapping.rules"
BUILDER_CLASS = "principal.builder.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationContext:
    """What the transport and the login of a client have proved."""

    listener: str
    security_protocol: str
    host: str
    certificate: bytes | None = None
    """The client's verified certificate in DER; None if TLS requested none or the client has none."""
    mechanism: str | None = None
    """The SASL mechanism; None before a login or without SASL."""
    authenticated: Principal | None = None
    """The principal of the SASL mechanism."""


@runtime_checkable
class PrincipalBuilder(Protocol):
    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once before any `build`, with the listener's settings under Kafka's names; ValueError."""
        ...

    def build(self, context: AuthenticationContext) -> Principal:
        """Return the principal. Any exception rejects the client, and the connection is closed."""
        ...


def load_principal_builder(dotted_path: str | None, settings: Mapping[str, str]) -> PrincipalBuilder:
    """Return the configured builder of `principal.builder.class`, by default Kafka's; ValueError."""
    builder: PrincipalBuilder = DefaultPrincipalBuilder()
    if dotted_path is not None:
        # mypy considers a protocol that is checked at run time to be an abstract class.
        builder = plugin(BUILDER_CLASS, dotted_path, PrincipalBuilder, "a principal builder")  # type: ignore[type-abstract]
    try:
        builder.configure(settings)
    except Exception as error:
        name = type(builder).__name__
        raise ValueError(f"{BUILDER_CLASS}: {name} rejects its settings: {text_of(error)}") from error
    return builder


class DefaultPrincipalBuilder:
    """Builds as Kafka: the SASL user, else the certificate's subject by the mapping rules, else ANONYMOUS."""

    def __init__(self) -> None:
        self._rules = MappingRules()

    def configure(self, settings: Mapping[str, str]) -> None:
        self._rules = MappingRules(settings.get(MAPPING_RULES, DEFAULT))

    def build(self, context: AuthenticationContext) -> Principal:
        if context.authenticated is not None:
            return context.authenticated
        if context.security_protocol != "SSL" or context.certificate is None:
            return ANONYMOUS
        # Imported here because it loads cryptography, which a process without TLS does not need.
        from proxy.security import distinguished_name

        return Principal(USER_TYPE, self._rules.name(distinguished_name.subject(context.certificate)))
