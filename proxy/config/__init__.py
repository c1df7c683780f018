"""The configuration file of the proxy: YAML in, checked settings out, all errors at once.

Read by proxy.__main__; forwarding.config stands on the same parts. Leaves are named as Kafka names them.

- `document`: YAML with its lines; `spelling`: keys of older files; `parts`: what all settings are made of
- `reading`: how a file becomes settings, or `wording`: what is wrong with it, and `advice`: on unknown keys
- `binds`: addresses that cannot all be listened on; `machine`: what this machine cannot give a right file
- `listener`: an address that clients connect to, TLS and logins
- `authorizer`: who decides
- `tls`: certificates, and what is asked of clients
- `users`: the users that PLAIN knows
- `delegation_token`: the key of delegation tokens, and how long they last
- `oauthbearer`: whose tokens a listener takes; `identity_url`: where keys and tokens come from
- `gssapi`: the key and the rules for a listener's Kerberos users
- `login`: our own logins
- `bootstrap`: addresses of one cluster
- `peer`: how the broker and the controller are reached
- `upstream`: the broker, and where clients reach the proxies of all brokers
- `http`: where the HTTP port is, and what one has to show there
- `telemetry`: where traces go
- `quota`: whom quotas hold, and whether they do
- `proxy`: the whole file; `proxy_principals`: who must not be a client
"""

from proxy.config.audit import Audit
from proxy.config.authorizer import Authorizer, SerdeClass, require_authorizer
from proxy.config.bootstrap import Bootstrap
from proxy.config.delegation_token import DelegationToken, DelegationTokens
from proxy.config.http import Http, http_access
from proxy.config.listener import Listener, Mechanism, SecurityProtocol, require_users_file
from proxy.config.login import Login
from proxy.config.parts import (
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
from proxy.config.tls import ServerSsl
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
