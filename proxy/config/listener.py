"""A listener's settings: the address, TLS, and logins, also by tokens and Kerberos (GSSAPI).

proxy.net.logins.credentials reads them. For tokens, Kafka checks neither issuer nor audience if they are not
set. Here both have to be set, possibly to empty.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from proxy.config.addresses import HostPort, IdentityUrl, Network
from proxy.config.document import Location
from proxy.config.parts import (
    LIVE,
    NEW_CONNECTIONS,
    Duration,
    ExistingFile,
    KeyProblem,
    Listed,
    Milliseconds,
    NotEmpty,
    Part,
    PluginSettings,
    SecretFile,
    Unset,
    checked_by,
    kafka_name,
    without,
)
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings
from proxy.net.logins.credentials import BUILT_IN
from proxy.security.claims import ClaimPath, GroupsClaim, NameClaim
from proxy.security.kerberos_names import DEFAULT, LocalRules
from proxy.security.principal import group_names
from proxy.security.principal_builder import (
    ALTERNATIVE_NAME_RULES,
    FROM,
    GROUPS_FROM,
    GROUPS_RULES,
    MAPPING_RULES,
    SUBJECT,
    PrincipalBuilder,
    load_principal_builder,
)
from proxy.security.sasl.exchange import MAX_TOKEN_BYTES, MECHANISM_NAME

if TYPE_CHECKING:
    from proxy.net.logins.kerberos import GssapiSettings
    from proxy.net.logins.oauthbearer import JwksSettings, OAuthBearerSettings
    from proxy.security.jwt import JwtPolicy

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Listed]
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""The algorithms of proxy.security.jwk_set; none of them uses a shared secret."""
Algorithms = Annotated[tuple[Algorithm, ...], Listed, NotEmpty]
Name = Annotated[str, Field(min_length=1)]


def _one_or_more(value: object) -> object:
    """A text is one claim, as in Kafka, whatever it contains."""
    return [value] if isinstance(value, str) else value


Claim = Annotated[str, checked_by(ClaimPath.parse)]
"""The name of a claim, or a JSON Pointer to it."""
Claims = Annotated[tuple[Claim, ...], BeforeValidator(_one_or_more), NotEmpty]
Prefix = Annotated[str, checked_by(partial(group_names, ["name"]))]


_OAUTHBEARER = "sasl_oauthbearer_"


class OAuthBearer(Part):
    """The keys of a listener that enables OAUTHBEARER: the identity provider, and what its tokens mean."""

    sasl_oauthbearer_jwks_endpoint_url: Annotated[IdentityUrl | None, LIVE, Unset("required")] = None
    """URL of the provider's keys: `https://…`, `http://` on this machine only, or `file:…`, which is reloaded
    when it changes."""
    sasl_oauthbearer_jwks_endpoint_ca: Annotated[ExistingFile | None, LIVE, Unset("the system's")] = None
    """PEM file with the CAs of the endpoint's certificate."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[Duration, LIVE] = 3_600_000
    """How often the proxy loads the keys."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Annotated[Duration, LIVE] = 100
    """Delay before a retry after a failure; it doubles with each failure."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Annotated[Duration, LIVE] = 10_000
    """Maximum of the delay before a retry."""
    sasl_oauthbearer_expected_issuer: Annotated[str | None, LIVE, Unset("required")] = None
    """Required value of `iss`. Set to empty to disable the check."""
    sasl_oauthbearer_expected_audience: Annotated[Names | None, LIVE, Unset("required")] = None
    """`aud` has to contain at least one of these, as a list or separated by commas. If empty, only tokens
    without `aud` are accepted."""
    sasl_oauthbearer_required_scope: Annotated[Names, LIVE] = ()
    """Scopes that a token must contain, all of them."""
    sasl_oauthbearer_scope_claim_name: Annotated[Name, LIVE] = "scope"
    """The claim with the scopes, a string or a list; some providers use `scp`."""
    sasl_oauthbearer_sub_claim_name: Annotated[Claims, LIVE, Unset("`sub`")] = ("sub",)
    """The claim with the principal's name, or a list: the first that the token has. Each is a name, or a path
    that begins with a slash, such as `/act/sub`."""
    sasl_oauthbearer_sub_claim_prefixes: Annotated[dict[Claim, Prefix], LIVE] = Field(default_factory=dict)
    """What the principal's name begins with if it is from this claim: `{client_id: "service-account-"}`."""
    sasl_oauthbearer_groups_claim: Annotated[Claim | None, LIVE, Unset("no groups")] = None
    """The claim with the client's [groups](logins.md#groups), a list or a string: its name, or a path that
    begins with a slash, such as `/realm_access/roles`."""
    sasl_oauthbearer_groups_separator: Annotated[str, LIVE, Unset("a string is one group")] = ""
    """What separates the groups if the claim is a string."""
    sasl_oauthbearer_groups_prefix: Annotated[Prefix, LIVE] = ""
    """What the names of groups begin with in ACLs."""
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Field(ge=0, le=3600), LIVE] = 30
    """Allowed clock skew between the provider and the proxy."""
    sasl_oauthbearer_allowed_algorithms: Annotated[Algorithms, LIVE, Unset("all of these")] = get_args(
        Algorithm
    )
    """`RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `ES512`, `EdDSA`, `Ed25519`;
    never `none`, and never an algorithm with a shared secret."""
    sasl_oauthbearer_token_max_bytes: Annotated[int, Field(ge=256, le=MAX_TOKEN_BYTES), LIVE] = 16_384
    """Maximum length of a token; longer ones are rejected."""

    def key(self, name: str) -> str:
        """The key of `jwks_endpoint_url` and so on in this part."""
        return type(self).model_fields[f"{_OAUTHBEARER}{name}"].alias or name

    @property
    def name_prefixes(self) -> list[str]:
        """What the names of principals may begin with."""
        prefixes = self.sasl_oauthbearer_sub_claim_prefixes
        return [prefixes.get(claim, "") for claim in self.sasl_oauthbearer_sub_claim_name]

    @property
    def group_prefixes(self) -> list[str]:
        """What the names of groups begin with; none without groups."""
        return [] if self.sasl_oauthbearer_groups_claim is None else [self.sasl_oauthbearer_groups_prefix]

    def provider_settings(self) -> "OAuthBearerSettings":
        """The settings for proxy.net.logins.oauthbearer; ValueError names a missing key."""
        # It needs httpx and joserfc: imported only where OAUTHBEARER is enabled (decision 0065).
        from proxy.net.logins.oauthbearer import OAuthBearerSettings

        url = self.sasl_oauthbearer_jwks_endpoint_url
        if url is None:
            raise ValueError(f"OAUTHBEARER needs {self.key('jwks_endpoint_url')}; write https://… or file:…")
        issuer, audience = self.sasl_oauthbearer_expected_issuer, self.sasl_oauthbearer_expected_audience
        for key, value in (("expected_issuer", issuer), ("expected_audience", audience)):
            if value is None:
                raise ValueError(f"OAUTHBEARER needs {self.key(key)}; set it to empty to disable the check")
        return OAuthBearerSettings(self._jwks(url), self._policy(issuer or None, audience or ()))

    def _jwks(self, url: str) -> "JwksSettings":
        from proxy.net.logins.oauthbearer import JwksSettings

        return JwksSettings(
            url=url,
            refresh_ms=self.sasl_oauthbearer_jwks_endpoint_refresh_ms,
            retry_backoff_ms=self.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            retry_backoff_max_ms=self.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
            ca=self.sasl_oauthbearer_jwks_endpoint_ca,
        )

    def _policy(self, issuer: str | None, audience: tuple[str, ...]) -> "JwtPolicy":
        from proxy.security.jwt import JwtPolicy

        return JwtPolicy(
            issuer,
            frozenset(audience),
            algorithms=frozenset(self.sasl_oauthbearer_allowed_algorithms),
            clock_skew_s=self.sasl_oauthbearer_clock_skew_seconds,
            scope_claim=self.sasl_oauthbearer_scope_claim_name,
            names=self._names(),
            required_scopes=frozenset(self.sasl_oauthbearer_required_scope),
            max_bytes=self.sasl_oauthbearer_token_max_bytes,
            groups=self._groups(),
        )

    def _names(self) -> tuple[NameClaim, ...]:
        claims, prefixes = self.sasl_oauthbearer_sub_claim_name, self.sasl_oauthbearer_sub_claim_prefixes
        idle = sorted(set(prefixes) - set(claims))
        if idle:
            raise ValueError(
                f"{self.key('sub_claim_prefixes')}: {', '.join(idle)}: not among"
                f" {self.key('sub_claim_name')}; add it there, or remove it here"
            )
        return tuple(NameClaim(ClaimPath.parse(claim), prefixes.get(claim, "")) for claim in claims)

    def _groups(self) -> GroupsClaim | None:
        claim, separator = self.sasl_oauthbearer_groups_claim, self.sasl_oauthbearer_groups_separator
        prefix = self.sasl_oauthbearer_groups_prefix
        if claim is not None:
            return GroupsClaim(ClaimPath.parse(claim), separator, prefix)
        if separator or prefix:
            raise ValueError(
                f"{self.key('groups_separator')} and {self.key('groups_prefix')} have no effect without"
                f" {self.key('groups_claim')}; write it, or remove them"
            )
        return None


class Provider(OAuthBearer):
    """One of several identity providers of a listener. Its keys omit `sasl.oauthbearer.`."""

    model_config = without(_OAUTHBEARER)


def _listed(value: object) -> object:
    """Split Kafka's comma-separated lists. A rule with a comma needs a YAML list."""
    return [rule.strip() for rule in value.split(",")] if isinstance(value, str) else value


Rules = Annotated[tuple[str, ...], BeforeValidator(_listed), NotEmpty, checked_by(LocalRules)]


class Gssapi(Part):
    """The keys of a listener that enables GSSAPI."""

    sasl_kerberos_service_name: Annotated[str, Field(pattern=r"^[^/@\s]+$"), LIVE] = "kafka"
    """The service name: the proxy accepts keys of `NAME/any-host` in the keytab."""
    sasl_kerberos_keytab: Annotated[SecretFile | None, LIVE, Unset("required with `GSSAPI`")] = None
    """The keytab with the key of the service. The proxy reads it at each login; see
    [Kerberos](logins.md#kerberos)."""
    sasl_kerberos_principal_to_local_rules: Annotated[Rules, LIVE, Unset("`DEFAULT`")] = (DEFAULT,)
    """Rules that map a Kerberos name to the principal's name, in Kafka's notation, as a list or separated by
    commas: `RULE:[1:$1]/L,DEFAULT`."""

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
        else:
            _require_none(self, "sasl_kerberos_", "GSSAPI")


def _require_none(part: Part, prefix: str, mechanism: str) -> None:
    idle = sorted(name for name in part.model_fields_set if name.startswith(prefix))
    if idle:
        keys = ", ".join(name.replace("_", ".") for name in idle)
        raise ValueError(
            f"{keys}: no effect without {mechanism}; add it to sasl.enabled.mechanisms, or remove the key"
        )


_SCRAM = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Annotated[str, Field(pattern=f"^{MECHANISM_NAME.pattern}$")]
"""The name of a built-in mechanism, or of one in `sasl.server.mechanism.classes`."""
Protocols = Annotated[tuple[Literal["TLSv1.2", "TLSv1.3"], ...], Listed, NotEmpty]
ClassPath = Annotated[str, Field(pattern=r"^\w+(\.\w+)+$")]
"""package.module.Class."""


NameSource = Literal["SUBJECT", "SAN:URI", "SAN:DNS", "SAN:EMAIL", "SAN:IP"]
NameSources = Annotated[tuple[NameSource, ...], Listed, NotEmpty]
GroupSource = Literal["OU", "SAN:URI", "SAN:DNS", "SAN:EMAIL", "SAN:IP"]
GroupSources = Annotated[tuple[GroupSource, ...], Listed]


class ServerName(Part):
    """A certificate for clients that request one server name (SNI)."""

    certificate: ExistingFile
    key: SecretFile


class ServerSsl(Part):
    """TLS of a listener, PEM files, which are reloaded when they change."""

    certificate: Annotated[ExistingFile, NEW_CONNECTIONS]
    """PEM file with the listener's certificate, and those of intermediate CAs; reloaded when it changes."""
    key: Annotated[SecretFile, NEW_CONNECTIONS]
    """PEM file with the key of the certificate; reloaded when it changes."""
    client_auth: Annotated[Literal["none", "requested", "required"], NEW_CONNECTIONS] = "none"
    """`none`, `requested`, `required`: whether the client presents a certificate. On `SSL` it determines the
    principal; on `SASL_SSL` it is checked in addition to the login."""
    ca: Annotated[ExistingFile | None, NEW_CONNECTIONS] = None
    """PEM file with the CAs of clients' certificates; required with `client.auth`; reloaded when it
    changes."""
    crl: Annotated[ExistingFile | None, NEW_CONNECTIONS, Unset("none is revoked")] = None
    """PEM file with the revocation lists (CRLs) of all CAs in clients' chains; reloaded when it changes. A
    client whose CA has no list in it, or one past its next update, is rejected."""
    crl_expired: Annotated[Literal["reject", "report"], NEW_CONNECTIONS] = "reject"
    """`reject`: no client is accepted while a list is past its next update. `report`: a line of the log says
    so, and only clients whose certificates are in a list are rejected."""
    client_certificate_expiry_enforced: Annotated[bool, NEW_CONNECTIONS] = False
    """Whether the session of a client that logs in with its certificate (`SSL`) ends when the certificate
    expires."""
    principal_mapping_rules: Annotated[str, NEW_CONNECTIONS] = "DEFAULT"
    """Rules that map a certificate's distinguished name to the principal's name, in Kafka's notation:
    `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`."""
    principal_from: Annotated[NameSources, NEW_CONNECTIONS, Unset("`SUBJECT`")] = (SUBJECT,)
    """What of a certificate the principal's name is made from, in this order: `SUBJECT`, and the
    [alternative names](logins.md#certificates) `SAN:URI`, `SAN:DNS`, `SAN:EMAIL`, `SAN:IP`."""
    principal_san_mapping_rules: Annotated[str, NEW_CONNECTIONS] = "DEFAULT"
    """Rules that map an alternative name to the principal's name, in the same notation, where a slash is
    `\\/`: `RULE:^SAN:URI:spiffe:\\/\\/acme\\.org\\/(.*)$/$1/`."""
    principal_groups_from: Annotated[GroupSources, NEW_CONNECTIONS] = ()
    """What of a certificate the client's [groups](logins.md#groups) are made from: `OU`, the units of its
    subject, and alternative names."""
    principal_groups_mapping_rules: Annotated[str, NEW_CONNECTIONS] = "DEFAULT"
    """Rules that map these to names of groups: `RULE:^OU=(.*)$/$1/`. What no rule is for is no group."""
    server_names: Annotated[dict[str, ServerName], NEW_CONNECTIONS] = Field(default_factory=dict)
    """Other certificates, by the server name that a client requests: `{"kafka.acme.org": {certificate: ...,
    key: ...}}`."""
    enabled_protocols: Annotated[Protocols, NEW_CONNECTIONS, Unset("both")] = ("TLSv1.2", "TLSv1.3")
    """`TLSv1.2`, `TLSv1.3`."""
    ciphers: Annotated[str | None, NEW_CONNECTIONS, Unset("OpenSSL's")] = None
    """Ciphers for TLS 1.2, in OpenSSL's notation."""

    @model_validator(mode="after")
    def _client_certificates_need_a_ca(self) -> "ServerSsl":
        if self.client_auth != "none" and self.ca is None:
            raise ValueError("client.auth needs the CAs of clients' certificates; write ca: FILE")
        if self.client_auth == "none" and (self.crl is not None or self.client_certificate_expiry_enforced):
            raise ValueError(
                "crl and client.certificate.expiry.enforced have no effect without clients' certificates;"
                " write client.auth: required"
            )
        names, groups = "principal.san.mapping.rules", "principal.groups.mapping.rules"
        for rules, idle, source in (
            (names, self.principal_from == (SUBJECT,), "principal.from: [SAN:URI, SUBJECT]"),
            (groups, not self.principal_groups_from, "principal.groups.from: OU"),
        ):
            if idle and rules.replace(".", "_") in self.model_fields_set:
                raise ValueError(f"{rules} has no effect without its source; write {source}")
        return self

    @property
    def looks_into_certificates(self) -> bool:
        """Whether clients' names or groups are made from more of a certificate than its subject."""
        return self.principal_from != (SUBJECT,) or bool(self.principal_groups_from)

    def principal_settings(self) -> dict[str, str]:
        """The settings of the principal builder, under Kafka's names."""
        return {
            MAPPING_RULES: self.principal_mapping_rules,
            FROM: ",".join(self.principal_from),
            ALTERNATIVE_NAME_RULES: self.principal_san_mapping_rules,
            GROUPS_FROM: ",".join(self.principal_groups_from),
            GROUPS_RULES: self.principal_groups_mapping_rules,
        }

    def server_tls(self) -> ServerTls:
        """TlsError names an invalid file."""
        names = {name: KeyPair(pair.certificate, pair.key) for name, pair in self.server_names.items()}
        return ServerTls(
            ServerTlsSettings(
                key_pair=KeyPair(self.certificate, self.key),
                client_auth=self.client_auth,
                ca=self.ca,
                crl=self.crl,
                crl_expired=self.crl_expired,
                server_names=names,
                protocols=self.enabled_protocols,
                ciphers=self.ciphers,
            )
        )


class ListenerConfig(OAuthBearer, Gssapi):
    """One address that clients connect to."""

    name: Annotated[str, LIVE]
    """Name, unique in the file."""
    bind: Annotated[HostPort, LIVE]
    """`host:port` to listen on."""
    advertised: Annotated[HostPort | None, LIVE, Unset("`bind`")] = None
    """`host:port` that clients connect to, as responses contain it."""
    security_protocol: Annotated[SecurityProtocol, NEW_CONNECTIONS] = "SASL_SSL"
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`."""
    sasl_enabled_mechanisms: Annotated[tuple[Mechanism, ...], Listed, LIVE] = ()
    """`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `GSSAPI`, and those of
    `sasl.server.mechanism.classes`; required with SASL, an error without."""
    sasl_oauthbearer_providers: Annotated[dict[Name, Provider], LIVE] = Field(default_factory=dict)
    """Several [identity providers](logins.md#several-identity-providers) by a name of your own, each with the
    keys of [tokens](#tokens) without `sasl.oauthbearer.`, which then must not be set themselves. The `iss` of
    a token chooses its provider."""
    sasl_server_mechanism_classes: Annotated[dict[Mechanism, ClassPath], LIVE] = Field(default_factory=dict)
    """Mechanism classes of your own, `{NAME: package.module.Class}`, which may replace a built-in mechanism;
    see [security/sasl/exchange.py](../proxy/security/sasl/exchange.py)."""
    sasl_server_mechanism_settings: Annotated[dict[Mechanism, PluginSettings], LIVE] = Field(
        default_factory=dict
    )
    """The argument of the classes' `configure`: `{NAME: {key: "value"}}`."""
    sasl_plain_verifier_class: Annotated[ClassPath | None, LIVE, Unset("the users file")] = None
    """Dotted path of a class that checks PLAIN passwords elsewhere, such as in a directory; see
    [security/sasl/plain.py](../proxy/security/sasl/plain.py)."""
    sasl_plain_verifier_settings: Annotated[PluginSettings, LIVE] = Field(default_factory=dict)
    """The argument of the verifier's `configure`: `{key: "value"}`."""
    sasl_scram_nonce_check: Annotated[Literal["as-broker", "strict", "lax"], LIVE] = "as-broker"
    """Whether SCRAM clients have to repeat the server's nonce, which librdkafka before 2.6.1 (Debian 12's
    `kcat`) does not: `strict`, `lax`, or as the broker does (`as-broker`: strict before Kafka 3.9 and later,
    and while the broker is unknown; lax before Kafka 3.8 and earlier). See [decision
    0117](decisions/0117-the-nonce-of-old-librdkafka.md). Not at a controller, which is strict."""
    connections_max_reauth_ms: Annotated[Milliseconds | None, LIVE, Unset("that of the file")] = None
    """How long a session on this listener lasts after a login."""
    sasl_mechanism_connections_max_reauth_ms: Annotated[
        dict[Mechanism, Milliseconds], LIVE, Unset("that of the listener")
    ] = Field(default_factory=dict)
    """`connections.max.reauth.ms` by mechanism: `{PLAIN: 60000}`."""
    connections_max_age_ms: Annotated[Duration | None, NEW_CONNECTIONS, Unset("no limit")] = None
    """How long the session of a client that logs in with its certificate (`SSL`) lasts. Sessions after SASL
    logins last `connections.max.reauth.ms`."""
    connection_failed_authentication_delay_ms: Annotated[Milliseconds, LIVE] = 100
    """Delay before the response to a failed login."""
    max_connections: Annotated[int | None, Field(ge=1), LIVE, Unset("the process's")] = None
    """Connections of this listener, within the limit of the [process](#limits)."""
    max_connection_creation_rate: Annotated[int | None, Field(ge=0), LIVE, Unset("no limit")] = None
    """Connections per second of this listener. A connection waits for the longer of this and the
    [process's](#limits) delay. Not at a controller."""
    proxy_protocol_networks: Annotated[
        tuple[Network, ...], Listed, NEW_CONNECTIONS, Unset("no PROXY protocol")
    ] = ()
    """The addresses of load balancers, such as `10.0.3.0/24`. Each connection then has to come from one of
    them and to begin with a header of the [PROXY protocol](addresses.md#behind-a-load-balancer), which says
    the client's address. Not at a controller."""
    tcp_keepalive_idle_seconds: Annotated[
        int | None, Field(ge=1, le=32_767), NEW_CONNECTIONS, Unset("the system's")
    ] = None
    """How long a client's connection is idle before the kernel probes whether it is still there
    (`TCP_KEEPIDLE`, the system's `net.ipv4.tcp_keepalive_time`). All connections are probed, as at a broker
    (`SO_KEEPALIVE`). Not at a controller."""
    tcp_keepalive_interval_seconds: Annotated[
        int | None, Field(ge=1, le=32_767), NEW_CONNECTIONS, Unset("the system's")
    ] = None
    """The time between two probes without a response (`TCP_KEEPINTVL`). Not at a controller."""
    tcp_keepalive_probes: Annotated[
        int | None, Field(ge=1, le=127), NEW_CONNECTIONS, Unset("the system's")
    ] = None
    """After so many probes without a response the connection ends (`TCP_KEEPCNT`). Not at a controller."""
    ssl: Annotated[ServerSsl | None, Unset("required with SSL")] = None
    """TLS of the listener, PEM files."""
    principal_builder_class: Annotated[ClassPath | None, NEW_CONNECTIONS, Unset("as Kafka's")] = None
    """A [principal builder](logins.md#certificates) of your own, package.module.Class."""
    principal_builder_settings: Annotated[PluginSettings, NEW_CONNECTIONS] = Field(default_factory=dict)
    """The argument of the builder's `configure`: `{key: "value"}`."""

    @property
    def keepalive(self) -> tuple[int | None, int | None, int | None]:
        return (
            self.tcp_keepalive_idle_seconds,
            self.tcp_keepalive_interval_seconds,
            self.tcp_keepalive_probes,
        )

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def needs_users_file(self) -> bool:
        """Whether PLAIN gets its users from the users file."""
        replaced = "PLAIN" in self.sasl_server_mechanism_classes or self.sasl_plain_verifier_class is not None
        return "PLAIN" in self.sasl_enabled_mechanisms and not replaced

    @property
    def authenticates(self) -> bool:
        """Whether clients can have a principal other than ANONYMOUS."""
        return self.uses_sasl or (self.ssl is not None and self.ssl.client_auth != "none")

    def server_tls(self) -> ServerTls | None:
        """The TLS settings, or None; TlsError names an invalid file."""
        return self.ssl.server_tls() if self.ssl is not None and self.uses_ssl else None

    def principal_builder(self) -> PrincipalBuilder:
        """The principal builder of this listener; ValueError names an invalid key."""
        rules = {} if self.ssl is None else self.ssl.principal_settings()
        return load_principal_builder(self.principal_builder_class, rules | self.principal_builder_settings)

    @property
    def providers(self) -> dict[Location, OAuthBearer]:
        """The identity providers, by the place of their keys."""
        several = self.sasl_oauthbearer_providers
        return {("sasl.oauthbearer.providers", name): each for name, each in several.items()} or {(): self}

    def oauthbearer(self) -> "tuple[OAuthBearerSettings, ...]":
        """The identity providers for proxy.net.logins.oauthbearer; ValueError names a wrong key."""
        issuers: dict[str | None, Location] = {}
        found = []
        for place, provider in self.providers.items():
            try:
                found.append(provider.provider_settings())
            except ValueError as error:
                raise KeyProblem(place, str(error)) from error
            issuer, at = found[-1].policy.issuer, (*place, provider.key("expected_issuer"))
            if place and issuer is None:
                raise KeyProblem(
                    at, "is empty, and it chooses the provider of a token; write the token's iss"
                )
            if issuers.setdefault(issuer, place) != place:
                raise KeyProblem(at, f"{issuer} is also that of {issuers[issuer][-1]}; each needs its own")
        return tuple(found)

    def _check_oauthbearer(self, enabled: bool) -> None:
        """ValueError for a missing key, or for keys that have no effect."""
        if not enabled:
            _require_none(self, _OAUTHBEARER, "OAUTHBEARER")
            return
        beside = sorted(self.model_fields_set & set(OAuthBearer.model_fields))
        if self.sasl_oauthbearer_providers and beside:
            raise ValueError(
                f"{kafka_name(beside[0])}: no effect beside sasl.oauthbearer.providers; move it into them"
            )
        self.oauthbearer()

    def max_reauth_ms(self, mechanism: str, default_ms: int) -> int:
        """connections.max.reauth.ms of a mechanism; `default_ms` is the value of the whole file."""
        of_listener = default_ms if self.connections_max_reauth_ms is None else self.connections_max_reauth_ms
        return self.sasl_mechanism_connections_max_reauth_ms.get(mechanism, of_listener)

    def checks_scram_nonce(self, *, broker_does: bool) -> bool:
        """Whether SCRAM clients have to repeat the server's nonce; `broker_does`: whether the broker wants
        it."""
        chosen = self.sasl_scram_nonce_check
        return broker_does if chosen == "as-broker" else chosen == "strict"

    @model_validator(mode="after")
    def _mechanisms_are_known(self) -> "ListenerConfig":
        enabled = set(self.sasl_enabled_mechanisms)
        unknown = enabled - set(BUILT_IN) - set(self.sasl_server_mechanism_classes)
        if unknown:
            raise ValueError(
                f"sasl.enabled.mechanisms: unknown: {', '.join(sorted(unknown))}; write one of"
                f" {', '.join(BUILT_IN)},"
                " or add a class to sasl.server.mechanism.classes"
            )
        if self.sasl_plain_verifier_class is not None and "PLAIN" not in enabled:
            raise ValueError(
                "sasl.plain.verifier.class: no effect without PLAIN; add it to"
                " sasl.enabled.mechanisms, or remove the key"
            )
        for key, named in (
            ("sasl.server.mechanism.classes", self.sasl_server_mechanism_classes),
            ("sasl.server.mechanism.settings", self.sasl_server_mechanism_settings),
            ("sasl.mechanism.connections.max.reauth.ms", self.sasl_mechanism_connections_max_reauth_ms),
        ):
            if not enabled.issuperset(named):
                idle = ", ".join(sorted(set(named) - enabled))
                raise ValueError(
                    f"{key}: {idle}: not among sasl.enabled.mechanisms; add it there, or remove it here"
                )
        if enabled.isdisjoint(_SCRAM - set(self.sasl_server_mechanism_classes)):
            _require_none(self, "sasl_scram_", "SCRAM-SHA-256 or SCRAM-SHA-512")
        self._check_oauthbearer("OAUTHBEARER" in enabled - set(self.sasl_server_mechanism_classes))
        self.check_gssapi("GSSAPI" in enabled - set(self.sasl_server_mechanism_classes))
        return self

    @model_validator(mode="after")
    def _certificates_are_logins(self) -> "ListenerConfig":
        """Keys about logins with certificates are errors on a listener without such logins."""
        if self.connections_max_age_ms is not None and (self.uses_sasl or not self.authenticates):
            raise ValueError(
                "connections.max.age.ms: no effect, since clients of this listener do not log in with"
                " certificates; write connections.max.reauth.ms with SASL, or ssl > client.auth with SSL"
            )
        if self.ssl is not None and self.ssl.client_certificate_expiry_enforced and self.uses_sasl:
            raise ValueError(
                "ssl > client.certificate.expiry.enforced: no effect with SASL, whose sessions end as"
                " connections.max.reauth.ms says; remove it"
            )
        looks = self.ssl is not None and self.ssl.looks_into_certificates
        if looks and (self.uses_sasl or not self.authenticates):
            raise ValueError(
                "ssl > principal.from and principal.groups.from: no effect, since clients of this listener"
                " do not log in with certificates; remove them, or write security.protocol: SSL and"
                " client.auth"
            )
        return self

    @model_validator(mode="after")
    def _parts_fit_the_protocol(self) -> "ListenerConfig":
        if self.uses_ssl and self.ssl is None:
            raise ValueError(
                f"security.protocol {self.security_protocol} needs a certificate; write ssl:"
                f" {{certificate: FILE, key: FILE}}"
            )
        if self.uses_sasl and not self.sasl_enabled_mechanisms:
            raise ValueError(
                f"security.protocol {self.security_protocol} needs sasl.enabled.mechanisms; write a"
                " list of mechanisms"
            )
        if not self.uses_sasl and self.sasl_enabled_mechanisms:
            raise ValueError(
                f"sasl.enabled.mechanisms is set, but security.protocol is {self.security_protocol};"
                " remove it, or write a SASL protocol"
            )
        return self


def require_users_file(listeners: tuple[ListenerConfig, ...], users_file: Path | None) -> None:
    """ValueError if PLAIN needs the users file and there is none."""
    if users_file is None and any(listener.needs_users_file for listener in listeners):
        raise ValueError(
            "a listener enables PLAIN, which needs users.file;"
            " write users.file: users.yaml at the top of the file"
        )
