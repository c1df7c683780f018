"""GSSAPI, server side (RFC 4752), as Kafka's broker has it of Java: a client's tokens in, its principal out.

Three steps: the tokens of a GSS-API context, until it stands; an empty token, for which the server offers its
security layers; the client's choice, which can only be none of them. What the tokens mean, and where the
service's key is, is known to a SecurityContext alone: proxy.net.logins.kerberos has the real one.
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Protocol

from proxy.security.mapping_rules import NoMatchingRule
from proxy.security.principal import USER_TYPE, Principal
from proxy.security.sasl.exchange import (
    MAX_TOKEN_BYTES,
    Accepted,
    Challenge,
    Deferred,
    Rejected,
    Settled,
    shown,
)

NAME = "GSSAPI"
NO_LAYER = 1
OFFER = bytes((NO_LAYER, 1, 0, 0))
"""No security layer, and the size that Java tells with it: the RFC would have 0, clients know this one."""
_CHOICE_BYTES = 4


class GssError(Exception):
    """A token was not taken; the text says why, for the audit alone."""


class SecurityContext(Protocol):
    """The accepting side of one GSS-API context; each call may block, and is a GssError for a bad token."""

    def step(self, token: bytes) -> bytes | None:
        """Takes the initiator's next token; None when there is nothing to tell it."""

    @property
    def complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """The Kerberos name that it has proved, once complete."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, token: bytes) -> bytes: ...


class _Due(Enum):
    """What the client has to send next."""

    CONTEXT = "a token of the context"
    EMPTY = "an empty token"
    CHOICE = "the choice of a security layer"
    NOTHING = "nothing"


class GssapiExchange:
    """One GSSAPI login.

    `new_context` is asked once, in another thread: it may block and be a GssError. `local_name` makes the
    principal's name of the Kerberos name; ValueError or NoMatchingRule when that is nobody's.
    """

    def __init__(self, new_context: Callable[[], SecurityContext], local_name: Callable[[str], str]) -> None:
        self._new_context = new_context
        self._local_name = local_name
        self._context: SecurityContext | None = None
        self._due = _Due.CONTEXT

    def respond(self, token: bytes, now_ms: int) -> Rejected | Deferred:
        # Whatever goes wrong from here on, nothing comes after it.
        due, self._due = self._due, _Due.NOTHING
        if due is _Due.NOTHING:
            return Rejected("", "a token after the end of the exchange")
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a token of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        step = {_Due.CONTEXT: self._negotiated, _Due.EMPTY: self._offered, _Due.CHOICE: self._chosen}[due]
        return Deferred(partial(_caught, step, bytes(token)))

    def _negotiated(self, token: bytes) -> Settled:
        self._context = context = self._context or self._new_context()
        answer = context.step(token)
        if not context.complete:
            if answer is None:
                return Rejected("", "the context waits for more, and has nothing to tell the client")
            self._due = _Due.CONTEXT
            return Challenge(answer)
        if answer is None:
            return self._offered(b"")
        self._due = _Due.EMPTY
        return Challenge(answer)

    def _offered(self, token: bytes) -> Settled:
        assert self._context is not None
        if token:
            return Rejected("", f"{len(token)} bytes where an empty token was due")
        offer = self._context.wrap(OFFER)
        self._due = _Due.CHOICE
        return Challenge(offer)

    def _chosen(self, token: bytes) -> Settled:
        assert self._context is not None
        choice = self._context.unwrap(token)
        initiator = self._context.initiator
        if len(choice) < _CHOICE_BYTES:
            return Rejected("", f"{shown(initiator)}: a choice of {len(choice)} bytes")
        # The three bytes behind it are the size of what nobody is going to wrap.
        if choice[0] != NO_LAYER:
            return Rejected(
                "", f"{shown(initiator)}: chose the security layers {choice[0]:#04x}, offered none"
            )
        return self._admitted(initiator, choice[_CHOICE_BYTES:])

    def _admitted(self, initiator: str, wanted: bytes) -> Accepted | Rejected:
        try:
            name = self._local_name(initiator)
        except (ValueError, NoMatchingRule) as error:
            return Rejected("", str(error))
        if wanted not in (b"", initiator.encode(), name.encode()):
            asked = wanted.decode(errors="replace")
            return Rejected("", f"{shown(initiator)} asked to act as {shown(asked)}")
        return Accepted(Principal(USER_TYPE, name), b"")


def _caught(step: Callable[[bytes], Settled], token: bytes) -> Settled:
    try:
        return step(token)
    except GssError as error:
        return Rejected("", str(error))
