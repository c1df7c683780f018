"""The configuration files of the demo's proxies and controller, as an operator would write them.

Addresses and logins in, `proxy.yaml` and `controller.yaml` with the files they name out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as SigningKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.lab.cluster.certificates import Certificates
from tests.lab.cluster.users import User

METADATA_TOPIC = "__penstock_metadata"
AUDIT_TOPIC = "__penstock_audit"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
STANDARD_AUTHORIZER = "proxy.security.standard.StandardAuthorizer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """What one proxy and the controller must know of each other and of the proxy's broker."""

    node_id: int = 1
    broker: str
    """The broker's SASL_PLAINTEXT listener."""
    listeners: Mapping[str, str]
    """The proxy's: SASL_PLAINTEXT, SASL_SSL, REAUTH."""
    others: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Node id -> listeners of the proxies before the other brokers."""
    controller: str
    """Our own controller's listener."""
    quorum: tuple[str, ...] = ()
    """The controller listeners of Kafka's own quorum, where that takes our controller's place."""
    proxy_http: str
    controller_http: str
    reauth_ms: int
    """connections.max.reauth.ms of the listener REAUTH."""
    balancers: tuple[str, ...] = ()
    """proxy.protocol.networks of the listener REAUTH."""
    admin: User
    """A PLAIN user at proxy and controller, and a super user of both."""
    guests: tuple[User, ...] = ()
    """Users without rights whom the proxy knows by PLAIN too, whatever else they log in with."""
    proxy: User
    """The proxy at the controller; it bears the proxy's id."""
    broker_login: User
    """Proxy and controller at the broker."""
    token_key: str = field(repr=False)
    """What delegation tokens are proved with."""
    signing_key: SigningKey
    """With which our own controller signs the metadata log."""


def write_proxy(directory: Path, wiring: Wiring, tls: Certificates, changes: Mapping[str, object]) -> Path:
    """`changes` replace whole parts of the file, by their top-level key."""
    directory.mkdir(parents=True, exist_ok=True)
    _secret(directory / "controller.password", wiring.proxy.password)
    _users(directory, wiring.admin, *wiring.guests)
    _secret(directory / "token.key", wiring.token_key)
    document = {
        "proxy.id": wiring.proxy.name,
        "listeners": [_listener(name, address, wiring, tls) for name, address in wiring.listeners.items()],
        "users.file": "users.yaml",
        "upstream": _broker(directory, wiring) | _others(wiring),
        **_metadata(directory, wiring),
        "authorizer": {
            "class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:{wiring.admin.name}",
        },
        "delegation.token": {"secret.key.file": "token.key"},
        "audit": _audit(),
        "http": {"bind": wiring.proxy_http},
        **changes,
    }
    return _write(directory / "proxy.yaml", document)


def write_controller(
    directory: Path, wiring: Wiring, proxies: Sequence[User], changes: Mapping[str, object]
) -> Path:
    """`proxies`: how each proxy logs in."""
    directory.mkdir(parents=True, exist_ok=True)
    _users(directory, wiring.admin, *proxies)
    _secret(directory / "token.key", wiring.token_key)
    private = wiring.signing_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _secret(directory / "signing.key", private.decode())
    # Proxies are super users here for CLUSTER_ACTION: no ACL can be made before a proxy may forward.
    super_users = ";".join(f"User:{user.name}" for user in (wiring.admin, *proxies))
    document = {
        "controller.id": "controller-1",
        "listener": {
            "name": "CONTROLLER",
            "bind": wiring.controller,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ["PLAIN"],
        },
        "users.file": "users.yaml",
        "broker": _broker(directory, wiring),
        "metadata": {"topic": METADATA_TOPIC, "signing.key.file": "signing.key"},
        "authorizer": {"class.name": STANDARD_AUTHORIZER, "super.users": super_users},
        # Soon enough to be seen; an hour is the default.
        "delegation.token": {"secret.key.file": "token.key", "expiry.check.interval.ms": 1_000},
        "audit": _audit(),
        "http": {"bind": wiring.controller_http},
        **changes,
    }
    return _write(directory / "controller.yaml", document)


def _listener(name: str, address: str, wiring: Wiring, tls: Certificates) -> dict[str, object]:
    protocol = "SASL_SSL" if name == "SASL_SSL" else "SASL_PLAINTEXT"
    listener: dict[str, object] = {
        "name": name,
        "bind": address,
        "security.protocol": protocol,
        "sasl.enabled.mechanisms": MECHANISMS,
    }
    if name == "REAUTH":
        listener["connections.max.reauth.ms"] = wiring.reauth_ms
        if wiring.balancers:
            listener["proxy.protocol.networks"] = list(wiring.balancers)
    if protocol == "SASL_SSL":
        listener["ssl"] = {"certificate": str(tls.certificate), "key": str(tls.key)}
    return listener


def _broker(directory: Path, wiring: Wiring) -> dict[str, object]:
    _secret(directory / "broker.password", wiring.broker_login.password)
    login = _login(wiring.broker_login, "broker.password")
    return {"bootstrap": wiring.broker, "security.protocol": "SASL_PLAINTEXT", "sasl": login}


def _metadata(directory: Path, wiring: Wiring) -> dict[str, object]:
    """Where the proxy follows the log and sends administrative requests."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl": _login(wiring.proxy, "controller.password")}
    if wiring.quorum:
        return {"controller": {"mode": "kraft", "endpoints": list(wiring.quorum), **login}}
    public = wiring.signing_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (directory / "controllers.pub").write_bytes(public)
    return {
        "controller": {"endpoints": [wiring.controller], **login},
        "metadata": {"topic": METADATA_TOPIC, "public.keys.file": "controllers.pub"},
    }


def _others(wiring: Wiring) -> dict[str, object]:
    if not wiring.others:
        return {}
    advertised = {node_id: dict(listeners) for node_id, listeners in wiring.others.items()}
    return {"node.id": wiring.node_id, "advertised.brokers": advertised}


def _login(user: User, password_file: str) -> dict[str, str]:
    return {"mechanism": user.mechanism, "username": user.name, "password.file": password_file}


def _audit() -> dict[str, object]:
    # A short interval, so that what was allowed is in the audit topic soon after it happened.
    return {"topic": AUDIT_TOPIC, "spool.dir": "spool", "summary.interval.ms": 2_000}


def _users(directory: Path, *users: User) -> None:
    write_users(directory, {user.name: user.password for user in users})


def write_users(directory: Path, passwords: Mapping[str, str]) -> Path:
    """A users file for PLAIN, by user name."""
    # These passwords are random and the cluster's own; for people's, `password.hash` is the way.
    for name, password in passwords.items():
        _secret(directory / f"{name}.password", password)
    entries = {name: {"password.file": f"{name}.password"} for name in passwords}
    return _write(directory / "users.yaml", {"users": entries})


def _secret(path: Path, secret: str) -> None:
    path.touch(mode=0o600)
    path.write_text(secret, encoding="utf-8")


def _write(path: Path, document: Mapping[str, object]) -> Path:
    path.write_text(yaml.safe_dump(dict(document), sort_keys=False), encoding="utf-8")
    return path
