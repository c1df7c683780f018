"""`penstock check`: everything that can be known to be wrong before a process is started.

Tells whether a file is a proxy's or a controller's by its keys, reads it as a whole, and tries what the
process would make of it: certificates, the users file, SASL mechanisms, the authorizer and its files.
"""

from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry

from forwarding.config import ControllerConfig, process_settings
from proxy.config import ConfigError, Listener, ProxyConfig, WatchedUsers, load
from proxy.config.proxy_principals import proxy_principals
from proxy.files_limit import missing_files
from proxy.net import descriptors
from proxy.net.authorizer_upkeep import AuthorizerUpkeep
from proxy.net.clock import now_ms
from proxy.net.credentials import Credentials, sasl_listener
from proxy.net.oauthbearer import KeySources
from proxy.net.spool_lock import locked_by_another
from proxy.net.tls import TlsError
from proxy.net.watched_file import FileReloads
from proxy.security.authorizer import load_authorizer


def check(path: Path) -> list[str]:
    """What is wrong with the file, a line each; empty when nothing is."""
    config: ControllerConfig | ProxyConfig
    try:
        config = load(path, ControllerConfig) if _is_controllers(path) else load(path, ProxyConfig)
    except ConfigError as error:
        return str(error).splitlines()
    problems = []
    try:
        registry = CollectorRegistry()
        reloads = FileReloads(registry)
        users = WatchedUsers(config.users_file, reloads).known
        settings = config.authorizer.settings()
        authorizer = load_authorizer(config.authorizer.authorizer_class_name or "", settings)
        AuthorizerUpkeep(authorizer, reloads, lambda: None)
        credentials = Credentials(users, lambda: None, keys=KeySources(registry, reloads, now_ms))
        if isinstance(config, ControllerConfig):
            process_settings(config)
            _logins(config.listener, credentials)
        else:
            _listeners(config, credentials)
            proxy_principals(config)
    except (ConfigError, TlsError, ValueError) as error:
        problems += [f"{path}: {line}" for line in str(error).splitlines()]
    return problems


def warnings(path: Path) -> list[str]:
    """What is wrong on this machine with a file that can be used; a line each."""
    try:
        config = load(path, ControllerConfig) if _is_controllers(path) else load(path, ProxyConfig)
    except ConfigError:
        return []
    found = locked_by_another(config.audit.spool_dir), missing_files(config, descriptors.highest_limit())
    return [f"{path}: {message}" for message in found if message is not None]


def _listeners(config: ProxyConfig, credentials: Credentials) -> None:
    for listener in config.listeners:
        listener.server_tls()
        listener.principal_builder()
        _logins(listener, credentials)


def _logins(listener: Listener, credentials: Credentials) -> None:
    if listener.uses_sasl:
        sasl_listener(listener, credentials)


def _is_controllers(path: Path) -> bool:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False  # `load` says what it is.
    return isinstance(document, dict) and "controller.id" in document
