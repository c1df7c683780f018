"""`penstock check`: finds every error that can be found without starting the process.

It recognizes the file of a proxy or of a controller by its keys, reads it as a whole, and loads what the
process would load: certificates, the users file, SASL mechanisms, the authorizer and its files. If parts
of the file are invalid, it checks the others all the same.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import CollectorRegistry

from proxy.config import (
    AuthorizerConfig,
    ConfigError,
    ListenerConfig,
    PeerConfig,
    ProxyConfig,
    UsersFile,
    WatchedUsers,
    doubts,
    http_access,
    load,
    machine,
)
from proxy.config.addresses import Bind, file_of, require_different_ports
from proxy.config.authorizer import PolicyConfig
from proxy.config.candidate import read_candidate
from proxy.config.certificates import facts
from proxy.config.document import Location, NotYaml, read_document
from proxy.config.kinds import KINDS
from proxy.config.parts import KeyProblem, secret_files
from proxy.config.peer import Login, client_tls
from proxy.config.proxy_principals import proxy_principals
from proxy.config.reading import Reading, RightParts, content_of, read, right_parts
from proxy.error_text import text_of
from proxy.net.audit.spool_lock import Holder, holder_of, last_holder, locked_by_another
from proxy.net.files.authorizer_reload import AuthorizerReload
from proxy.net.files.tls import TlsError, client_context
from proxy.net.files.watched_file import FileReloads
from proxy.net.logins.credentials import Credentials, PlainUsers, key_sources, sasl_listener
from proxy.net.runtime import descriptors
from proxy.net.runtime.clock import now_ms
from proxy.net.runtime.listening import listening_ports
from proxy.security.authorizer import load_authorizer

if TYPE_CHECKING:
    from forwarding.config import ControllerConfig

# A proxy checks its own file too, at each reload, and does without all that a controller is made of.
Config: TypeAlias = "ControllerConfig | ProxyConfig"
Trial = tuple[Location, Callable[[], object]]
"""A key, and the function that loads what it configures."""


@dataclass(slots=True)
class Checked:
    """The result for one file. `config` is None if the file is invalid."""

    path: Path
    config: Config | None = None
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    """Certificates that no peer accepts now: errors too, which keep no process from starting."""
    notes: list[str] = field(default_factory=list)
    """What is as it should be, and may surprise."""


def check(path: Path) -> list[str]:
    """Return the errors that keep a process from starting with the file, one line each."""
    return checked(path).problems


def checked(path: Path) -> Checked:
    """Check one file."""
    try:
        content = content_of(path)
    except ConfigError as error:
        return Checked(path, problems=str(error).splitlines())
    if not _keys(content) & KINDS["controller"].keys:
        return _checked(path, content, ProxyConfig)
    from forwarding.config import ControllerConfig

    return _checked(path, content, ControllerConfig)


def checked_users(path: Path) -> Checked:
    """Check one users file, without a configuration file."""
    try:
        WatchedUsers(path, FileReloads(CollectorRegistry()))
    except ConfigError as error:
        return Checked(path, problems=str(error).splitlines())
    return Checked(path, warnings=list(_warnings_of_users(path)))


def _checked(path: Path, content: bytes, part: type[ProxyConfig] | type[ControllerConfig]) -> Checked:
    reading: Reading[Config] = read(path, content, part)
    found = Checked(path, reading.settings, list(reading.problems), list(reading.hints))
    right = right_parts(reading, part)
    for location, trial in _trials(right):
        _try(reading, location, trial, found.problems)
    for fact in facts(
        {part.model_fields[name].alias: value for name, value in right.items()}, now_ms() / 1000
    ):
        lines = found.unusable if fact.error else found.warnings
        lines.append(reading.line(fact.location, fact.text))
    found.problems = list(dict.fromkeys(found.problems))
    if found.config is not None and not found.problems:
        # Not before: this would report the errors of the parts again.
        _try(reading, (), _whole(found.config), found.problems)
    if found.config is not None and not found.problems:
        found.notes.append(f"{path}: {KINDS[part.kind].name}")
        running = _running(found.config)
        if running is not None:
            found.notes.append(
                f"{path}: in use by the running {running.description()}; there are no warnings of its spool"
                " and ports"
            )
        found.warnings += _warnings(reading, found.config, running)
    return found


def _running(config: Config) -> Holder | None:
    """The process that runs with this file: it holds the spool, under this name, on this host."""
    holder = holder_of(config.audit.spool_dir)
    if holder is None or holder.host != socket.gethostname():
        return None
    return holder if _is_of(holder, config) else None


def _is_of(holder: Holder, config: Config) -> bool:
    """Whether the holder of a spool has this name and runs such files."""
    is_controller = not isinstance(config, ProxyConfig)
    return holder.proxy_id == _name(config) and (holder.role == "controller") == is_controller


def compared(all_checked: Iterable[Checked]) -> list[str]:
    """Return the conflicts between valid files of one machine: ports, spools and names in two files."""
    problems: list[str] = []
    spools: dict[Path, Path] = {}
    names: dict[tuple[type, str], Path] = {}
    binds: list[Bind] = []
    for each in all_checked:
        if each.config is None:
            continue
        spool, name = each.config.audit.spool_dir.resolve(), _name(each.config)
        if spools.setdefault(spool, each.path) != each.path:
            problems.append(
                f"{each.path}: audit > spool.dir: {spool} is also in {spools[spool]}; each process"
                " needs its own"
            )
        if names.setdefault((type(each.config), name), each.path) != each.path:
            other = names[type(each.config), name]
            problems.append(f"{each.path}: the name {name} is also in {other}; each process needs its own")
        for location, bind in each.config.binds:
            ours: Bind = ((f"{each.path}", *location), bind)
            try:
                require_different_ports([*binds, ours])
            except KeyProblem as problem:
                problems.append(f"{each.path}: {location[0]}: {problem}")
            else:
                binds.append(ours)
    return problems


def _name(config: Config) -> str:
    return config.proxy_id if isinstance(config, ProxyConfig) else config.controller_id


def _try(
    reading: Reading[Config], location: Location, trial: Callable[[], object], problems: list[str]
) -> None:
    try:
        trial()
    except ConfigError as error:
        problems += str(error).splitlines()  # These already name the file and the line.
    except (TlsError, ValueError) as error:
        problems += [reading.line(location, line) for line in str(error).splitlines()]


def _whole(config: Config) -> Callable[[], object]:
    """What the process makes of all parts together."""
    if isinstance(config, ProxyConfig):
        return partial(proxy_principals, config)
    from forwarding.net.process import ProcessSettings

    return partial(ProcessSettings.of, config)


def _trials(right: RightParts) -> Iterator[Trial]:
    """The trials of the valid parts."""
    registry = CollectorRegistry()
    reloads = FileReloads(registry)
    if right.get("users_file") is not None:
        yield ("users.file",), partial(WatchedUsers, right["users_file"], reloads)
    if isinstance(right.get("authorizer"), AuthorizerConfig):
        yield ("authorizer",), partial(_authorizer, right["authorizer"], reloads)
    policy = right.get("policy")
    if isinstance(policy, PolicyConfig) and policy.assertions is not None:
        yield ("policy", "assertions"), partial(_assertions, policy.assertions)
    keys = key_sources(registry, reloads, now_ms)
    credentials = Credentials(PlainUsers({}), lambda: None, keys=keys)
    for location, listener in _listeners(right):
        yield from _listener_trials(location, listener, credentials)
    for name, part in right.items():
        if isinstance(part, PeerConfig):
            yield (name, "ssl"), partial(client_tls, part)
            if part.sasl is not None:
                yield (name, "sasl"), partial(_login, part.sasl)
    if right.get("http") is not None:
        yield ("http", "ssl"), partial(http_access, right["http"], logged=False)
    if "audit" in right:
        yield ("audit", "spool.dir"), partial(_directory, right["audit"].spool_dir)


def _listener_trials(
    location: Location, listener: ListenerConfig, credentials: Credentials
) -> Iterator[Trial]:
    yield (*location, "ssl"), listener.server_tls
    yield location, listener.principal_builder
    if listener.uses_sasl:
        yield location, partial(sasl_listener, listener, credentials)
    for place, provider in listener.providers.items():
        ca = provider.sasl_oauthbearer_jwks_endpoint_ca
        if ca is not None:
            at = (*location, *place, provider.key("jwks_endpoint_ca"))
            yield at, partial(client_context, ca)


def _assertions(path: Path) -> None:
    from proxy.policy.assertions import parse_assertions

    try:
        parse_assertions(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {text_of(error)}") from error


def _login(login: Login) -> None:
    """Read what each login will read again."""
    for path in (login.password_file, login.oauthbearer_client_credentials_client_secret_file):
        try:
            if path is not None and not path.read_text(encoding="utf-8").strip():
                raise ValueError(f"{path} is empty; write the password into it")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {text_of(error)}; write the password in UTF-8") from None
    if login.oauthbearer_token_endpoint_ca is not None:
        client_context(login.oauthbearer_token_endpoint_ca)


def _authorizer(settings: AuthorizerConfig, reloads: FileReloads) -> None:
    authorizer = load_authorizer(settings.authorizer_class_name or "", settings.settings())
    AuthorizerReload(authorizer, reloads, lambda: None)
    if settings.candidate is not None:
        read_candidate(settings.candidate)


def _directory(directory: Path) -> None:
    reason = machine.cannot_be(directory)
    if reason is not None:
        raise ValueError(reason)


def _listeners(right: RightParts) -> Iterator[tuple[Location, ListenerConfig]]:
    if "listener" in right:
        yield ("listener",), right["listener"]
    for place, listener in enumerate(right.get("listeners", ())):
        yield ("listeners", place), listener


def _warnings(reading: Reading[Config], config: Config, running: Holder | None) -> Iterator[str]:
    ours = frozenset[int]() if running is None else listening_ports(running.pid)
    for location, text in (*_cautions(config), *machine.warns_of_addresses(config.binds, ours)):
        yield reading.line(location, text)
    locked = None if running is not None else locked_by_another(config.audit.spool_dir)
    last = None if running is not None or locked is not None else last_holder(config.audit.spool_dir)
    if last is not None and not _is_of(last, config):
        yield reading.line(
            ("audit", "spool.dir"),
            f"{config.audit.spool_dir} was last used by {last.description()}; give each process a directory"
            f" of its own, unless {_name(config)} is its new name: records that are left there are delivered"
            " under the old one",
        )
    found = (
        locked,
        machine.missing_files(config, descriptors.highest_limit()),
        None if config.http is None else config.http.exposure(),
        None if config.telemetry.otlp is None else config.telemetry.otlp.exposure(),
        config.upstream.note if isinstance(config, ProxyConfig) else None,
    )
    yield from (f"{reading.path}: {message}" for message in found if message is not None)
    if config.users_file is not None:
        yield from _warnings_of_users(config.users_file)


def _warnings_of_users(path: Path) -> Iterator[str]:
    users = load(path, UsersFile)
    # Hashes can be guessed offline. A file that only names other files contains no secret.
    has_hashes = any(user.password_hash is not None for user in users.users.values())
    secrets = [*secret_files(users), *([((), path)] if has_hashes else [])]
    for _, text in machine.warns_of_secrets(secrets):
        yield f"{path}: {text}"
    for name, user in users.users.items():
        if user.until is not None and user.until <= now_ms():
            yield f"{path}: users > {name} > until: is past, so {name} cannot log in; remove the user"


def _cautions(config: Config) -> Iterator[machine.Caution]:
    yield from doubts.warns_of_durations(config)
    yield from doubts.warns_of_rules(config)
    yield from doubts.warns_of_issuers(config)
    if isinstance(config, ProxyConfig):
        yield from machine.warns_of_id("proxy.id", config.proxy_id)
        yield from machine.warns_of_workers(config.workers, machine.cores())
        yield from doubts.warns_of_detours(config)
        yield from doubts.warns_of_principals(config)
        yield from doubts.warns_of_groups(config)
        for place, listener in enumerate(config.listeners):
            yield from machine.warns_of_plaintext(("listeners", place), listener)
    else:
        yield from machine.warns_of_plaintext(("listener",), config.listener)
    yield from machine.warns_of_secrets([*secret_files(config), *_tokens(config)])
    yield from machine.warns_of_directory(("audit", "spool.dir"), config.audit.spool_dir)


def _tokens(config: Config) -> Iterator[tuple[Location, Path]]:
    """The files with tokens for logins of the process."""
    for name, part in config:
        if isinstance(part, PeerConfig) and part.sasl is not None:
            path = file_of(part.sasl.oauthbearer_token_endpoint_url or "")
            if path is not None:
                yield (name, "sasl", "oauthbearer.token.endpoint.url"), path


def _keys(content: bytes) -> set[str]:
    """At the top of the file; none of a file that is not YAML, of which `read` says what it is."""
    try:
        document = read_document(content).values
    except NotYaml:
        return set()  # `read` reports the error.
    return set(map(str, document)) if isinstance(document, dict) else set()
