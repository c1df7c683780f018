"""The configuration file of the proxy: reads YAML, returns checked settings or all errors at once.

proxy.app reads it; forwarding.config uses the same parts. Keys have Kafka's names.

proxy             the whole file of a proxy, and the sections that a controller's file has too
listener          an address that clients connect to, its TLS and logins
users             the users file
authorizer        the authorizer and its settings
candidate         the ACLs of a file of rights, which are tried beside those in effect
telemetry         the receiver of traces
upstream          the broker, and the addresses of all brokers' proxies
peer              connections to a broker or a controller, and Penstock's own logins there
proxy_principals  the principals of proxies, which no client should have
parts             the base class and the types of all settings
addresses         addresses and URLs in settings, conflicting listen addresses
document          YAML with its lines
kinds             files of another kind than the expected one
reading           from a file to settings; keys of older files
wording           error messages, and advice about an unknown key
certificates      facts about certificates: dates, names, order, purpose, strength
machine           warnings about this machine
doubts            warnings about values that are rarely meant
effects           when a change of each key takes effect, and which keys have changed
reloading         a reload: read, check, compare and apply
"""

from proxy.config.addresses import Bootstrap, HostPort, split_host_port
from proxy.config.authorizer import AuthorizerConfig, SerdeClass, require_authorizer
from proxy.config.listener import ListenerConfig, Mechanism, SecurityProtocol, ServerSsl, require_users_file
from proxy.config.parts import ConfigError, ExistingFile, FilePath, Milliseconds, Part, SecretFile
from proxy.config.peer import ClientSsl, ControllerPeer, Login, PeerConfig, endpoint
from proxy.config.proxy import (
    Audit,
    DelegationTokenConfig,
    DelegationTokens,
    Http,
    LimitsConfig,
    Log,
    LoginBackoffConfig,
    Metadata,
    ProxyConfig,
    QuotaConfig,
    QuotaRules,
    http_access,
)
from proxy.config.reading import load, parse, read
from proxy.config.telemetry import TelemetryConfig, traces
from proxy.config.upstream import UpstreamConfig
from proxy.config.users import PlainUser, UsersFile, WatchedUsers
