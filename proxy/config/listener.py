"""A listener's settings: the address, TLS, who may log in and how."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from proxy.config.gssapi import Gssapi
from proxy.config.oauthbearer import OAuthBearer
from proxy.config.parts import HostPort, Listed, Milliseconds, PluginSettings
from proxy.config.tls import ServerSsl
from proxy.net.files.tls import ServerTls
from proxy.net.logins.credentials import BUILT_IN
from proxy.security.principal_builder import MAPPING_RULES, PrincipalBuilder, load_principal_builder
from proxy.security.sasl.mechanism import NAME

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
"""A name; a listener's are built in, or of its `sasl.server.mechanism.classes`."""
ClassPath = Annotated[str, Field(pattern=r"^\w+(\.\w+)+$")]
"""package.module.Class."""


class Listener(OAuthBearer, Gssapi):
    """One address that clients connect to."""

    name: str
    bind: HostPort
    advertised: HostPort | None = None
    security_protocol: SecurityProtocol = "SASL_SSL"
    sasl_enabled_mechanisms: Annotated[tuple[Mechanism, ...], Listed] = ()
    sasl_server_mechanism_classes: dict[Mechanism, ClassPath] = Field(default_factory=dict)
    sasl_server_mechanism_settings: dict[Mechanism, PluginSettings] = Field(default_factory=dict)
    sasl_plain_verifier_class: ClassPath | None = None
    sasl_plain_verifier_settings: PluginSettings = Field(default_factory=dict)
    connections_max_reauth_ms: Milliseconds | None = None
    sasl_mechanism_connections_max_reauth_ms: dict[Mechanism, Milliseconds] = Field(default_factory=dict)
    connection_failed_authentication_delay_ms: Milliseconds = 100
    max_connections: Annotated[int, Field(ge=1)] | None = None
    max_connection_creation_rate: Annotated[int, Field(ge=0)] | None = None
    ssl: ServerSsl | None = None
    principal_builder_class: ClassPath | None = None
    principal_builder_settings: PluginSettings = Field(default_factory=dict)

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def asks_the_users_file(self) -> bool:
        """Whether PLAIN here has no other place to look its users up."""
        replaced = "PLAIN" in self.sasl_server_mechanism_classes or self.sasl_plain_verifier_class is not None
        return "PLAIN" in self.sasl_enabled_mechanisms and not replaced

    @property
    def authenticates(self) -> bool:
        """Whether clients here can be others than ANONYMOUS."""
        return self.uses_sasl or (self.ssl is not None and self.ssl.client_auth != "none")

    def server_tls(self) -> ServerTls | None:
        """TlsError names the file that cannot be used."""
        return self.ssl.server_tls() if self.ssl is not None and self.uses_ssl else None

    def principal_builder(self) -> PrincipalBuilder:
        """Who turns what a client has proved into its principal; ValueError names what is wrong."""
        rules = {} if self.ssl is None else {MAPPING_RULES: self.ssl.principal_mapping_rules}
        return load_principal_builder(self.principal_builder_class, rules | self.principal_builder_settings)

    def max_reauth_ms(self, mechanism: str, default_ms: int) -> int:
        """connections.max.reauth.ms of a mechanism here; `default_ms`: of the whole file."""
        of_listener = default_ms if self.connections_max_reauth_ms is None else self.connections_max_reauth_ms
        return self.sasl_mechanism_connections_max_reauth_ms.get(mechanism, of_listener)

    @model_validator(mode="after")
    def _mechanisms_are_known(self) -> "Listener":
        enabled = set(self.sasl_enabled_mechanisms)
        unknown = enabled - set(BUILT_IN) - set(self.sasl_server_mechanism_classes)
        if unknown:
            raise ValueError(
                f"sasl.enabled.mechanisms: {', '.join(sorted(unknown))}: built in are {', '.join(BUILT_IN)},"
                " others need sasl.server.mechanism.classes"
            )
        if self.sasl_plain_verifier_class is not None and "PLAIN" not in enabled:
            raise ValueError("sasl.plain.verifier.class: PLAIN is not among sasl.enabled.mechanisms")
        for key, named in (
            ("sasl.server.mechanism.classes", self.sasl_server_mechanism_classes),
            ("sasl.server.mechanism.settings", self.sasl_server_mechanism_settings),
            ("sasl.mechanism.connections.max.reauth.ms", self.sasl_mechanism_connections_max_reauth_ms),
        ):
            if not enabled.issuperset(named):
                idle = ", ".join(sorted(set(named) - enabled))
                raise ValueError(f"{key}: {idle}: not among sasl.enabled.mechanisms")
        self.check_oauthbearer("OAUTHBEARER" in enabled - set(self.sasl_server_mechanism_classes))
        self.check_gssapi("GSSAPI" in enabled - set(self.sasl_server_mechanism_classes))
        return self

    @model_validator(mode="after")
    def _parts_fit_the_protocol(self) -> "Listener":
        if self.uses_ssl and self.ssl is None:
            raise ValueError(f"security.protocol {self.security_protocol} needs ssl: certificate and key")
        if self.uses_sasl and not self.sasl_enabled_mechanisms:
            raise ValueError(f"security.protocol {self.security_protocol} needs sasl.enabled.mechanisms")
        if not self.uses_sasl and self.sasl_enabled_mechanisms:
            raise ValueError(f"security.protocol {self.security_protocol} takes no sasl.enabled.mechanisms")
        return self


def require_users_file(listeners: tuple[Listener, ...], users_file: Path | None) -> None:
    """PLAIN has nowhere else to look its users up, unless it has a verifier."""
    if users_file is None and any(listener.asks_the_users_file for listener in listeners):
        raise ValueError(
            "a listener enables PLAIN, which needs users.file;"
            " write at the top of the file: users.file: users.yaml"
        )
