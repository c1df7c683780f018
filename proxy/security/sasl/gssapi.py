"""GSSAPI, server side (RFC 4752), as in Kafka's broker on Java: tokens of a client in, its principal out.

There are three steps: the tokens of a GSS-API context until it is complete; an empty token, to which the
server responds with its security layers; the client's choice, which can only be none. SecurityContext
interprets the tokens and has the service's key: proxy.net.logins.kerberos has the real one.
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
"""No security layer, and the size that Java sends with it: clients know this one; RFC 4752 requires 0."""
_CHOICE_BYTES = 4


class GssError(Exception):
    """A token was rejected; the text is for the audit trail only."""


class SecurityContext(Protocol):
    """The accepting side of a GSS-API context. Calls may block, and raise GssError for a bad token."""

    def step(self, token: bytes) -> bytes | None:
        """Process the initiator's next token; return the token to send, or None."""

    @property
    def complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """The Kerberos name of the initiator, once complete."""

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

    `new_context` is called once, in another thread: it may block and raise GssError. `local_name` maps the
    Kerberos name to the principal's name; ValueError or NoMatchingRule if it has none.
    """

    def __init__(self, new_context: Callable[[], SecurityContext], local_name: Callable[[str], str]) -> None:
        self._new_context = new_context
        self._local_name = local_name
        self._context: SecurityContext | None = None
        self._due = _Due.CONTEXT

    def respond(self, token: bytes, now_ms: int) -> Rejected | Deferred:
        # After any error the exchange is over.
        due, self._due = self._due, _Due.NOTHING
        if due is _Due.NOTHING:
            return Rejected("", "a token after the end of the exchange")
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a token of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        step = {_Due.CONTEXT: self._negotiated, _Due.EMPTY: self._offered, _Due.CHOICE: self._chosen}[due]
        return Deferred(partial(_caught, step, bytes(token)))

    def _negotiated(self, token: bytes) -> Settled:
        self._context = context = self._context or self._new_context()
        response = context.step(token)
        if not context.complete:
            if response is None:
                return Rejected("", "the context expects another token, and has none to send")
            self._due = _Due.CONTEXT
            return Challenge(response)
        if response is None:
            return self._offered(b"")
        self._due = _Due.EMPTY
        return Challenge(response)

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
        # The other three bytes are the size of wrapped messages, which are not used.
        if choice[0] != NO_LAYER:
            return Rejected(
                "", f"{shown(initiator)}: chose the security layers {choice[0]:#04x}, offered none"
            )
        wanted = choice[_CHOICE_BYTES:]
        try:
            name = self._local_name(initiator)
        except (ValueError, NoMatchingRule) as error:
            return Rejected("", str(error))
        if wanted not in (b"", initiator.encode(), name.encode()):
            requested = wanted.decode(errors="replace")
            return Rejected("", f"{shown(initiator)} asked to act as {shown(requested)}")
        return Accepted(Principal(USER_TYPE, name), b"")


def _caught(step: Callable[[bytes], Settled], token: bytes) -> Settled:
    try:
        return step(token)
    except GssError as error:
        return Rejected("", str(error))
