"""The configuration file of the proxy: reads YAML, returns checked settings or all errors at once.

proxy.process reads it; forwarding.config uses the same parts. Keys have Kafka's names.

- `document`: YAML with its lines; `spelling`: keys of older files; `parts`: the types of all settings
- `reading`: turns a file into settings; `wording`: its error messages; `advice`: advice about unknown keys
- `binds`: conflicting listen addresses; `machine`: warnings about this machine
- `changes`, `effects`, `reloading`: what changes in a reload, when it takes effect, and the reload itself
- `listener`: an address that clients connect to, its TLS and logins
- `oauthbearer`, `gssapi`: keys of a listener for tokens and for Kerberos; `identity_url`: their URLs
- `authorizer`, `audit`, `delegation_token`, `http`, `quota`, `telemetry`, `users`: the sections of that name
- `peer`: connections to the broker and the controller; `login`: Penstock's own logins
- `upstream`: the broker, and the addresses of all brokers' proxies
- `proxy`: the whole file; `proxy_principals`: the principals of proxies
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
