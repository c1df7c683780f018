"""When a change of each key takes effect (SPEC O9), and which keys of two versions of a configuration differ.

A key is the path of its fields in the file: `listeners.max_connections`. The table is also that of
docs/configuration.md. proxy.config.reloading calls `changes` and `in_effect`. No values of settings that may
be secret leave this module.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TypeGuard, TypeVar

from pydantic import ValidationError

from proxy.config.listener import Listener
from proxy.config.parts import ConfigError, Part


class Effect(StrEnum):
    """When the new value of a key takes effect after a reload."""

    LIVE = "live"
    """At once, for all clients. Settings of logins: at the next login or re-authentication."""
    NEW_CONNECTIONS = "new connections"
    """For new connections; open ones retain the old value."""
    RESTART = "restart"
    """At the next restart of the process."""


Effects = Mapping[str, Effect]


def _each(effect: Effect, names: str) -> dict[str, Effect]:
    return dict.fromkeys(names.split(), effect)


def _under(part: str, effects: Effects) -> dict[str, Effect]:
    return {f"{part}.{name}": effect for name, effect in effects.items()}


def _restart(effects: Effects) -> dict[str, Effect]:
    return dict.fromkeys(effects, Effect.RESTART)


_LISTENER = (
    _each(
        Effect.LIVE,
        """
        name bind advertised
        sasl_enabled_mechanisms sasl_server_mechanism_classes sasl_server_mechanism_settings
        sasl_plain_verifier_class sasl_plain_verifier_settings sasl_scram_nonce_check
        connections_max_reauth_ms sasl_mechanism_connections_max_reauth_ms
        sasl_oauthbearer_jwks_endpoint_url sasl_oauthbearer_jwks_endpoint_ca
        sasl_oauthbearer_jwks_endpoint_refresh_ms sasl_oauthbearer_jwks_endpoint_retry_backoff_ms
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms
        sasl_oauthbearer_expected_issuer sasl_oauthbearer_expected_audience sasl_oauthbearer_required_scope
        sasl_oauthbearer_scope_claim_name sasl_oauthbearer_sub_claim_name sasl_oauthbearer_clock_skew_seconds
        sasl_oauthbearer_allowed_algorithms sasl_oauthbearer_token_max_bytes
        sasl_kerberos_service_name sasl_kerberos_keytab sasl_kerberos_principal_to_local_rules
        connection_failed_authentication_delay_ms max_connections max_connection_creation_rate
        """,
    )
    | _each(Effect.NEW_CONNECTIONS, "security_protocol principal_builder_class principal_builder_settings")
    | _under(
        "ssl",
        _each(
            Effect.NEW_CONNECTIONS,
            """
            certificate key client_auth ca principal_mapping_rules server_names enabled_protocols ciphers
            """,
        ),
    )
)

_PEER = (
    _each(Effect.RESTART, "security_protocol request_timeout_ms")
    | _under(
        "sasl",
        _each(
            Effect.RESTART,
            """
            mechanism username password_file
            oauthbearer_token_endpoint_url oauthbearer_token_endpoint_ca
            oauthbearer_client_credentials_client_id oauthbearer_client_credentials_client_secret_file
            oauthbearer_scope
            """,
        ),
    )
    | _under("ssl", _each(Effect.RESTART, "ca certificate key endpoint_identification"))
)

# Each HTTP request has its own connection.
_HTTP = _each(Effect.LIVE, "bind bearer_token_file") | _under("ssl", _each(Effect.LIVE, "certificate key ca"))

_TELEMETRY = _under(
    "otlp",
    _each(Effect.RESTART, "endpoint headers_file sampling_ratio service_name timeout_ms queue_max_spans")
    | _under("ssl", _each(Effect.RESTART, "ca certificate key")),
)

# Each record of a decision names the settings generation (decision 0056).
_AUTHORIZER = _each(
    Effect.LIVE,
    """
    authorizer_class_name super_users allow_everyone_if_no_acl_found broker_acl_file_path
    early_start_listeners own_settings
    """,
)
_QUOTA_RULES = _each(Effect.LIVE, "quota_mode quota_excluded_principals") | _each(
    Effect.RESTART, "quota_cluster_topic"
)

_BACKOFF = _each(Effect.LIVE, "failures window_ms initial_ms max_ms")

_AUDIT = _each(
    Effect.RESTART,
    """
    topic spool_dir spool_max_bytes spool_fsync spool_fsync_interval_ms queue_max_bytes chain_key_file
    witness
    """,
) | _each(
    Effect.LIVE,
    """
    fsync_admin fsync_denial fsync_authentication rate_per_principal
    policy_admin policy_denial policy_authentication policy_summary summary_interval_ms signing_key_file
    """,
)

_LIMITS = _each(
    Effect.LIVE,
    """
    queued_max_request_bytes socket_request_max_bytes decoded_request_max_bytes decoded_request_max_elements
    request_incomplete_max_ms sasl_server_max_receive_size max_connections connections_max_idle_ms
    drain_timeout_ms
    """,
) | _each(Effect.NEW_CONNECTIONS, "login_timeout_ms")

PROXY: Effects = MappingProxyType(
    _each(Effect.RESTART, "proxy_id workers principal_serde_class")
    | _under("listeners", _LISTENER)
    | _each(
        Effect.LIVE,
        """
        users_file connections_max_reauth_ms connections_expired_close_idle sessions_revoke_immediately
        proxy_principals
        """,
    )
    | _under("login_backoff", _BACKOFF)
    | _under(
        "upstream",
        _PEER
        | _each(
            Effect.RESTART,
            """
            bootstrap internal_bootstrap addresses identity identity_sasl_mechanism identity_token_idle_ms
            """,
        )
        | _each(Effect.LIVE, "node_id advertised_brokers"),
    )
    | _under(
        "controller", _PEER | _each(Effect.RESTART, "mode start_wait_ms") | _each(Effect.LIVE, "endpoints")
    )
    | _under("metadata", _each(Effect.RESTART, "topic transactional_id public_keys_file unsigned"))
    | _under("authorizer", _AUTHORIZER)
    | _under("delegation_token", _each(Effect.RESTART, "secret_key_file"))
    | _under(
        "quota",
        _QUOTA_RULES
        | _each(Effect.LIVE, "quota_producer_default quota_consumer_default")
        # Rates so far are measured in these windows; workers share them in memory, proxies by a topic.
        | _each(
            Effect.RESTART,
            """
            quota_window_num quota_window_size_seconds
            quota_scope quota_scope_by_quota quota_scope_by_entity quota_cluster_proxies
            quota_cluster_partitions
            """,
        ),
    )
    | _under("audit", _AUDIT | _each(Effect.RESTART, "witnesses_topic"))
    | _under(
        "limits",
        _LIMITS
        | _each(
            Effect.LIVE,
            "max_connection_creation_rate max_connections_per_ip max_connections_per_ip_overrides",
        ),
    )
    | _under("topics", _each(Effect.LIVE, "topic_owner_described"))
    | _under("http", _HTTP)
    | _under("log", _each(Effect.LIVE, "level"))
    | _under("telemetry", _TELEMETRY)
)
"""The effects at a proxy."""

WORKERS: Effects = MappingProxyType(dict(PROXY) | _under("listeners", _each(Effect.RESTART, "name bind")))
"""The effects at a proxy with several workers, whose supervisor holds the ports."""

CONTROLLER: Effects = MappingProxyType(
    _each(Effect.RESTART, "controller_id principal_serde_class users_file sessions_revoke_immediately")
    | _each(Effect.LIVE, "connections_max_reauth_ms")
    | _under(
        "listener",
        _restart(_LISTENER)
        | _each(
            Effect.LIVE,
            """
            connections_max_reauth_ms sasl_mechanism_connections_max_reauth_ms
            connection_failed_authentication_delay_ms max_connections
            """,
        ),
    )
    | _under("login_backoff", _BACKOFF)
    | _under("broker", _PEER | _each(Effect.RESTART, "bootstrap"))
    | _under(
        "metadata",
        _each(Effect.RESTART, "topic transactional_id public_keys_file unsigned signing_key_file"),
    )
    | _under("authorizer", _AUTHORIZER | _each(Effect.RESTART, "early_start_listeners"))
    | _under(
        "delegation_token",
        _each(Effect.RESTART, "secret_key_file max_lifetime_ms expiry_time_ms expiry_check_interval_ms"),
    )
    | _under(
        "quota",
        _QUOTA_RULES
        | _each(Effect.RESTART, "controller_quota_window_num controller_quota_window_size_seconds"),
    )
    | _under(
        "topics",
        _each(
            Effect.RESTART,
            """
            topic_owner_creator topic_owner_check_interval_ms create_topic_policy_class_name
            alter_config_policy_class_name policy_settings
            """,
        ),
    )
    | _under("audit", _AUDIT)
    | _under("limits", _LIMITS)
    | _under("http", _HTTP)
    | _under("log", _each(Effect.LIVE, "level"))
    | _under("telemetry", _TELEMETRY)
)
"""The effects at a controller."""


PartType = TypeVar("PartType", bound=Part)
Steps = tuple[str, ...]
Listeners = tuple[Listener, ...]
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """A key whose value in the file differs from the one in effect."""

    key: str
    """The path in the file: `listeners > SASL > max.connections`."""
    effect: Effect
    still: str | None = None
    """The value in effect, as text; None if it is not a plain value."""

    def in_words(self) -> str:
        """The line that `penstock reload` prints for a key that needs a restart."""
        return f"{self.key} needs a restart" + (
            "" if self.still is None else f"; {self.still} stays in effect"
        )


def changes(old: Part, new: Part, effects: Effects) -> list[Change]:
    """The keys whose values differ in `old` and `new`, in the order of the model's fields."""
    return [
        Change(" > ".join(steps), effects[".".join(fields)], _plain(before))
        for fields, steps, before in _differences(old, new, (), ())
    ]


def in_effect(old: PartType, new: PartType, effects: Effects) -> PartType:
    """`new`, with the values of `old` for the keys that need a restart.

    ConfigError if these do not fit together: then the file can take effect only after a restart.
    """
    try:
        return _merged(old, new, effects, ())
    except ValidationError as error:
        reasons = "; ".join(str(item["msg"]).removeprefix("Value error, ") for item in error.errors())
        waiting = [change.in_words() for change in changes(old, new, effects) if _waits(change)]
        raise ConfigError(
            f"the file needs a restart as a whole: {', '.join(waiting)};"
            f" the other changes do not fit with that: {reasons}"
        ) from error


def _waits(change: Change) -> bool:
    return change.effect is Effect.RESTART


def _differences(
    old: Part | None, new: Part | None, fields: Steps, steps: Steps
) -> Iterator[tuple[Steps, Steps, object]]:
    """Yields fields, keys and old value of each leaf that differs. None: the part is not in the file."""
    kind = type(new if new is not None else old)
    assert issubclass(kind, Part)
    for name, field in kind.model_fields.items():
        before = _ABSENT if old is None else getattr(old, name)
        after = _ABSENT if new is None else getattr(new, name)
        if before == after:
            continue
        at, key = (*fields, name), (*steps, field.alias or name)
        if isinstance(before, Part) or isinstance(after, Part):
            yield from _differences(_part(before), _part(after), at, key)
        elif _are_listeners(before):
            assert _are_listeners(after)
            yield from _of_listeners(before, after, at, key)
        elif _ABSENT not in (before, after) or name in (new or old).model_fields_set:  # type: ignore[union-attr]
            yield at, key, before


def _part(value: object) -> Part | None:
    return value if isinstance(value, Part) else None


def _are_listeners(value: object) -> TypeGuard[Listeners]:
    # There is always at least one.
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Listener)


def _of_listeners(
    old: Listeners, new: Listeners, fields: Steps, steps: Steps
) -> Iterator[tuple[Steps, Steps, object]]:
    before, after = _by_name(old), _by_name(new)
    for name in before | after:
        if name in before and name in after:
            yield from _differences(before[name], after[name], fields, (*steps, name))
        else:
            yield (*fields, "name"), (*steps, name), "open" if name in before else "not open"


def _by_name(listeners: Sequence[Listener]) -> dict[str, Listener]:
    return {listener.name: listener for listener in listeners}


def _merged(old: PartType, new: PartType, effects: Effects, fields: Steps) -> PartType:
    values: dict[str, object] = {}
    for name, field in type(new).model_fields.items():
        at, before, after = (*fields, name), getattr(old, name), getattr(new, name)
        taken: Part = new
        if isinstance(before, Part) and isinstance(after, Part):
            after = before if before == after else _merged(before, after, effects, at)
        elif _are_listeners(before):
            after = _merged_listeners(before, after, effects, at)
        elif before != after and _keeps(effects, at):
            taken, after = old, before
        if name in taken.model_fields_set:
            values[field.alias or name] = after
    return type(new).model_validate(values)


def _merged_listeners(
    old: Sequence[Listener], new: Sequence[Listener], effects: Effects, fields: Steps
) -> tuple[Listener, ...]:
    before, after = _by_name(old), _by_name(new)
    names = list(before if _keeps(effects, (*fields, "name")) else after)
    merged = []
    for name in names:
        if name in before and name in after:
            merged.append(_merged(before[name], after[name], effects, fields))
        else:
            merged.append(after.get(name) or before[name])
    return tuple(merged)


def _keeps(effects: Effects, fields: Steps) -> bool:
    """Whether the old value stays. In a part that is added or removed, all keys have the same effect."""
    path = ".".join(fields)
    found = effects.get(path) or next(effect for key, effect in effects.items() if key.startswith(f"{path}."))
    return found is Effect.RESTART


def _plain(value: object) -> str | None:
    if value is None or value is _ABSENT:
        return "not set"
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    # Mappings are settings of plug-ins, which may contain secrets.
    return str(value) if isinstance(value, str | int | float) or hasattr(value, "__fspath__") else None
