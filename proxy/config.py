"""The configuration file of the proxy: YAML in, checked settings out, all errors at once.

Read by proxy.__main__; forwarding.config stands on the same parts. Leaves are named as Kafka names them.
An unknown key is an error, a path is relative to the file that names it, and a secret is never written
in the file itself: `password.file` names the file that holds it.
"""

import secrets
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.functional_validators import AfterValidator

from proxy.net.channel import EndpointSettings, SaslLogin
from proxy.net.tls import client_context
from proxy.security.passwords import hash_password

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class ConfigError(Exception):
    """The file cannot be used; the message names the file and each key that is wrong."""


def _host_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected host:port, found {text!r}")
    return text


def split_host_port(text: str) -> tuple[str, int]:
    """'[::1]:9092' or 'localhost:9092' as the pair that sockets take."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


HostPort = Annotated[str, AfterValidator(_host_port)]
Milliseconds = Annotated[int, Field(ge=0)]


def _kafka_name(field: str) -> str:
    return field.replace("_", ".")


class Part(BaseModel):
    """A part of the file: keys are the field's name with dots, unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_kafka_name)


def _relative(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("directory", Path())
    return path if path.is_absolute() else Path(base) / path


FilePath = Annotated[Path, AfterValidator(_relative)]


def _existing(path: Path, info: ValidationInfo) -> Path:
    path = _relative(path, info)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return path


ExistingFile = Annotated[Path, AfterValidator(_existing)]


class ServerSsl(Part):
    """TLS of a listener, PEM files."""

    certificate: ExistingFile
    key: ExistingFile
    client_auth: Literal["none", "requested", "required"] = "none"
    ca: ExistingFile | None = None

    @model_validator(mode="after")
    def _client_certificates_need_a_ca(self) -> "ServerSsl":
        if self.client_auth != "none" and self.ca is None:
            raise ValueError("client.auth needs ca: what the clients' certificates are checked against")
        return self


class ClientSsl(Part):
    """TLS towards a broker or a controller, PEM files; without `ca` the system's certificates count."""

    ca: ExistingFile | None = None
    certificate: ExistingFile | None = None
    key: ExistingFile | None = None
    endpoint_identification: bool = True


class Login(Part):
    """A SASL login of our own."""

    mechanism: Mechanism
    username: str
    password_file: ExistingFile

    def password(self) -> str:
        """The secret itself, without the line's end."""
        return self.password_file.read_text(encoding="utf-8").rstrip("\r\n")


class Listener(Part):
    """One address that clients connect to."""

    name: str
    bind: HostPort
    advertised: HostPort | None = None
    security_protocol: SecurityProtocol = "SASL_SSL"
    sasl_enabled_mechanisms: tuple[Mechanism, ...] = ()
    connections_max_reauth_ms: Milliseconds = 0
    connection_failed_authentication_delay_ms: Milliseconds = 100
    ssl: ServerSsl | None = None

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL")

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @model_validator(mode="after")
    def _parts_fit_the_protocol(self) -> "Listener":
        if self.uses_ssl and self.ssl is None:
            raise ValueError(f"security.protocol {self.security_protocol} needs ssl: certificate and key")
        if self.uses_sasl and not self.sasl_enabled_mechanisms:
            raise ValueError(f"security.protocol {self.security_protocol} needs sasl.enabled.mechanisms")
        if not self.uses_sasl and self.sasl_enabled_mechanisms:
            raise ValueError(f"security.protocol {self.security_protocol} takes no sasl.enabled.mechanisms")
        if self.security_protocol == "SSL" and self.ssl is not None and self.ssl.client_auth != "none":
            # Taken, every client would be ANONYMOUS, however well its certificate names it.
            raise ValueError(
                f"ssl: client.auth {self.ssl.client_auth}: principals from certificates are not supported"
                " yet; use SASL_SSL, where client.auth is checked beside the login, or client.auth none"
            )
        return self


class Peer(Part):
    """How we reach and log in to another process."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl: Login | None = None
    ssl: ClientSsl | None = None
    request_timeout_ms: Milliseconds = 30_000

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @model_validator(mode="after")
    def _login_fits_the_protocol(self) -> "Peer":
        if self.security_protocol.startswith("SASL") != (self.sasl is not None):
            raise ValueError(f"security.protocol {self.security_protocol} and sasl do not fit together")
        return self


class Upstream(Peer):
    """The broker that the proxy stands in front of."""

    bootstrap: HostPort
    advertised_brokers: dict[int, dict[str, HostPort]] = Field(default_factory=dict)


class ControllerPeer(Peer):
    """The controllers, one of which is active."""

    endpoints: tuple[HostPort, ...] = Field(min_length=1)


class Metadata(Part):
    topic: str = "__penstock_metadata"


class Authorizer(Part):
    """Key by key as in a broker's server.properties; whole, it is what `Authorizer.configure` gets."""

    authorizer_class_name: str | None = None
    super_users: str = ""
    allow_everyone_if_no_acl_found: bool = False
    early_start_listeners: tuple[str, ...] = ()

    def settings(self) -> dict[str, str]:
        """As strings under Kafka's names."""
        return {
            "authorizer.class.name": self.authorizer_class_name or "",
            "super.users": self.super_users,
            "allow.everyone.if.no.acl.found": str(self.allow_everyone_if_no_acl_found).lower(),
            "early.start.listeners": ",".join(self.early_start_listeners),
        }


class Quota(Part):
    quota_window_num: Annotated[int, Field(ge=2)] = 11
    quota_window_size_seconds: Annotated[int, Field(ge=1)] = 1
    quota_producer_default: Annotated[float, Field(gt=0)] | None = None
    quota_consumer_default: Annotated[float, Field(gt=0)] | None = None


class Audit(Part):
    topic: str = "__penstock_audit"
    spool_dir: FilePath
    spool_max_bytes: Annotated[int, Field(ge=1 << 20)] = 1 << 30
    spool_fsync_interval_ms: Milliseconds = 100
    summary_interval_ms: Annotated[int, Field(ge=100)] = 10_000


class Limits(Part):
    socket_request_max_bytes: Annotated[int, Field(ge=1024)] = 100 * 1024 * 1024
    decoded_request_max_bytes: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    sasl_server_max_receive_size: Annotated[int, Field(ge=1024)] = 512 * 1024
    max_connections: Annotated[int, Field(ge=1)] = 10_000
    connections_max_idle_ms: Milliseconds = 600_000
    drain_timeout_ms: Milliseconds = 30_000


class Http(Part):
    bind: HostPort


class Log(Part):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"


class ProxyConfig(Part):
    """The proxy's whole file."""

    proxy_id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")]
    listeners: tuple[Listener, ...] = Field(min_length=1)
    users_file: ExistingFile | None = None
    upstream: Upstream
    controller: ControllerPeer
    metadata: Metadata = Metadata()
    authorizer: Authorizer = Authorizer()
    quota: Quota = Quota()
    audit: Audit
    limits: Limits = Limits()
    http: Http | None = None
    log: Log = Log()

    @field_validator("listeners")
    @classmethod
    def _names_and_addresses_differ(cls, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
        names = [listener.name for listener in listeners]
        binds = [listener.bind for listener in listeners if not listener.bind.endswith(":0")]
        for values, what in ((names, "name"), (binds, "bind")):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"{what} used by more than one listener: {', '.join(twice)}")
        return listeners

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "ProxyConfig":
        require_users_file(self.listeners, self.users_file)
        require_authorizer(self.listeners, self.authorizer)
        known = {listener.name for listener in self.listeners}
        unknown = set(self.authorizer.early_start_listeners) - known
        if unknown:
            raise ValueError(f"early.start.listeners names no listener: {', '.join(sorted(unknown))}")
        return self


def require_users_file(listeners: tuple[Listener, ...], users_file: Path | None) -> None:
    """PLAIN has nowhere else to look its users up."""
    if users_file is None and any("PLAIN" in listener.sasl_enabled_mechanisms for listener in listeners):
        raise ValueError("a listener enables PLAIN, which needs users.file")


def require_authorizer(listeners: tuple[Listener, ...], authorizer: Authorizer) -> None:
    """A2: where clients are authenticated, leaving authorisation out must be said, not forgotten."""
    authenticated = any(
        listener.uses_sasl or (listener.ssl and listener.ssl.client_auth != "none") for listener in listeners
    )
    if authenticated and authorizer.authorizer_class_name is None:
        raise ValueError(
            "authorizer.class.name is not set while a listener authenticates its clients;"
            " set it to an empty string to run without authorisation on purpose"
        )


class PlainUser(Part):
    password_hash: str | None = None
    password_file: ExistingFile | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "PlainUser":
        if (self.password_hash is None) == (self.password_file is None):
            raise ValueError("give password.hash or password.file")
        return self


class UsersFile(Part):
    """The users that PLAIN knows."""

    users: dict[str, PlainUser]


PartType = TypeVar("PartType", bound=Part)


def load(path: Path, part: type[PartType]) -> PartType:
    """The file as `part`; ConfigError lists every key that is wrong."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, found {type(document).__name__}")
    try:
        return part.model_validate(document, context={"directory": path.resolve().parent})
    except ValidationError as error:
        lines = [f"{path}: {_place(item['loc'])}: {item['msg']}" for item in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def password_hashes(users_file: Path | None) -> dict[str, str]:
    """The users that PLAIN knows, by name; a password that a file holds is hashed here and not kept."""
    hashes = {}
    for name, user in load(users_file, UsersFile).users.items() if users_file is not None else ():
        if user.password_hash is not None:
            hashes[name] = user.password_hash
        elif user.password_file is not None:
            password = user.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            hashes[name] = hash_password(password, secrets.token_bytes(16))
    return hashes


def endpoint(peer: Peer, address: str, client_id: str) -> EndpointSettings:
    """How to reach one address of a peer; TlsError when its certificates cannot be used."""
    host, port = split_host_port(address)
    login = peer.sasl
    tls = peer.ssl
    context = None
    if peer.uses_ssl:
        context = (
            client_context(None, None, None, True)
            if tls is None
            else client_context(tls.ca, tls.certificate, tls.key, tls.endpoint_identification)
        )
    return EndpointSettings(
        host=host,
        port=port,
        ssl=context,
        sasl=None
        if login is None
        else SaslLogin(mechanism=login.mechanism, username=login.username, password=login.password),
        client_id=client_id,
        request_timeout_ms=peer.request_timeout_ms,
    )


def _place(location: tuple[Any, ...]) -> str:
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else (f" > {step}" if text else str(step))
    return text or "(the whole file)"
