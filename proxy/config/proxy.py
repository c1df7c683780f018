"""The proxy's whole file, and the sections that it has in common with a controller's."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import structlog
from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.audit.chain import MIN_KEY_BYTES
from proxy.audit.classes import ADMIN, AUTHENTICATION, CLASSES, DENIAL
from proxy.config.addresses import (
    Bind,
    HostPort,
    Peers,
    is_loopback,
    require_different_ports,
    require_other_processes,
    split_host_port,
)
from proxy.config.authorizer import (
    Authorizer,
    SerdeClass,
    require_authorizer,
    require_early_start_listeners,
)
from proxy.config.listener import Listener, require_users_file
from proxy.config.parts import (
    Duration,
    ExistingFile,
    FilePath,
    KeyProblem,
    Milliseconds,
    NotEmpty,
    Part,
    PrincipalsText,
    SecretFile,
    all_of,
    principal,
    principal_list,
    principals,
    relative,
    without,
)
from proxy.config.peer import ControllerPeer
from proxy.config.telemetry import Telemetry
from proxy.config.upstream import Upstream, require_addresses
from proxy.error_text import text_of
from proxy.metadata.signatures import LogVerifier
from proxy.net.audit.capacity import QUEUE_MAX_BYTES, RATE_PER_PRINCIPAL, AuditPolicy
from proxy.net.audit.outside_witness import is_url
from proxy.net.audit.writer import Fsync
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings
from proxy.net.metadata.quorum import CLUSTER_METADATA
from proxy.net.pages.http_access import BearerToken, HttpAccess, TokenFileError
from proxy.quota.connections import UNLIMITED, same_address
from proxy.quota.precedence import Scope, ScopedQuota, Scopes
from proxy.security.backoff import BackoffSettings
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal_serde import DEFAULT_SERDE_CLASS
from proxy.security.protected import (
    DEFAULT_AUDIT_TOPIC,
    DEFAULT_METADATA_TOPIC,
    DEFAULT_SHARES_TOPIC,
    DEFAULT_TRANSACTIONAL_ID,
    DEFAULT_WITNESSES_TOPIC,
    OwnResources,
)
from proxy.session.gate import DEFAULT_QUEUED_BYTES
from proxy.session.memory import DEFAULT_MAX_ELEMENTS

if TYPE_CHECKING:
    from proxy.metadata.signing_keys import PublicKeys, SigningKey

SYNCED = (ADMIN, DENIAL, AUTHENTICATION)
"""The classes of records that a response can wait for."""
Policy = Literal["refuse", "drop-and-count"]


class Audit(Part):
    """The `audit:` section of a proxy or a controller."""

    topic: str = DEFAULT_AUDIT_TOPIC
    spool_dir: FilePath
    spool_max_bytes: Annotated[int, Field(ge=1 << 20)] = 1 << 30
    spool_fsync: Fsync = Fsync.INTERVAL
    spool_fsync_interval_ms: Milliseconds = 100
    fsync_admin: bool = False
    fsync_denial: bool = False
    fsync_authentication: bool = False
    queue_max_bytes: Annotated[int, Field(ge=1 << 18)] = QUEUE_MAX_BYTES
    rate_per_principal: Annotated[int, Field(ge=0)] = RATE_PER_PRINCIPAL
    policy_admin: Policy = "refuse"
    policy_denial: Policy = "drop-and-count"
    policy_authentication: Policy = "drop-and-count"
    policy_summary: Policy = "drop-and-count"
    summary_interval_ms: Annotated[int, Field(ge=100)] = 10_000
    chain_key_file: SecretFile | None = None
    signing_key_file: SecretFile | None = None
    """The private key with which this process signs its checkpoints; None: it signs nothing."""
    witness: Annotated[str, Field(min_length=1)] | None = None
    """A directory or a URL that gets the checkpoints."""

    @field_validator("chain_key_file")
    @classmethod
    def _can_be_used(cls, path: Path | None) -> Path | None:
        if path is not None:
            _key(path)
        return path

    def policy(self) -> AuditPolicy:
        """The policy for records, by class. ValueError if the chain's key can no longer be read."""
        return AuditPolicy(
            {name: getattr(self, f"policy_{name}") for name in CLASSES},
            self.spool_fsync,
            self.spool_fsync_interval_ms,
            frozenset(name for name in SYNCED if getattr(self, f"fsync_{name}")),
            self.queue_max_bytes,
            None if self.chain_key_file is None else _key(self.chain_key_file),
            self.rate_per_principal,
            self.signing_key(),
            self.witness,
        )

    def signing_key(self) -> "SigningKey | None":
        """Read the private key. ValueError if the file can no longer be read."""
        if self.signing_key_file is None:
            return None
        # Imported here because it loads cryptography, which a process without signatures does not need.
        from proxy.metadata.signing_keys import SigningKey

        return SigningKey.load(self.signing_key_file)

    @model_validator(mode="after")
    def _keys_fit_together(self) -> "Audit":
        self.signing_key()
        if self.signing_key_file is not None and self.chain_key_file is not None:
            raise ValueError("chain.key.file: with signing.key.file the chain needs no secret; remove it")
        if self.witness is not None and self.signing_key_file is None:
            raise ValueError("witness: it gets signed checkpoints; set signing.key.file, too")
        return self

    @field_validator("witness")
    @classmethod
    def _is_a_url_or_a_directory(cls, target: str | None, info: ValidationInfo) -> str | None:
        if target is None or is_url(target):
            return target
        directory = relative(Path(target), info)
        if not directory.is_dir():
            raise ValueError(f"{directory} is no directory; create it, or write http: or https: for a URL")
        return str(directory)


class ProxyAudit(Audit):
    """The `audit:` section of a proxy."""

    witnesses_topic: Annotated[str, Field(min_length=1)] = DEFAULT_WITNESSES_TOPIC
    """Used with Kafka's own controllers; Penstock's witness the trail of each proxy themselves."""


def _key(path: Path) -> bytes:
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"{path}: the key has {len(key)} bytes; it needs at least {MIN_KEY_BYTES}")
    return key


DAY_MS = 24 * 60 * 60 * 1000


class DelegationToken(Part):
    """The keys for proxies. All files of the cluster need the same secret key."""

    secret_key_file: SecretFile | None = None

    @field_validator("secret_key_file")
    @classmethod
    def _can_be_used(cls, path: Path | None) -> Path | None:
        if path is not None:
            _secret(path)
        return path

    def secret(self) -> TokenSecret | None:
        """The secret key; None without delegation tokens. ValueError if the file can no longer be read."""
        return None if self.secret_key_file is None else _secret(self.secret_key_file)


class DelegationTokens(DelegationToken):
    """The keys for controllers."""

    max_lifetime_ms: Duration = 7 * DAY_MS
    expiry_time_ms: Duration = DAY_MS
    expiry_check_interval_ms: Duration = 60 * 60 * 1000


def _secret(path: Path) -> TokenSecret:
    try:
        # As in Kafka's own configuration: the key is the UTF-8 bytes of the text.
        return TokenSecret(path.read_text(encoding="utf-8").rstrip("\r\n").encode())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {text_of(error)}") from error


LOOPBACK = "127.0.0.1:9190"

log = structlog.get_logger(__name__)


class HttpSsl(Part):
    """PEM files. A client with a certificate of `ca` needs no token."""

    certificate: ExistingFile
    key: SecretFile
    ca: ExistingFile | None = None

    def server_tls(self) -> ServerTls:
        """TlsError names an invalid file."""
        return ServerTls(
            ServerTlsSettings(
                key_pair=KeyPair(self.certificate, self.key),
                # Not required, because a kubelet's probe of /livez and /readyz has no certificate.
                client_auth="none" if self.ca is None else "requested",
                ca=self.ca,
            )
        )


class Http(Part):
    """The `http:` section. The default is the loopback interface, because it needs no credential."""

    bind: HostPort = LOOPBACK
    ssl: HttpSsl | None = None
    bearer_token_file: SecretFile | None = None

    @model_validator(mode="after")
    def _token_can_be_used(self) -> "Http":
        try:
            if self.bearer_token_file is not None:
                BearerToken(self.bearer_token_file)
        except TokenFileError as error:
            raise ValueError(str(error)) from error
        return self

    def access(self) -> HttpAccess:
        """TlsError or TokenFileError name an invalid file."""
        host, port = split_host_port(self.bind)
        tls = None if self.ssl is None else self.ssl.server_tls()
        token = None if self.bearer_token_file is None else BearerToken(self.bearer_token_file)
        return HttpAccess(host=host, port=port, tls=tls, token=token)

    def exposure(self) -> str | None:
        """A warning if the network can read the port or its token; otherwise None."""
        if is_loopback(self.bind):
            return None
        if self.bearer_token_file is None and (self.ssl is None or self.ssl.ca is None):
            return (
                f"http.bind {self.bind}: everyone who can reach this port can read /metrics, /quotas"
                " and /audit, which"
                " contain user names; set http.bearer.token.file and http.ssl, or bind to 127.0.0.1"
            )
        if self.ssl is None:
            return (
                f"http.bind {self.bind}: the bearer token is sent in clear text; set http.ssl,"
                " or bind to 127.0.0.1"
            )
        return None


def http_access(http: Http | None, *, logged: bool = True) -> HttpAccess | None:
    """The HTTP port, or None if there is none. TlsError or TokenFileError name an invalid file.

    `logged`: log a warning if it is open to the network.
    """
    if http is None:
        return None
    exposure = http.exposure()
    if exposure is not None and logged:
        log.warning("the HTTP port is open to the network", message=exposure)
    return http.access()


class QuotaRules(Part):
    """Keys of both files."""

    model_config = without("quota_")
    repeated: ClassVar[str] = "quota."
    quota_mode: Literal["enforce", "observe"] = "enforce"
    quota_excluded_principals: PrincipalsText = ""
    quota_cluster_topic: Annotated[str, Field(min_length=1)] = DEFAULT_SHARES_TOPIC
    """No client may use it, also where no quota has the scope `cluster`."""

    @property
    def enforced(self) -> bool:
        return self.quota_mode == "enforce"

    @property
    def excluded(self) -> tuple[str, ...]:
        """The principals that are never limited."""
        return principals(self.quota_excluded_principals)

    def recorded_rules(self) -> dict[str, str]:
        """The settings for the audit trail."""
        return {"quota.mode": self.quota_mode, "quota.excluded.principals": ";".join(self.excluded)}


PrincipalTexts = Annotated[
    tuple[Annotated[str, AfterValidator(principal)], ...], BeforeValidator(principal_list)
]


class LoginBackoff(Part):
    """Delays of responses to repeated failed logins; see proxy.security.backoff."""

    failures: Annotated[int, Field(ge=0)] = 10
    window_ms: Milliseconds = 60_000
    initial_ms: Milliseconds = 100
    max_ms: Annotated[int, Field(ge=0, le=60_000)] = 1_000

    def settings(self) -> BackoffSettings:
        """The settings for proxy.security.backoff."""
        return BackoffSettings(self.failures, self.window_ms, self.initial_ms, self.max_ms)


class FollowedLog(Part):
    """The metadata log, and whose signatures it has to have, for proxies and controllers (SPEC S14)."""

    topic: str = DEFAULT_METADATA_TOPIC
    public_keys_file: ExistingFile | None = None
    """The public keys of all controllers; None: a proxy does not look at signatures."""
    unsigned: Literal["reject", "report"] = "reject"
    """What becomes of records that no controller has signed."""

    def public_keys(self) -> "PublicKeys | None":
        """Read the keys. ValueError if the file has anything else."""
        if self.public_keys_file is None:
            return None
        # Imported here because it loads cryptography, which a process without signatures does not need.
        from proxy.metadata.signing_keys import PublicKeys

        return PublicKeys.load(self.public_keys_file)

    @model_validator(mode="after")
    def _keys_can_be_read(self) -> "FollowedLog":
        self.public_keys()
        return self

    def verifier(self) -> LogVerifier | None:
        """Return what decides which records of the log count; None without public keys: all do."""
        keys = self.public_keys()
        return None if keys is None else LogVerifier(self.topic, keys, rejects=self.unsigned == "reject")


class Metadata(FollowedLog):
    """The topic of the metadata log; with `controller.mode: kraft` it is Kafka's."""

    transactional_id: Annotated[str, Field(min_length=1)] = DEFAULT_TRANSACTIONAL_ID
    """As in controller.yaml. No client may use it, nor the controllers' group, whose name contains it."""

    @field_validator("topic")
    @classmethod
    def _is_not_kafkas(cls, topic: str) -> str:
        if topic == CLUSTER_METADATA:
            raise ValueError(
                f"{topic} is Kafka's own log; to follow it, write controller: {{mode: kraft}} and"
                " remove this key"
            )
        return topic


def _entity_path(text: str) -> str:
    if not _ENTITY_PATH.fullmatch(text):
        raise ValueError(
            f"expected users/NAME, users/NAME/clients/ID, clients/ID or ips/ADDRESS, found {text!r}; NAME may"
            " be <default>, and names are written as penstock shell shows them below /config"
        )
    return text


EntityPath = Annotated[str, AfterValidator(_entity_path)]
_ENTITY_PATH = re.compile(r"users/[^/]+(/clients/[^/]+)?|clients/[^/]+|ips/[^/]+")


class Quota(QuotaRules):
    """The `quota:` section of a proxy."""

    quota_window_num: Annotated[int, Field(ge=2)] = 11
    quota_window_size_seconds: Annotated[int, Field(ge=1)] = 1
    quota_producer_default: Annotated[float, Field(gt=0)] | None = None
    quota_consumer_default: Annotated[float, Field(gt=0)] | None = None
    quota_scope: Scope = "proxy"
    quota_scope_by_quota: dict[ScopedQuota, Scope] = Field(default_factory=dict)
    quota_scope_by_entity: dict[EntityPath, Scope] = Field(default_factory=dict)
    quota_cluster_proxies: Annotated[int, Field(ge=1)] | None = None
    quota_cluster_partitions: Annotated[int, Field(ge=1, le=1000)] = 3

    @property
    def scopes(self) -> Scopes:
        """Which quotas hold for all proxies together."""
        return Scopes(
            self.quota_scope,
            {str(key): scope for key, scope in self.quota_scope_by_quota.items()},
            self.quota_scope_by_entity,
        )

    def recorded_settings(self) -> dict[str, str]:
        """The settings for the audit trail that quotas depend on, besides the metadata log."""
        defaults = {
            "quota.producer.default": self.quota_producer_default,
            "quota.consumer.default": self.quota_consumer_default,
        }
        return (
            self.recorded_rules()
            | {
                "quota.window.num": str(self.quota_window_num),
                "quota.window.size.seconds": str(self.quota_window_size_seconds),
            }
            | {key: repr(value) for key, value in defaults.items() if value is not None}
            | ({"quota.scope": self.scopes.recorded()} if self.scopes.any_cluster else {})
        )


class Limits(Part):
    """The `limits:` section of a controller, and the part of a proxy's that is the same."""

    socket_request_max_bytes: Annotated[int, Field(ge=1024)] = 100 * 1024 * 1024
    decoded_request_max_bytes: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    decoded_request_max_elements: Annotated[int, Field(ge=1_000)] = DEFAULT_MAX_ELEMENTS
    request_incomplete_max_ms: Annotated[Milliseconds, Field(ge=1_000)] = 120_000
    sasl_server_max_receive_size: Annotated[int, Field(ge=1024)] = 512 * 1024
    queued_max_request_bytes: Annotated[int, Field(ge=1024)] = DEFAULT_QUEUED_BYTES
    max_connections: Annotated[int, Field(ge=1)] = 10_000
    connections_max_idle_ms: Duration = 600_000
    login_timeout_ms: Duration = 30_000
    drain_timeout_ms: Milliseconds = 30_000

    @model_validator(mode="after")
    def _the_largest_request_has_room(self) -> "Limits":
        if self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ValueError(
                "queued.max.request.bytes is less than socket.request.max.bytes; raise it, or lower"
                " the other one"
            )
        return self


def _address(text: str) -> str:
    try:
        return same_address(text)
    except ValueError:
        raise ValueError(f"expected an IP address, found {text!r}") from None


Address = Annotated[str, AfterValidator(_address)]


class ProxyLimits(Limits):
    """The `limits:` section of a proxy."""

    max_connection_creation_rate: Annotated[int, Field(ge=0)] | None = None
    max_connections_per_ip: Annotated[int, Field(ge=0)] = UNLIMITED
    max_connections_per_ip_overrides: dict[Address, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _somebody_may_connect(self) -> "ProxyLimits":
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ValueError(
                "max.connections.per.ip is 0, so no client can connect; raise it, or set"
                " max.connections.per.ip.overrides"
            )
        return self


class Topics(Part):
    """The `topics:` section of a proxy."""

    model_config = without("topic_")
    repeated: ClassVar[str] = "topic."
    topic_owner_described: bool = False


class Log(Part):
    """The `log:` section."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class ProxyConfig(Part):
    """The proxy's whole file."""

    kind: ClassVar[str] = "proxy"
    proxy_id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")]
    workers: Annotated[int, Field(ge=1, le=128)] = 1
    listeners: Annotated[tuple[Listener, ...], NotEmpty]
    users_file: ExistingFile | None = None
    connections_max_reauth_ms: Milliseconds = 0
    connections_expired_close_idle: bool = False
    sessions_revoke_immediately: bool = False
    login_backoff: LoginBackoff = LoginBackoff()
    upstream: Upstream
    controller: ControllerPeer
    metadata: Annotated[Metadata, Field(validate_default=True)] = Metadata()
    authorizer: Authorizer = Authorizer()
    principal_serde_class: SerdeClass = DEFAULT_SERDE_CLASS
    proxy_principals: PrincipalTexts = ()
    delegation_token: DelegationToken = DelegationToken()
    quota: Quota = Quota()
    topics: Topics = Topics()
    audit: ProxyAudit
    limits: ProxyLimits = ProxyLimits()
    http: Http | None = None
    log: Log = Log()
    telemetry: Telemetry = Telemetry()

    @field_validator("listeners")
    @classmethod
    def _names_differ(cls, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
        names = [listener.name for listener in listeners]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"more than one listener has the name {', '.join(twice)}; each needs its own")
        return listeners

    @field_validator("metadata")
    @classmethod
    def _follows_the_log_of_the_mode(cls, metadata: Metadata, info: ValidationInfo) -> Metadata:
        controller = info.data.get("controller")
        if controller is None or controller.mode == "penstock":
            return metadata
        if metadata.topic == CLUSTER_METADATA:
            return metadata  # Set below, and validated again in a reload.
        if "topic" in metadata.model_fields_set:
            raise ValueError(
                f"topic: with controller.mode kraft the log is {CLUSTER_METADATA}; remove this key"
            )
        for key in ("transactional_id", "public_keys_file", "unsigned"):
            if key in metadata.model_fields_set:
                name = key.replace("_", ".")
                raise ValueError(f"{name}: it has no effect with controller.mode kraft; remove this key")
        return Metadata.model_construct(topic=CLUSTER_METADATA)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "ProxyConfig":
        all_of(
            partial(require_users_file, self.listeners, self.users_file),
            partial(require_authorizer, self.listeners, self.authorizer),
            partial(require_early_start_listeners, self.listeners, self.authorizer),
            partial(require_addresses, self.listeners, self.upstream),
            partial(require_different_ports, self.binds),
            partial(require_other_processes, self.binds, self.peers),
            self._workers_can_share_ports,
        )
        return self

    def _workers_can_share_ports(self) -> None:
        if self.workers > 1 and sys.platform != "linux":
            raise KeyProblem(
                ("workers",),
                "more than 1 worker needs Linux, which distributes connections by SO_REUSEPORT; write"
                " workers: 1",
            )

    @property
    def binds(self) -> tuple[Bind, ...]:
        """The addresses that the process listens on, with their keys."""
        http = () if self.http is None else ((("http", "bind"), self.http.bind),)
        return (
            *((("listeners", place, "bind"), entry.bind) for place, entry in enumerate(self.listeners)),
            *http,
        )

    @property
    def peers(self) -> tuple[Peers, ...]:
        """The addresses that the process connects to, with their keys."""
        return (
            (("upstream", "bootstrap"), self.upstream.bootstrap),
            (("upstream", "internal.bootstrap"), self.upstream.internal_bootstrap or ()),
            (("controller", "endpoints"), self.controller.endpoints),
        )

    @property
    def own_resources(self) -> OwnResources:
        """The resources that no client may change or use."""
        ours = self.controller.mode == "penstock"
        transactional_id = self.metadata.transactional_id if ours else None
        return OwnResources.of(
            self.metadata.topic,
            self.audit.topic,
            transactional_id,
            self.quota.quota_cluster_topic,
            self.audit.witnesses_topic,
            # Of a cluster that changed its mode: it still has the verifiers of all users.
            DEFAULT_METADATA_TOPIC,
        )

    def recorded_settings(self) -> dict[str, str]:
        """The settings for the audit trail that decisions depend on, besides the metadata log."""
        listeners = ",".join(
            f"{entry.name}={entry.security_protocol}/{self._recorded_limits(entry)}"
            for entry in self.listeners
        )
        told = self.authorizer.recorded_settings() | self.quota.recorded_settings()
        if self.upstream.identity == "user" and self.upstream.sasl is not None:
            told["upstream.token.requester"] = f"User:{self.upstream.sasl.username}"
        return told | {
            "controller.mode": self.controller.mode,
            "metadata.topic": self.metadata.topic,
            "listeners": listeners,
        }

    def _recorded_limits(self, entry: Listener) -> str:
        """connections.max.reauth.ms of each mechanism."""
        default_ms = self.connections_max_reauth_ms
        return "+".join(
            f"{name}:{entry.max_reauth_ms(name, default_ms)}" for name in entry.sasl_enabled_mechanisms
        )
