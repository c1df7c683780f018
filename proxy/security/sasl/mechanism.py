"""A SASL mechanism as a listener offers it: a name, and an exchange for each login.

The built-in ones are made in proxy.net.credentials; others are named by `sasl.server.mechanism.classes` of a
listener and loaded here, as `authorizer.class.name` is.
"""

import re
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from proxy.security.plugin import plugin
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
    """Implementations are named by package.module.Class and made without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError, naming the key, for a bad setting."""


def load_mechanism(name: str, class_path: str, settings: Mapping[str, str]) -> SaslMechanism:
    """The configured mechanism that `class_path` names.

    ValueError, naming the key, when there is no such class, it does not fit or rejects its settings.
    """
    key = f"{KEY}[{name}]"
    mechanism = plugin(key, class_path, PluggableMechanism, "a SASL mechanism")  # type: ignore[type-abstract]
    try:
        mechanism.configure(settings)
    except ValueError as error:
        raise ValueError(f"sasl.server.mechanism.settings[{name}]: {error}") from error
    if mechanism.name != name:
        raise ValueError(f"{key}: {class_path!r} is the mechanism {mechanism.name!r}")
    return mechanism
