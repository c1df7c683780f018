"""What a connection has proved about its client in, the principal that ACLs and quotas name out (KIP-189).

Asked by proxy.net.listener when a connection is made and by the SASL side when a login is accepted. A class
of one's own is named in `principal.builder.class`; what it raises is a failed authentication.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from proxy.security import distinguished_name
from proxy.security.mapping_rules import DEFAULT, MappingRules
from proxy.security.plugin import plugin
from proxy.security.principal import ANONYMOUS, USER_TYPE, Principal

MAPPING_RULES = "ssl.principal.mapping.rules"
BUILDER_CLASS = "principal.builder.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationContext:
    """A client, as its transport and its login tell of it."""

    listener: str
    security_protocol: str
    host: str
    certificate: bytes | None = None
    """The client's own, in DER, verified; None when TLS asked for none or it gave none."""
    mechanism: str | None = None
    """Of the SASL login; None before one, or where there is none."""
    authenticated: Principal | None = None
    """Whom the SASL mechanism found it to be."""


@runtime_checkable
class PrincipalBuilder(Protocol):
    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once before any `build`, with the listener's settings under Kafka's names; ValueError."""
        ...

    def build(self, context: AuthenticationContext) -> Principal:
        """Who it is. object exception: nobody, and the connection is closed."""
        ...


def load_principal_builder(dotted_path: str | None, settings: Mapping[str, str]) -> PrincipalBuilder:
    """The configured builder that `principal.builder.class` names, Kafka's way without one; ValueError."""
    builder: PrincipalBuilder = DefaultPrincipalBuilder()
    if dotted_path is not None:
        # A Protocol that is looked up at run time: mypy takes it for an abstract class.
        builder = plugin(BUILDER_CLASS, dotted_path, PrincipalBuilder, "a principal builder")  # type: ignore[type-abstract]
    try:
        builder.configure(settings)
    except Exception as error:
        name = type(builder).__name__
        raise ValueError(f"{BUILDER_CLASS}: {name} rejects its settings: {error}") from error
    return builder


class DefaultPrincipalBuilder:
    """As Kafka's: the SASL user, else the certificate's subject after the mapping rules, else ANONYMOUS."""

    def __init__(self) -> None:
        self._rules = MappingRules()

    def configure(self, settings: Mapping[str, str]) -> None:
        self._rules = MappingRules(settings.get(MAPPING_RULES, DEFAULT))

    def build(self, context: AuthenticationContext) -> Principal:
        if context.authenticated is not None:
            return context.authenticated
        if context.security_protocol != "SSL" or context.certificate is None:
            return ANONYMOUS
        return Principal(USER_TYPE, self._rules.name(distinguished_name.subject(context.certificate)))
