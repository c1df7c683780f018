"""The configuration file of the proxy: reads YAML, returns checked settings or all errors at once.

proxy.process reads it; forwarding.config uses the same parts. Keys have Kafka's names.

proxy             the whole file of a proxy
listener          an address that clients connect to, its TLS and logins
oauthbearer       the keys of a listener for tokens
gssapi            the keys of a listener for Kerberos
identity_url      URLs of an identity provider's keys and tokens
users             the users file
authorizer        the authorizer and its settings
quota             the keys that a proxy and a controller have in common
delegation_token  the key of delegation tokens, and their lifetimes
audit             the audit topic, the spool, the policies, the key of the hash chain
http              the HTTP port and its credentials
telemetry         the receiver of traces
upstream          the broker, and the addresses of all brokers' proxies
peer              connections to a broker or a controller
login             Penstock's own logins at brokers and controllers
proxy_principals  the principals of proxies, which no client should have
parts             the base class and the types of all settings
document          YAML with its lines
spelling          keys of older files
reading           from a file to settings
wording           error messages
advice            advice about an unknown key
binds             conflicting listen addresses
machine           warnings about this machine
effects           when a change of each key takes effect
changes           the differences of two versions of a configuration
reloading         a reload: read, check, compare and apply
"""

from proxy.config.audit import Audit
from proxy.config.authorizer import Authorizer, SerdeClass, require_authorizer
from proxy.config.delegation_token import DelegationToken, DelegationTokens
from proxy.config.http import Http, http_access
from proxy.config.listener import Listener, Mechanism, SecurityProtocol, ServerSsl, require_users_file
from proxy.config.login import Login
from proxy.config.parts import (
    Bootstrap,
    ConfigError,
    ExistingFile,
    FilePath,
    HostPort,
    Milliseconds,
    Part,
    SecretFile,
    split_host_port,
)
from proxy.config.peer import ClientSsl, ControllerPeer, Peer, endpoint
from proxy.config.proxy import (
    Limits,
    Log,
    LoginBackoff,
    Metadata,
    ProxyConfig,
    Quota,
)
from proxy.config.quota import QuotaRules
from proxy.config.reading import load, parse, read
from proxy.config.telemetry import Telemetry, traces
from proxy.config.upstream import Upstream
from proxy.config.users import PlainUser, UsersFile, WatchedUsers

__all__ = [
    "Audit",
    "Authorizer",
    "Bootstrap",
    "ClientSsl",
    "ConfigError",
    "ControllerPeer",
    "DelegationToken",
    "DelegationTokens",
    "ExistingFile",
    "FilePath",
    "HostPort",
    "Http",
    "Limits",
    "Listener",
    "Log",
    "Login",
    "LoginBackoff",
    "Mechanism",
    "Metadata",
    "Milliseconds",
    "Part",
    "Peer",
    "PlainUser",
    "ProxyConfig",
    "Quota",
    "QuotaRules",
    "SecretFile",
    "SecurityProtocol",
    "SerdeClass",
    "ServerSsl",
    "Telemetry",
    "Upstream",
    "UsersFile",
    "WatchedUsers",
    "endpoint",
    "http_access",
    "load",
    "parse",
    "read",
    "require_authorizer",
    "require_users_file",
    "split_host_port",
    "traces",
]
