"""A SASL mechanism as a listener offers it: a name, and an exchange for each login.

The built-in ones are made in proxy.net.credentials; others are named by `sasl.server.mechanism.classes` of a
listener and loaded here, as `authorizer.class.name` is.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, runtime_checkable

from proxy.security.sasl.exchange import Exchange

NAME = re.compile(r"[A-Z0-9_-]{1,20}")
"""RFC 4422, section 3.1."""
KEY = "sasl.server.mechanism.classes"


class SaslMechanism(Protocol):
    """One mechanism of one listener."""

    @property
    def name(self) -> str:
        """As clients ask for it."""

    def new_exchange(self) -> Exchange:
        """For one login, over the credentials in force at this moment."""


@runtime_checkable
class PluggableMechanism(SaslMechanism, Protocol):
    """Implementations are named by module:Class and made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError, naming the key, for a bad setting."""


def load_mechanism(name: str, class_path: str, settings: Mapping[str, str]) -> SaslMechanism:
    """The configured mechanism that `class_path`, module:Class, names.

    ValueError, naming the key, when there is no such class, it does not fit or refuses its settings.
    """
    key = f"{KEY}[{name}]"
    module_name, _, class_name = class_path.partition(":")
    try:
        mechanism = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{key}: cannot load {class_path!r}: {error}") from error
    if not isinstance(mechanism, PluggableMechanism):
        raise ValueError(f"{key}: {class_path!r} is not a SASL mechanism")
    try:
        mechanism.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.server.mechanism.settings[{name}]: {error}") from error
    if mechanism.name != name:
        raise ValueError(f"{key}: {class_path!r} is the mechanism {mechanism.name!r}")
    return mechanism
