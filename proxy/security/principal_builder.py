"""Makes the principal that ACLs and quotas name from what a connection has proved (KIP-189).

proxy.net.clients.listener calls the builder when a connection is made, the SASL side when a login is
accepted. `principal.builder.class` may name another class; its exceptions are failed authentications.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from proxy.error_text import text_of
from proxy.security.mapping_rules import DEFAULT, MappingRules, NoMatchingRule
from proxy.security.plugin import plugin
from proxy.security.principal import ANONYMOUS, USER_TYPE, Principal, group_names
from proxy.security.sasl.exchange import shown

MAPPING_RULES = "ssl.principal.mapping.rules"
FROM, ALTERNATIVE_NAME_RULES = "ssl.principal.from", "ssl.principal.san.mapping.rules"
GROUPS_FROM, GROUPS_RULES = "ssl.principal.groups.from", "ssl.principal.groups.mapping.rules"
SUBJECT: Final = "SUBJECT"
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
    """Builds as Kafka: the SASL user, else the certificate's subject by the mapping rules, else ANONYMOUS.

    Beyond Kafka, alternative names by rules of their own come before or after the subject, and groups come
    from the certificate.
    """

    def __init__(self) -> None:
        self.configure({})

    def configure(self, settings: Mapping[str, str]) -> None:
        self._rules = MappingRules(settings.get(MAPPING_RULES, DEFAULT))
        self._alternative_name_rules = MappingRules(settings.get(ALTERNATIVE_NAME_RULES, DEFAULT))
        self._groups_rules = MappingRules(settings.get(GROUPS_RULES, DEFAULT))
        self._sources = settings.get(FROM, SUBJECT).split(",")
        self._groups_sources = [source for source in settings.get(GROUPS_FROM, "").split(",") if source]

    def build(self, context: AuthenticationContext) -> Principal:
        if context.authenticated is not None:
            return context.authenticated
        if context.security_protocol != "SSL" or context.certificate is None:
            return ANONYMOUS
        groups = group_names(self._groups(context.certificate))
        return Principal(USER_TYPE, self._name(context.certificate), groups=groups)

    def _name(self, certificate: bytes) -> str:
        # Imported here because it loads cryptography, which a process without TLS does not need.
        from proxy.security import distinguished_name

        if self._sources == [SUBJECT]:
            return self._rules.name(distinguished_name.subject(certificate))
        for source in self._sources:
            rules = self._rules if source == SUBJECT else self._alternative_name_rules
            names = _mapped(certificate, source, rules)
            if len(names) > 1:
                # Which one counts would depend on the order in the certificate.
                raise ValueError(
                    f"{source} of the certificate has several names: {shown(', '.join(sorted(names)))}"
                )
            if names:
                return names.pop()
        raise NoMatchingRule(
            f"no rule applies to {', '.join(self._sources)} of the certificate of"
            f" {shown(distinguished_name.subject(certificate))}"
        )

    def _groups(self, certificate: bytes) -> Iterator[str]:
        for source in self._groups_sources:
            yield from _mapped(certificate, source, self._groups_rules)


def _mapped(certificate: bytes, source: str, rules: MappingRules) -> set[str]:
    """Return what the rules make of the texts of a source; texts that no rule is for are left out."""
    from proxy.security.certificate_names import texts

    return {name for text in texts(certificate, source) if (name := rules.find(text))}
