"""The keys of a listener for Kerberos (GSSAPI): Kafka's keys, and the keytab of the service.

Part of proxy.config.listener; proxy.net.logins.credentials reads it.
"""

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from proxy.config.parts import NotEmpty, Part, SecretFile
from proxy.security.kerberos_names import DEFAULT, LocalRules

if TYPE_CHECKING:
    from proxy.net.logins.kerberos import GssapiSettings

_PREFIX = "sasl_kerberos_"


def _listed(value: object) -> object:
    """Splits Kafka's comma-separated lists. A rule with a comma needs a YAML list."""
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
        """The settings for proxy.net.logins.kerberos; ValueError names a missing key."""
        if self.sasl_kerberos_keytab is None:
            raise ValueError("GSSAPI needs sasl.kerberos.keytab; write sasl.kerberos.keytab: FILE")
        from proxy.net.logins.kerberos import GssapiSettings

        return GssapiSettings(
            self.sasl_kerberos_service_name,
            self.sasl_kerberos_keytab,
            self.sasl_kerberos_principal_to_local_rules,
        )

    def check_gssapi(self, enabled: bool) -> None:
        """ValueError for a missing key, or for keys that have no effect."""
        if enabled:
            self.gssapi()
            return
        idle = sorted(name for name in self.model_fields_set if name.startswith(_PREFIX))
        if idle:
            keys = ", ".join(name.replace("_", ".") for name in idle)
            raise ValueError(
                f"{keys}: no effect without GSSAPI; add it to sasl.enabled.mechanisms, or remove the key"
            )
