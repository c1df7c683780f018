"""The proxy's whole file, and the small sections of a process."""

import sys
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from proxy.config.audit import Audit
from proxy.config.authorizer import (
    Authorizer,
    SerdeClass,
    require_authorizer,
    require_early_start_listeners,
)
from proxy.config.binds import Bind, require_different_ports
from proxy.config.delegation_token import DelegationToken
from proxy.config.http import Http
from proxy.config.listener import Listener, require_users_file
from proxy.config.parts import (
    ExistingFile,
    KeyProblem,
    Milliseconds,
    NotEmpty,
    Part,
    all_of,
    principal_list,
)
from proxy.config.peer import ControllerPeer
from proxy.config.quota import QuotaRules
from proxy.config.telemetry import Telemetry
from proxy.config.upstream import Upstream, require_addresses
from proxy.net.metadata.quorum import CLUSTER_METADATA
from proxy.quota.connections import UNLIMITED, same_address
from proxy.security.backoff import BackoffSettings
from proxy.security.principal import parse_principal
from proxy.security.principal_serde import DEFAULT_SERDE_CLASS
from proxy.security.protected import DEFAULT_METADATA_TOPIC, DEFAULT_TRANSACTIONAL_ID, OwnResources
from proxy.session.gate import DEFAULT_QUEUED_BYTES
from proxy.session.memory import DEFAULT_MAX_ELEMENTS


def _principal(text: str) -> str:
    return str(parse_principal(text))


PrincipalTexts = Annotated[
    tuple[Annotated[str, AfterValidator(_principal)], ...], BeforeValidator(principal_list)
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


class Metadata(Part):
    """The topic of the metadata log; with `controller.mode: kraft` it is Kafka's."""

    topic: str = DEFAULT_METADATA_TOPIC
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


class Quota(QuotaRules):
    """The `quota:` section of a proxy."""

    quota_window_num: Annotated[int, Field(ge=2)] = 11
    quota_window_size_seconds: Annotated[int, Field(ge=1)] = 1
    quota_producer_default: Annotated[float, Field(gt=0)] | None = None
    quota_consumer_default: Annotated[float, Field(gt=0)] | None = None

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
    connections_max_idle_ms: Milliseconds = 600_000
    login_timeout_ms: Milliseconds = 30_000
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


class Log(Part):
    """The `log:` section."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class ProxyConfig(Part):
    """The proxy's whole file."""

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
    audit: Audit
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
        if "transactional_id" in metadata.model_fields_set:
            raise ValueError("transactional.id: it has no effect with controller.mode kraft; remove this key")
        return Metadata.model_construct(topic=CLUSTER_METADATA)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "ProxyConfig":
        all_of(
            partial(require_users_file, self.listeners, self.users_file),
            partial(require_authorizer, self.listeners, self.authorizer),
            partial(require_early_start_listeners, self.listeners, self.authorizer),
            partial(require_addresses, self.listeners, self.upstream),
            partial(require_different_ports, self.binds),
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
    def own_resources(self) -> OwnResources:
        """The resources that no client may change or use."""
        ours = self.controller.mode == "penstock"
        transactional_id = self.metadata.transactional_id if ours else None
        return OwnResources.of(self.metadata.topic, self.audit.topic, transactional_id)

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
