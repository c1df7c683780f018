"""Where a token's claims are, and what a session takes from them (SPEC A8, A9).

proxy.security.jwt reads the claims of a verified token with these. The configuration makes them without the
modules that verify tokens (decision 0065).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from proxy.security.principal import group_names

Payload = Mapping[str, object]
"""The members of a token's payload."""
_NO_ESCAPE = re.compile(r"~(?![01])")


@dataclass(frozen=True, slots=True)
class ClaimPath:
    """Where a claim is: the names of the members that lead to it, from the payload down."""

    text: str
    """As in the configuration, and in reasons."""
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "ClaimPath":
        """Parse a claim's name, as in Kafka, or a JSON Pointer (RFC 6901), which begins with a slash.

        In a pointer, ~1 is a slash and ~0 a tilde. A name is one name whatever it contains: those of some
        providers are URLs. ValueError if the text is neither.
        """
        if not text.startswith("/"):
            if not text:
                raise ValueError("the name of a claim is empty")
            return cls(text, (text,))
        if _NO_ESCAPE.search(text):
            raise ValueError(f"{text!r} has a ~ that is neither ~0 (a tilde) nor ~1 (a slash)")
        names = text[1:].split("/")
        return cls(text, tuple(name.replace("~1", "/").replace("~0", "~") for name in names))

    def value(self, payload: Payload) -> object:
        """Return the value; None if it is absent or null. ValueError if the path leads through no object."""
        value: object = payload
        for name in self.names:
            if not isinstance(value, dict):
                raise ValueError(f"{self.text} leads through a value that is no object")
            value = value.get(name)
            if value is None:
                return None
        return value


@dataclass(frozen=True, slots=True)
class NameClaim:
    """A claim that a principal's name is made from, and what the name begins with."""

    path: ClaimPath
    prefix: str = ""


SUB = NameClaim(ClaimPath("sub", ("sub",)))
"""Kafka's default."""


@dataclass(frozen=True, slots=True)
class GroupsClaim:
    """The claim with a client's groups: a list of texts, or one text."""

    path: ClaimPath
    separator: str = ""
    """What separates the groups in a text; empty: a text is one group."""
    prefix: str = ""

    def groups(self, payload: Payload) -> tuple[str, ...]:
        """Return the groups, none if the claim is absent. ValueError names the claim and what is wrong."""
        elsewhere = payload.get("_claim_names")
        if isinstance(elsewhere, dict) and self.path.names[0] in elsewhere:
            # OpenID Connect Core, section 5.6.2. Entra ID does so for users in many groups.
            raise ValueError(f"{self.path.text} is not in the token, which refers to another place for it")
        value = self.path.value(payload)
        if isinstance(value, str) and self.separator:
            # Not all that Unicode takes for blank, as in names: another group could have this one's name.
            value = [name for part in value.split(self.separator) if (name := part.strip(" "))]
        named = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise ValueError(f"{self.path.text} is neither a string nor a list of them")
        try:
            return group_names(named, self.prefix)
        except ValueError as error:
            raise ValueError(f"{self.path.text}: {error}") from error
