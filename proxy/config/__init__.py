"""The configuration file of the proxy: YAML in, checked settings out, all errors at once.

Read by proxy.__main__; forwarding.config stands on the same parts. Leaves are named as Kafka names them.

proxy             the whole file
listener          an address that clients connect to, TLS and logins
tls               certificates, and whether clients need one
users             the users that PLAIN knows
delegation_token  the key of delegation tokens, and how long they last
oauthbearer       which tokens a listener accepts
identity_url      where an identity provider's keys and tokens come from
gssapi            the key and the rules for a listener's Kerberos users
authorizer        which authorizer decides, and its settings
quota             which quotas are enforced, and which are only measured
upstream          the broker, and where clients reach the proxies of all brokers
peer              how the broker and the controller are reached
login             the logins of Penstock itself at brokers and controllers
bootstrap         addresses of one cluster
audit             the audit trail: where its records go, and the hash chain that proves them unchanged
http              the HTTP port, and which credentials it asks for
telemetry         where traces go
proxy_principals  principals of Penstock itself, which no client may be
parts             what all settings are made of
document          YAML with its lines
spelling          keys of older files
reading           from a file to settings
wording           errors in a file, in words
advice            what to write instead of an unknown key
binds             addresses that cannot all be listened on
machine           what this machine cannot give a correct file, and what is unwise
effects           when a change of each key takes effect
changes           how two versions of a configuration differ
reloading         a file that is read again, checked, compared and put into effect
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
