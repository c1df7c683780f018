"""How a listener knows Kerberos users (GSSAPI): Kafka's keys, and where the service's keytab is.

Part of proxy.config.listener; read by proxy.net.logins.credentials.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from proxy.config.parts import NotEmpty, Part, SecretFile
from proxy.security.kerberos_names import DEFAULT, LocalRules

if TYPE_CHECKING:
    from proxy.net.logins.kerberos import GssapiSettings

_PREFIX = "sasl_kerberos_"


def _listed(value: object) -> object:
    """In Kafka's lists no rule can contain a comma; in those of YAML it can. An empty one is an error."""
    return [rule.strip() for rule in value.split(",")] if isinstance(value, str) else value


def _readable(rules: tuple[str, ...]) -> tuple[str, ...]:
    LocalRules(rules)
    return rules


Rules = Annotated[tuple[str, ...], BeforeValidator(_listed), NotEmpty, AfterValidator(_readable)]


class Gssapi(Part):
    """The keys of a listener that enables GSSAPI."""

    sasl_kerberos_service_name: Annotated[str, Field(pattern=r"^[^/@\s]+$")] = "kafka"
    sasl_kerberos_keytab: SecretFile | None = None
    sasl_kerberos_principal_to_local_rules: Rules = (DEFAULT,)

    def gssapi(self) -> "GssapiSettings":
        """What they stand for; ValueError names a key that is missing."""
        if self.sasl_kerberos_keytab is None:
            raise ValueError("GSSAPI needs sasl.kerberos.keytab")
        from proxy.net.logins.kerberos import GssapiSettings

        return GssapiSettings(
            self.sasl_kerberos_service_name,
            self.sasl_kerberos_keytab,
            self.sasl_kerberos_principal_to_local_rules,
        )

    def check_gssapi(self, enabled: bool) -> None:
        """ValueError for a key that is missing, or that nothing would read."""
        if enabled:
            self.gssapi()
            return
        idle = sorted(name for name in self.model_fields_set if name.startswith(_PREFIX))
        if idle:
            keys = ", ".join(name.replace("_", ".") for name in idle)
            raise ValueError(f"{keys}: GSSAPI is not among sasl.enabled.mechanisms")
