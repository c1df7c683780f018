"""The table of when a change of each key takes effect, for the reload and docs/configuration.md (SPEC O9).

A key is the path of its fields in the file: `listeners.max_connections`. proxy.config.changes reads it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


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
        sasl_plain_verifier_class sasl_plain_verifier_settings
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
    """,
) | _each(
    Effect.LIVE,
    """
    fsync_admin fsync_denial fsync_authentication rate_per_principal
    policy_admin policy_denial policy_authentication policy_summary summary_interval_ms
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
    | _under("metadata", _each(Effect.RESTART, "topic transactional_id"))
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
    | _under("audit", _AUDIT)
    | _under(
        "limits",
        _LIMITS
        | _each(
            Effect.LIVE,
            "max_connection_creation_rate max_connections_per_ip max_connections_per_ip_overrides",
        ),
    )
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
    | _under("metadata", _each(Effect.RESTART, "topic transactional_id"))
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
