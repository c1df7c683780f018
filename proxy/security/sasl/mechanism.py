"""A SASL mechanism of a listener: a name, and an exchange for each login.

proxy.net.logins.credentials makes the built-in ones; `sasl.server.mechanism.classes` of a listener names
others, which are loaded here.
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
        """The name that clients request."""

    def new_exchange(self) -> Exchange:
        """Return an exchange for one login, with the current credentials."""


@runtime_checkable
class PluggableMechanism(SaslMechanism, Protocol):
    """A plug-in, named by package.module.Class and instantiated without arguments."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Called once, before anything else. ValueError names the key of a bad setting."""


def load_mechanism(name: str, class_path: str, settings: Mapping[str, str]) -> SaslMechanism:
    """Return the configured mechanism of `class_path`.

    ValueError names the key if the class is missing, is no mechanism or rejects its settings.
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
