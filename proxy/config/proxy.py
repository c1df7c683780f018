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
    Bootstrap,
    HostPort,
    Peers,
    is_loopback,
    require_different_ports,
    require_other_processes,
    split_host_port,
)
from proxy.config.authorizer import (
    AuthorizerConfig,
    PolicyConfig,
    SerdeClass,
    require_authorizer,
    require_early_start_listeners,
    require_provable,
)
from proxy.config.listener import ListenerConfig, require_users_file
from proxy.config.parts import (
    LIVE,
    NEW_CONNECTIONS,
    RESTART,
    Duration,
    ExistingFile,
    FilePath,
    KeyProblem,
    Milliseconds,
    NotEmpty,
    Part,
    PrincipalsText,
    SecretFile,
    TopicName,
    Unset,
    all_of,
    checked_by,
    principal,
    principal_list,
    principals,
    relative,
    without,
)
from proxy.config.peer import ControllerPeer, PeerConfig, endpoint
from proxy.config.telemetry import TelemetryConfig
from proxy.config.upstream import UpstreamConfig, require_addresses
from proxy.error_text import text_of
from proxy.metadata.signatures import LogVerifier
from proxy.net.audit.capacity import QUEUE_MAX_BYTES, RATE_PER_PRINCIPAL, AuditPolicy
from proxy.net.audit.outside_witness import WitnessTopic, is_url
from proxy.net.audit.writer import Fsync
from proxy.net.files.tls import KeyPair, ServerTls, ServerTlsSettings
from proxy.net.metadata.quorum import CLUSTER_METADATA
from proxy.net.pages.http_access import AdminTokens, BearerToken, HttpAccess, TokenFileError
from proxy.quota.connections import UNLIMITED, same_address
from proxy.quota.keys import ScopedQuota
from proxy.quota.precedence import Scope, Scopes
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


def _key(path: Path) -> bytes:
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"{path}: the key has {len(key)} bytes; it needs at least {MIN_KEY_BYTES}")
    return key


ChainKeyFile = Annotated[SecretFile, checked_by(_key)]


class WitnessClusterConfig(PeerConfig):
    """Another cluster, a topic of which gets checkpoints, and how to reach it."""

    topic: Annotated[TopicName, RESTART]
    """The topic's name. It is created if it is missing."""
    bootstrap: Annotated[Bootstrap, RESTART]
    """`host:port` of brokers of that cluster."""

    def target(self) -> WitnessTopic:
        """TlsError names an invalid file."""
        return WitnessTopic(endpoint(self, self.bootstrap, "penstock-witness"), self.topic)


class Audit(Part):
    """The `audit:` section of a proxy or a controller."""

    topic: Annotated[TopicName, RESTART] = DEFAULT_AUDIT_TOPIC
    """The topic that records are shipped to."""
    spool_dir: Annotated[FilePath, RESTART]
    """A directory on a disk that survives the process; see [decision 0004](decisions/0004-audit-spool.md).
    Each process needs its own: the directory is locked, and a second process ends with exit code 2 and a
    message that names the first; `penstock check` warns."""
    spool_max_bytes: Annotated[int, Field(ge=1 << 20), RESTART] = 1 << 30
    """Maximum size of the spool; beyond it `audit.policy` decides. Of this size, and of the queue, 1/8 is
    reserved for administrative changes, 1/8 for denials, 1/16 for logins; see [the audit
    page](audit.md#shares-of-the-spool)."""
    spool_fsync: Annotated[Fsync, RESTART] = Fsync.INTERVAL
    """When the spool is synced to the disk: `interval`; `always`, after each write; `never`, when the kernel
    does it."""
    spool_fsync_interval_ms: Annotated[Milliseconds, RESTART] = 100
    """The interval, with `interval`."""
    fsync_admin: Annotated[bool, LIVE] = False
    """Whether the response to an administrative request waits until its records are synced to the disk, not
    only written to the kernel."""
    fsync_denial: Annotated[bool, LIVE] = False
    """The same for denied requests: no client receives a denial before its record is on the disk; see
    [decision 0036](decisions/0036-answers-that-wait-for-the-disk.md)."""
    fsync_authentication: Annotated[bool, LIVE] = False
    """The same for logins at a proxy, successful or not, and for re-authentications."""
    queue_max_bytes: Annotated[int, Field(ge=1 << 18), RESTART] = QUEUE_MAX_BYTES
    """Memory for records that are not yet written to a slow disk; see [decision
    0019](decisions/0019-audit-through-a-bounded-queue.md)."""
    rate_per_principal: Annotated[int, Field(ge=0), LIVE] = RATE_PER_PRINCIPAL
    """Records per second of denials, rejected requests and administrative reads of one principal, or of
    failed logins from one address; ten times as many in a burst. Records beyond the rate are
    [counted](audit.md#a-rate-for-each-principal) instead of written one by one. `0`: no limit."""
    policy_admin: Annotated[Policy, LIVE] = "refuse"
    """What happens to administrative changes if their records cannot be stored: `refuse` rejects them,
    `drop-and-count` drops the records."""
    policy_denial: Annotated[Policy, LIVE] = "drop-and-count"
    """The same for denied actions. Because any request may turn out to be denied, `refuse` rejects all
    requests while a denial could not be stored."""
    policy_authentication: Annotated[Policy, LIVE] = "drop-and-count"
    """The same for logins; with `refuse` no client can log in or re-authenticate."""
    policy_summary: Annotated[Policy, LIVE] = "drop-and-count"
    """The same for allowed data requests; with `refuse` an outage of the audit trail is an outage of the
    data."""
    summary_interval_ms: Annotated[int, Field(ge=100), LIVE] = 10_000
    """Interval of the summaries that count allowed data requests."""
    chain_key_file: Annotated[ChainKeyFile | None, RESTART] = None
    """A secret of at least 32 bytes, the same for all processes. With it the hash chain over the records is
    an HMAC-SHA256, which cannot be forged without the secret. See [the chain](audit.md#the-chain)."""
    signing_key_file: Annotated[SecretFile | None, LIVE] = None
    """The private key with which this process signs its [checkpoints](audit.md#checkpoints), PEM, Ed25519:
    `openssl genpkey -algorithm ed25519`. In place of `audit.chain.key.file`: the chain needs no secret then,
    and the jobs need public keys only. A reload reads the file again."""
    witness: Annotated[str | None, Field(min_length=1), RESTART] = None
    """With `audit.signing.key.file`: a directory, or a URL with `http:` or `https:`, that gets a checkpoint
    each minute ([a witness outside](audit.md#a-witness-outside))."""
    witness_cluster: WitnessClusterConfig | None = None
    """In place of `audit.witness`: a topic of another cluster gets the checkpoints."""

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
            self.witness if self.witness_cluster is None else self.witness_cluster.target(),
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
        if self.witness is not None and self.witness_cluster is not None:
            raise ValueError("witness and witness.cluster are both set; a process has one witness")
        has_witness = self.witness is not None or self.witness_cluster is not None
        if has_witness and self.signing_key_file is None:
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

    witnesses_topic: Annotated[TopicName, RESTART] = DEFAULT_WITNESSES_TOPIC
    """With `controller.mode: kraft`, the topic over which proxies [witness](kraft.md#witnesses) each other's
    trail, the same at all proxies. Clients cannot use it. A proxy creates it if it is missing, with one
    partition; reconciliation knows the default name only, and reports the creation of a topic of another name
    as `changes.unexplained` once."""


DAY_MS = 24 * 60 * 60 * 1000


def _secret(path: Path) -> TokenSecret:
    try:
        # As in Kafka's own configuration: the key is the UTF-8 bytes of the text.
        return TokenSecret(path.read_text(encoding="utf-8").rstrip("\r\n").encode())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {text_of(error)}") from error


TokenKeyFile = Annotated[SecretFile, checked_by(_secret)]


class DelegationTokenConfig(Part):
    """The keys for proxies. All files of the cluster need the same secret key."""

    secret_key_file: Annotated[TokenKeyFile | None, RESTART, Unset("no tokens")] = None
    """File with the secret key of delegation tokens, the same at all proxies and controllers: Kafka's
    `delegation.token.secret.key`. Read at the start. Another key invalidates all existing tokens."""

    def secret(self) -> TokenSecret | None:
        """The secret key; None without delegation tokens. ValueError if the file can no longer be read."""
        return None if self.secret_key_file is None else _secret(self.secret_key_file)


class DelegationTokens(DelegationTokenConfig):
    """The keys for controllers."""

    max_lifetime_ms: Annotated[Duration, RESTART] = 7 * DAY_MS
    """Maximum lifetime of a token, including renewals."""
    expiry_time_ms: Annotated[Duration, RESTART] = DAY_MS
    """Lifetime of a token without renewal."""
    expiry_check_interval_ms: Annotated[Duration, RESTART] = 60 * 60 * 1000
    """How often expired tokens are removed from the log."""


LOOPBACK = "127.0.0.1:9190"

log = structlog.get_logger(__name__)


class HttpSsl(Part):
    """PEM files. A client with a certificate of `ca` needs no token."""

    certificate: Annotated[ExistingFile, LIVE]
    """PEM file with the certificate, reloaded when it changes.
    `penstock_certificate_expiry_timestamp_seconds` includes it."""
    key: Annotated[SecretFile, LIVE]
    """PEM file with its key, reloaded when it changes."""
    ca: Annotated[ExistingFile | None, LIVE] = None
    """A client with a certificate of this CA needs no token. Use a CA that signs for monitoring only, because
    every certificate of it is accepted."""

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

    bind: Annotated[HostPort, LIVE] = LOOPBACK
    """`host:port`; write `http: {}` for the default. Without `http` the process opens no HTTP port."""
    ssl: Annotated[HttpSsl | None, Unset("no TLS")] = None
    """TLS of the HTTP port."""
    bearer_token_file: Annotated[SecretFile | None, LIVE] = None
    """A file with one word of at least 16 characters (`openssl rand -hex 32`), for `Authorization: Bearer …`;
    reloaded when it changes."""
    admin_tokens_file: Annotated[SecretFile | None, LIVE] = None
    """Who may [end connections](commands.md#end-connections): a file with a name and a token of at least
    16 characters on each line, for `Authorization: Bearer …`; reloaded when it changes. Without it no one
    may."""

    @model_validator(mode="after")
    def _token_can_be_used(self) -> "Http":
        try:
            if self.bearer_token_file is not None:
                BearerToken(self.bearer_token_file)
            if self.admin_tokens_file is not None:
                AdminTokens(self.admin_tokens_file)
        except TokenFileError as error:
            raise ValueError(str(error)) from error
        return self

    def access(self) -> HttpAccess:
        """TlsError or TokenFileError name an invalid file."""
        host, port = split_host_port(self.bind)
        tls = None if self.ssl is None else self.ssl.server_tls()
        token = None if self.bearer_token_file is None else BearerToken(self.bearer_token_file)
        admins = None if self.admin_tokens_file is None else AdminTokens(self.admin_tokens_file)
        return HttpAccess(host=host, port=port, tls=tls, token=token, admins=admins)

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
    quota_mode: Annotated[Literal["enforce", "observe"], LIVE] = "enforce"
    """`observe`: the proxy counts rates and records what it would throttle (`throttled` with the rule
    `observe`), but throttles no client."""
    quota_excluded_principals: Annotated[PrincipalsText, LIVE] = ""
    """Principals that are never limited: `User:a;Group:b`."""
    quota_cluster_topic: Annotated[TopicName, RESTART] = DEFAULT_SHARES_TOPIC
    """The topic over which proxies agree on their shares, the same at all proxies and controllers. Clients
    cannot write it."""

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


class LoginBackoffConfig(Part):
    """Delays of responses to repeated failed logins; see proxy.security.backoff."""

    failures: Annotated[int, Field(ge=0), LIVE] = 10
    """Number of failures without a delay; `0`: never delay."""
    window_ms: Annotated[Milliseconds, LIVE] = 60_000
    """Failures are forgotten after this time without another one."""
    initial_ms: Annotated[Milliseconds, LIVE] = 100
    """The first delay."""
    max_ms: Annotated[int, Field(ge=0, le=60_000), LIVE] = 1_000
    """Maximum delay."""

    def settings(self) -> BackoffSettings:
        """The settings for proxy.security.backoff."""
        return BackoffSettings(self.failures, self.window_ms, self.initial_ms, self.max_ms)


class FollowedLog(Part):
    """The metadata log, and whose signatures it has to have, for proxies and controllers (SPEC S14)."""

    topic: Annotated[TopicName, RESTART] = DEFAULT_METADATA_TOPIC
    """The topic of the metadata log. Must not be set with `kraft`, where the log is `__cluster_metadata`."""
    public_keys_file: Annotated[ExistingFile | None, RESTART] = None
    """The public keys of all controllers, one PEM after the other: only what they have
    [signed](authorizers.md#signatures) is in effect. None: signatures are not looked at. Must not be set with
    `kraft`."""
    unsigned: Annotated[Literal["reject", "report"], RESTART] = "reject"
    """With public keys: `reject`, or `report` while a log of an earlier release is [being
    signed](authorizers.md#signatures): what is not signed is reported, and in effect."""

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

    transactional_id: Annotated[str, Field(min_length=1), RESTART] = DEFAULT_TRANSACTIONAL_ID
    """As in controller.yaml: [no client may use it](authorizers.md#penstocks-own-resources), nor the group
    `penstock-controller-election`. If the controller has another id, the proxy protects both and logs a
    warning. Must not be set with `kraft`."""

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


class QuotaConfig(QuotaRules):
    """The `quota:` section of a proxy."""

    quota_window_num: Annotated[int, Field(ge=2), RESTART] = 11
    """Number of samples of a rate."""
    quota_window_size_seconds: Annotated[int, Field(ge=1), RESTART] = 1
    """Length of a sample."""
    quota_producer_default: Annotated[float | None, Field(gt=0), LIVE] = None
    """Bytes per second that a client may produce if no quota in the log applies to it."""
    quota_consumer_default: Annotated[float | None, Field(gt=0), LIVE] = None
    """Bytes per second that a client may fetch if no quota in the log applies to it."""
    quota_scope: Annotated[Scope, RESTART] = "proxy"
    """`cluster`: a limit holds for all proxies together, wherever its clients connect. `proxy`: for each
    proxy by itself, as at a broker. See [one quota for the whole
    cluster](quotas.md#one-quota-for-the-whole-cluster)."""
    quota_scope_by_quota: Annotated[dict[ScopedQuota, Scope], RESTART] = Field(default_factory=dict)
    """The scope of single quotas: `{request_percentage: proxy}`."""
    quota_scope_by_entity: Annotated[dict[EntityPath, Scope], RESTART] = Field(default_factory=dict)
    """The scope of single entities, as `penstock shell` names them below `/config`: `{"users/alice": cluster,
    "users/<default>/clients/app": proxy}`. It overrides `quota.scope` and `quota.scope.by.quota`."""
    quota_cluster_proxies: Annotated[int | None, Field(ge=1), RESTART, Unset("as seen last")] = None
    """How many processes (proxies times `workers`) share a limit that holds for the cluster, for the time in
    which they do not reach each other. By default as many as were seen last, at least one for each broker."""
    quota_cluster_partitions: Annotated[int, Field(ge=1, le=1000), RESTART] = 3
    """The number of partitions of that topic, the same at all proxies. The work of agreeing is divided by it:
    3 are enough for 100 proxies. A proxy creates the topic with it if the topic is missing."""

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


class LimitsConfig(Part):
    """The `limits:` section of a controller, and the part of a proxy's that is the same."""

    socket_request_max_bytes: Annotated[int, Field(ge=1024), LIVE] = 100 * 1024 * 1024
    """Maximum size of a request of an authenticated client. A larger one closes the connection, as at a
    broker."""
    decoded_request_max_bytes: Annotated[int, Field(ge=1024), LIVE] = 8 * 1024 * 1024
    """Maximum size of a request that is buffered and decoded whole. Does not apply to Produce. A larger
    request gets POLICY_VIOLATION where its API has an error for a whole request; in other APIs the connection
    is closed ([0113](decisions/0113-requests-larger-than-the-limits.md))."""
    decoded_request_max_elements: Annotated[int, Field(ge=1_000), LIVE] = DEFAULT_MAX_ELEMENTS
    """Maximum number of elements in all arrays of such a request, such as topics and partitions. In a request
    with more, each element gets POLICY_VIOLATION; [0113](decisions/0113-requests-larger-than-the-limits.md)
    has the exceptions, and what a higher limit costs."""
    request_incomplete_max_ms: Annotated[Milliseconds, Field(ge=1_000), LIVE] = 120_000
    """How long a client may take to send a whole request. Then the connection is closed, within
    `audit.summary.interval.ms`. The default is that of `delivery.timeout.ms` of Kafka's producer."""
    sasl_server_max_receive_size: Annotated[int, Field(ge=1024), LIVE] = 512 * 1024
    """Maximum size of a request before authentication."""
    queued_max_request_bytes: Annotated[int, Field(ge=1024), LIVE] = DEFAULT_QUEUED_BYTES
    """Memory for the incomplete requests of all clients, and the same amount again each for requests that
    wait for the controller or for a response that Penstock changes, or that the broker has not read, and for
    responses that Penstock makes and clients have not read. One principal gets at most half of each. A client
    whose principal has more of these gets no further request decided, and with more unread responses no
    further held response of the broker. Clients without a login share a further quarter; one address gets at
    most half of it. The proxy does not read from a client without room until memory is released, in order of
    arrival. In addition, each connection may hold a frame of 16 KiB, or 4 KiB before its login."""
    max_connections: Annotated[int, Field(ge=1), LIVE] = 10_000
    """Client connections of the process; further ones are closed. Each needs two open files: see [open
    files](#open-files)."""
    connections_max_idle_ms: Annotated[Duration, LIVE] = 600_000
    """A connection is closed after this time without a request. A peer that vanishes without closing is
    noticed earlier if the system's `net.ipv4.tcp_keepalive_time` is shorter: connections have SO_KEEPALIVE,
    as Kafka's do."""
    login_timeout_ms: Annotated[Duration, NEW_CONNECTIONS] = 30_000
    """How long a client may take from the start of its connection (with TLS: from the end of the handshake,
    which has 30 s of its own) to the end of its first login; then it is closed. The time that the proxy needs
    to check the login does not count. `0`: no limit."""
    drain_timeout_ms: Annotated[Milliseconds, LIVE] = 30_000
    """How long a drain may take after SIGTERM; then the remaining connections are closed. See
    [stopping](#stopping)."""

    @model_validator(mode="after")
    def _the_largest_request_has_room(self) -> "LimitsConfig":
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


class ProxyLimits(LimitsConfig):
    """The `limits:` section of a proxy."""

    max_connection_creation_rate: Annotated[int | None, Field(ge=0), LIVE, Unset("no limit")] = None
    """Connections per second of all listeners (KIP-612). A connection beyond the rate waits for up to
    `quota.window.size.seconds`, and those behind it wait too; none is closed."""
    max_connections_per_ip: Annotated[int, Field(ge=0), LIVE] = UNLIMITED
    """Connections of one address. A quota limits their rate: `kafka-configs --entity-type ips`,
    `connection_creation_rate`."""
    max_connections_per_ip_overrides: Annotated[dict[Address, Annotated[int, Field(ge=0)]], LIVE] = Field(
        default_factory=dict
    )
    """The limit for single addresses: `{"10.0.0.7": 500}`."""

    @model_validator(mode="after")
    def _somebody_may_connect(self) -> "ProxyLimits":
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ValueError(
                "max.connections.per.ip is 0, so no client can connect; raise it, or set"
                " max.connections.per.ip.overrides"
            )
        return self


class TopicsConfig(Part):
    """The `topics:` section of a proxy."""

    model_config = without("topic_")
    repeated: ClassVar[str] = "topic."
    topic_owner_described: Annotated[bool, LIVE] = False
    """Whether DescribeConfigs returns `owner` and `acls` of
    [topics](topic-rules.md#reading-them) to requests that do not name them, such as those of `kafka-topics
    --describe`. Tools that copy or compare configs would copy them."""


class Log(Part):
    """The `log:` section."""

    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], LIVE] = "INFO"
    """`DEBUG`, `INFO`, `WARNING`, `ERROR`."""
    format: Annotated[Literal["json", "ecs"], RESTART] = "json"
    """`json`, or `ecs` for the names of the Elastic Common Schema; see [the log](#the-log)."""
    authorizer_line: Annotated[bool, RESTART] = False
    """`true`: the line of each denial has the text of Kafka's authorizer log, `Principal = User:x is Denied
    operation = READ from host = ...`, as the field `kafka.authorizer.logger`, the name of Kafka's logger."""


class ProxyConfig(Part):
    """The proxy's whole file."""

    kind: ClassVar[str] = "proxy"
    proxy_id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$"), RESTART]
    """Name of this proxy in audit records and logs: letters, digits, `.`, `_`, `-`. Must be unique in the
    cluster: two processes of one id [report each other](alerts.md#penstockproxyidusedtwice)."""
    workers: Annotated[int, Field(ge=1, le=128), RESTART] = 1
    """Number of processes that serve the listeners, each on its own core; see [workers](#workers)."""
    listeners: Annotated[tuple[ListenerConfig, ...], NotEmpty]
    """The addresses that clients connect to, a list; see [a listener](#a-listener)."""
    users_file: Annotated[ExistingFile | None, LIVE] = None
    """The users of PLAIN; required if a listener enables PLAIN. See [users](#usersyaml)."""
    connections_max_reauth_ms: Annotated[Milliseconds, LIVE] = 0
    """How long a session lasts after a login, if the listener does not set it; 0: without limit (KIP-368)."""
    connections_expired_close_idle: Annotated[bool, LIVE] = False
    """Whether the proxy closes idle connections with an expired session, within `audit.summary.interval.ms`.
    Kafka closes them at their next request."""
    sessions_revoke_immediately: Annotated[bool, LIVE] = False
    """Whether a session ends as soon as its SCRAM credential, delegation token or entry in the users file is
    changed or removed. If false, its next login fails."""
    login_backoff: LoginBackoffConfig = LoginBackoffConfig()
    """See [failed logins](#logins-that-fail)."""
    upstream: UpstreamConfig
    """The broker behind this proxy; see [a peer](#a-peer)."""
    controller: ControllerPeer
    """The controllers; see [a peer](#a-peer)."""
    metadata: Annotated[Metadata, Field(validate_default=True)] = Metadata()
    authorizer: AuthorizerConfig = AuthorizerConfig()
    """See [the authorizer](#the-authorizer)."""
    policy: PolicyConfig = PolicyConfig()
    principal_serde_class: Annotated[SerdeClass, RESTART, Unset("Kafka's")] = DEFAULT_SERDE_CLASS
    """How principals are encoded in Envelopes: [a class](logins.md#certificates) with `serialize` and
    `deserialize`, the same at proxies and controllers."""
    proxy_principals: Annotated[PrincipalTexts, LIVE] = ()
    """Principals of other proxies at the controller, such as `["User:proxy-2"]`. Clients with such a
    principal may make [no administrative requests](logins.md#a-proxys-principal). The proxy knows
    its own principal."""
    delegation_token: DelegationTokenConfig = DelegationTokenConfig()
    """See [delegation tokens](#delegation-tokens)."""
    quota: QuotaConfig = QuotaConfig()
    """See [quotas](#quotas)."""
    topics: TopicsConfig = TopicsConfig()
    audit: ProxyAudit
    """See [audit](#audit)."""
    limits: ProxyLimits = ProxyLimits()
    """See [limits](#limits)."""
    http: Annotated[Http | None, Unset("no HTTP")] = None
    """The port with /metrics and /readyz; see [the HTTP port](#the-http-port)."""
    log: Log = Log()
    telemetry: TelemetryConfig = TelemetryConfig()

    @field_validator("listeners")
    @classmethod
    def _names_differ(cls, listeners: tuple[ListenerConfig, ...]) -> tuple[ListenerConfig, ...]:
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
            partial(require_provable, self.policy, self.authorizer),
            self._guards_only_where_no_controller_does,
            partial(require_addresses, self.listeners, self.upstream),
            partial(require_different_ports, self.binds),
            partial(require_other_processes, self.binds, self.peers),
            self._workers_can_share_ports,
        )
        return self

    def _guards_only_where_no_controller_does(self) -> None:
        if self.policy.assertions is not None and self.controller.mode != "kraft":
            raise KeyProblem(
                ("policy", "assertions"), "the controller proves assertions; move the key to its file"
            )

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
            (("upstream", "bootstrap"), self.upstream.bootstrap or ()),
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
        recorded = self.authorizer.recorded_settings() | self.quota.recorded_settings()
        if self.upstream.identity == "user" and self.upstream.sasl is not None:
            recorded["upstream.token.requester"] = f"User:{self.upstream.sasl.username}"
        return recorded | {
            "controller.mode": self.controller.mode,
            "metadata.topic": self.metadata.topic,
            "listeners": listeners,
        }

    def _recorded_limits(self, entry: ListenerConfig) -> str:
        """connections.max.reauth.ms of each mechanism."""
        default_ms = self.connections_max_reauth_ms
        return "+".join(
            f"{name}:{entry.max_reauth_ms(name, default_ms)}" for name in entry.sasl_enabled_mechanisms
        )
