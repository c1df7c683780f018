"""The controller's configuration file: parses and checks the YAML.

Read by forwarding.app. It uses the sections of proxy.config, so listeners and logins have the same keys
in both files.
"""

from functools import partial
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from forwarding.controller.api import TokenSettings
from forwarding.controller.policy import Policies, PolicySettings, load_policies
from proxy.config import (
    Audit,
    AuthorizerConfig,
    Bootstrap,
    DelegationTokens,
    ExistingFile,
    Http,
    LimitsConfig,
    ListenerConfig,
    Log,
    LoginBackoffConfig,
    Milliseconds,
    Part,
    PeerConfig,
    QuotaRules,
    SerdeClass,
    TelemetryConfig,
    require_authorizer,
    require_users_file,
)
from proxy.config.addresses import Bind, require_different_ports, require_other_processes
from proxy.config.authorizer import PolicyConfig, require_early_start_listeners, require_provable
from proxy.config.parts import (
    LIVE,
    RESTART,
    Below,
    KeyProblem,
    PluginSettings,
    SecretFile,
    Unset,
    all_of,
    without,
)
from proxy.config.proxy import FollowedLog
from proxy.metadata.signing_keys import SigningKey
from proxy.security.authorizer import load_authorizer
from proxy.security.principal_serde import DEFAULT_SERDE_CLASS
from proxy.security.protected import DEFAULT_TRANSACTIONAL_ID, acls_in_log


class BrokerPeer(PeerConfig):
    """Bootstrap brokers of the cluster."""

    bootstrap: Annotated[Bootstrap, RESTART]
    """`host:port` of a broker of the cluster, or of [several](#several-addresses), tried in order."""


class MetadataLogConfig(FollowedLog):
    """The metadata log that this controller writes."""

    transactional_id: Annotated[str, Field(min_length=1), RESTART] = DEFAULT_TRANSACTIONAL_ID
    """The transactional id of the writer of the log; a second controller with the same id fences the first.
    `<id>-election` is the group that elects the active controller. At the broker only controllers need WRITE
    on the id and READ on the group. No client of a proxy may use them."""
    signing_key_file: Annotated[SecretFile | None, RESTART] = None
    """The private key with which this controller [signs](authorizers.md#signatures) the log, PEM, Ed25519:
    `openssl genpkey -algorithm ed25519`. None: the log is not signed."""

    def signing_key(self) -> SigningKey | None:
        """Read the private key."""
        return None if self.signing_key_file is None else SigningKey.load(self.signing_key_file)

    @model_validator(mode="after")
    def _keys_fit_together(self) -> "MetadataLogConfig":
        key, public = self.signing_key(), self.public_keys()
        if key is None and public is not None:
            raise ValueError("public.keys.file: a controller needs its signing.key.file, too")
        if key is not None and public is not None and key.id not in public:
            raise ValueError(
                f"public.keys.file: {self.public_keys_file} does not have the key of {self.signing_key_file};"
                " add what `openssl pkey -pubout` prints of it"
            )
        return self


class MutationQuotaConfig(QuotaRules):
    """The burst of controller_mutation_rate is the rate multiplied by both numbers."""

    controller_quota_window_num: Annotated[int, Field(ge=1), RESTART] = 11
    """A client that changed nothing for a while may create and delete its `controller_mutation_rate` times
    this and times `controller.quota.window.size.seconds` partitions at once."""
    controller_quota_window_size_seconds: Annotated[int, Field(ge=1), RESTART] = 1
    """The other factor of that number."""


TOPIC_RULES = "forwarding.controller.topic_rules.TopicRules"


def _full_name(name: str) -> str:
    return TOPIC_RULES if name == "TopicRules" else name


PolicyName = Annotated[str, AfterValidator(_full_name)]


class TopicSettings(Part):
    """Topic owners and topic policies, which the controller adds to the topics that brokers create."""

    model_config = without("topic_")
    repeated: ClassVar[str] = "topic."
    topic_owner_creator: Annotated[bool, RESTART] = False
    """Whether the creator of a topic [owns it](topic-rules.md)."""
    topic_owner_check_interval_ms: Annotated[int, Field(ge=100), RESTART] = 30_000
    """How often the controller checks at a broker whether the topics with owners still exist."""
    create_topic_policy_class_name: Annotated[PolicyName | None, RESTART] = None
    """A [policy](topic-rules.md#policies) for the creation of topics: `TopicRules`, or one of your own."""
    alter_config_policy_class_name: Annotated[PolicyName | None, RESTART] = None
    """A [policy](topic-rules.md#policies) for changes of configs: `TopicRules`, or one of your own."""
    policy_settings: Annotated[PluginSettings, RESTART] = Field(default_factory=dict)
    """The argument of the policies' `configure`: `{key: "value"}`."""

    def policies(self) -> Policies:
        """Load the policy classes. ValueError names the key of a class that cannot be used."""
        create, alter = self.create_topic_policy_class_name, self.alter_config_policy_class_name
        return load_policies(PolicySettings(create, alter, self.policy_settings))

    @model_validator(mode="after")
    def _policies_can_be_used(self) -> "TopicSettings":
        self.policies()
        return self


LIVE_OF_LISTENER = (
    "connections_max_reauth_ms",
    "sasl_mechanism_connections_max_reauth_ms",
    "connection_failed_authentication_delay_ms",
    "max_connections",
)


class ControllerConfig(Part):
    """The whole file."""

    kind: ClassVar[str] = "controller"
    controller_id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$"), RESTART]
    """Name of this controller in audit records and logs."""
    listener: Annotated[ListenerConfig, Below({"*": RESTART} | dict.fromkeys(LIVE_OF_LISTENER, LIVE))]
    """The address that proxies connect to; one [listener](#a-listener)."""
    users_file: Annotated[ExistingFile | None, RESTART] = None
    """The users that the proxies log in as; see [users](#usersyaml)."""
    connections_max_reauth_ms: Annotated[Milliseconds, LIVE] = 0
    """How long their sessions last after a login, if the listener does not set it."""
    sessions_revoke_immediately: Annotated[bool, RESTART] = False
    """Whether the next request of a proxy whose credential was changed or removed closes its connection."""
    login_backoff: LoginBackoffConfig = LoginBackoffConfig()
    """[As in proxy.yaml](#logins-that-fail)."""
    broker: BrokerPeer
    """The cluster: `bootstrap`, one broker or [several](#several-addresses), and the rest of [a
    peer](#a-peer)."""
    metadata: MetadataLogConfig = MetadataLogConfig()
    authorizer: Annotated[
        AuthorizerConfig, Below({"early_start_listeners": RESTART, "candidate": RESTART})
    ] = AuthorizerConfig()
    """[As in proxy.yaml](#the-authorizer). By default the listener is one of the `early.start.listeners`:
    super users are served before the log is loaded. The proxies need CLUSTER_ACTION: name them in
    `super.users` or add the ACL."""
    policy: PolicyConfig = PolicyConfig()
    delegation_token: DelegationTokens = DelegationTokens()
    """See [delegation tokens](#delegation-tokens)."""
    quota: MutationQuotaConfig = MutationQuotaConfig()
    """`mode`, `excluded.principals` and `cluster.topic` [as in proxy.yaml](#quotas), for
    `controller_mutation_rate`, and:"""
    topics: TopicSettings = TopicSettings()
    principal_serde_class: Annotated[SerdeClass, RESTART, Unset("Kafka's")] = DEFAULT_SERDE_CLASS
    """How principals are encoded in Envelopes: [a class](logins.md#certificates) with `serialize` and
    `deserialize`, the same at proxies and controllers."""
    audit: Audit
    """[As in proxy.yaml](#audit), without `witnesses.topic`."""
    limits: LimitsConfig = LimitsConfig()
    """[As in proxy.yaml](#limits), without `max.connections.per.ip` and `max.connection.creation.rate`."""
    http: Annotated[Http | None, Unset("no HTTP")] = None
    """The port with /metrics and /readyz; see [the HTTP port](#the-http-port)."""
    log: Log = Log()
    telemetry: TelemetryConfig = TelemetryConfig()

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "ControllerConfig":
        all_of(
            partial(require_users_file, (self.listener,), self.users_file),
            partial(require_authorizer, (self.listener,), self.authorizer),
            partial(require_early_start_listeners, (self.listener,), self.authorizer),
            partial(require_provable, self.policy, self.authorizer),
            partial(require_different_ports, self.binds),
            partial(require_other_processes, self.binds, ((("broker", "bootstrap"), self.broker.bootstrap),)),
            self._some_keys_are_not_for_controllers,
            self._owners_are_known,
        )
        return self

    def _some_keys_are_not_for_controllers(self) -> None:
        keys = ("connections.max.age.ms", "max.connection.creation.rate", "proxy.protocol.networks")
        keepalive = [f"tcp.keepalive.{name}" for name in ("idle.seconds", "interval.seconds", "probes")]
        for key in (*keys, "sasl.scram.nonce.check", *keepalive):
            if key.replace(".", "_") in self.listener.model_fields_set:
                raise KeyProblem(("listener", key), f"{key} is for a proxy's listeners; remove it")
        if self.listener.ssl is not None and self.listener.ssl.client_certificate_expiry_enforced:
            key = "client.certificate.expiry.enforced"
            raise KeyProblem(("listener", "ssl", key), f"{key} is for a proxy's listeners; remove it")
        if self.authorizer.candidate is not None:
            at = "authorizer", "candidate"
            raise KeyProblem(at, "a candidate decides at the proxies; move the key to their files")

    def _owners_are_known(self) -> None:
        name = self.authorizer.authorizer_class_name
        if self.topics.topic_owner_creator and not (
            name and acls_in_log(load_authorizer(name, self.authorizer.settings()))
        ):
            raise KeyProblem(
                ("topics", "owner.creator"),
                "topic.owner.creator: the configured authorizer knows no owners of topics",
            )

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The addresses that the process listens on, each with the path of its key."""
        http = () if self.http is None else ((("http", "bind"), self.http.bind),)
        return ((("listener", "bind"), self.listener.bind), *http)

    @property
    def early_start(self) -> bool:
        """Whether the listener opens before the log is loaded; by default it does (KIP-801)."""
        if "early_start_listeners" not in self.authorizer.model_fields_set:
            return True
        return self.listener.name in self.authorizer.early_start_listeners


def token_settings(config: ControllerConfig) -> TokenSettings:
    """Return the settings of delegation tokens. ValueError if the key's file can no longer be read."""
    tokens = config.delegation_token
    return TokenSettings(
        tokens.secret(),
        tokens.max_lifetime_ms,
        tokens.expiry_time_ms,
        plaintext_listener=config.listener.security_protocol == "PLAINTEXT",
    )
