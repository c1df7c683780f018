"""The configuration file of the proxy: YAML in, checked settings out, all errors at once.

Read by proxy.__main__; forwarding.config stands on the same parts. Leaves are named as Kafka names them.

- `parts`: what all settings are made of, and how a file becomes them
- `listener`: an address that clients connect to, TLS and logins
- `authorizer`: who decides
- `tls`: certificates, and what is asked of clients
- `users`: the users that PLAIN knows
- `delegation_token`: the key of delegation tokens, and how long they last
- `oauthbearer`: whose tokens a listener takes; `identity_url`: where keys and tokens come from
- `gssapi`: the key and the rules for a listener's Kerberos users
- `login`: our own logins
- `peer`: how the broker and the controller are reached
- `upstream`: the broker, and where clients reach the proxies of all brokers
- `quota`: whom quotas hold, and whether they do
- `proxy`: the whole file; `proxy_principals`: who must not be a client
"""

from proxy.config.audit import Audit
from proxy.config.authorizer import Authorizer, SerdeClass, require_authorizer
from proxy.config.delegation_token import DelegationToken, DelegationTokens
from proxy.config.listener import Listener, Mechanism, SecurityProtocol, require_users_file
from proxy.config.login import Login
from proxy.config.parts import (
    ConfigError,
    ExistingFile,
    FilePath,
    HostPort,
    Milliseconds,
    Part,
    load,
    split_host_port,
)
from proxy.config.peer import ClientSsl, ControllerPeer, Peer, endpoint
from proxy.config.proxy import (
    Http,
    Limits,
    Log,
    LoginBackoff,
    Metadata,
    ProxyConfig,
    Quota,
)
from proxy.config.quota import QuotaRules
from proxy.config.tls import ServerSsl
from proxy.config.upstream import Upstream
from proxy.config.users import PlainUser, UsersFile, WatchedUsers

__all__ = [
    "Audit",
    "Authorizer",
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
    "SecurityProtocol",
    "SerdeClass",
    "ServerSsl",
    "Upstream",
    "UsersFile",
    "WatchedUsers",
    "endpoint",
    "load",
    "require_authorizer",
    "require_users_file",
    "split_host_port",
]
