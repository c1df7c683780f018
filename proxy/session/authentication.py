"""The SASL state of one connection, as the server sees it (KIP-43, KIP-152, KIP-368).

Fed by proxy.session.session and by the controller's listener with decoded requests (or bare tokens after a
handshake v0); gives back the answer, the audit event and whether the connection has to go. What a
mechanism does with its tokens is proxy.security.sasl's; this knows only when a token may come.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from proxy.audit.record import AuditEvent
from proxy.security.backoff import LoginBackoff
from proxy.security.expiry import SessionExpiry, session_lifetime_ms
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Exchange, Outcome, Rejected, Settled
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
"""KIP-368: a client that re-authenticates in a loop must not burn the CPU of everyone."""
_BARE = -1
"""In place of a version of SaslAuthenticate: the token came after a SaslHandshake v0, in no request."""


class Phase(Enum):
    """Where a connection stands."""

    VERSIONS = "versions"  # Nothing yet: ApiVersions or SaslHandshake may come.
    HANDSHAKE = "handshake"  # ApiVersions was answered: SaslHandshake has to come.
    AUTHENTICATE = "authenticate"  # SaslAuthenticate requests carry the tokens.
    BARE_TOKENS = "bare tokens"  # After SaslHandshake v0: frames that are nothing but a token.
    COMPLETE = "complete"  # The client is known; a SaslHandshake begins re-authentication.
    FAILED = "failed"  # The answer is out, the connection is about to be closed.


@dataclass(frozen=True, slots=True)
class SaslListener:
    """What a listener asks of those who connect."""

    name: str
    mechanisms: tuple[str, ...]
    """Enabled mechanisms in the order told to clients."""
    max_reauth_ms: Callable[[str], int]
    """connections.max.reauth.ms of a mechanism; 0 is no limit (KIP-368)."""
    new_exchange: Callable[[str], Exchange]
    """A fresh exchange of a mechanism, over the credentials in force at this moment."""
    backoff: LoginBackoff | None = None
    """How long answers to those are held who may be guessing; None: not at all."""


@dataclass(slots=True)
class Step:
    """What one message of the exchange led to."""

    response: Any
    """The response message, or bytes for a bare token; None: no answer, or not before `check` is made."""
    event: AuditEvent | None = None
    close: bool = False
    check: Deferred | None = None
    """To be made away from the loop; its outcome goes to `Authentication.verified`, which has the answer."""


class Authentication:
    """One connection's way from stranger to principal, and again at each re-authentication."""

    __slots__ = (
        "_bad_mechanism",
        "_began_ms",
        "_client_version",
        "_exchange",
        "_failure_recorded",
        "_held_ms",
        "_host",
        "_listener",
        "_previous",
        "_principal_of",
        "_reauthentication_began_ms",
        "_verifying_version",
        "expiry",
        "in_force",
        "mechanism",
        "phase",
        "principal",
    )

    def __init__(
        self,
        listener: SaslListener | None,
        transport_principal: Principal = ANONYMOUS,
        principal_of: Callable[[str, Principal], Principal] | None = None,
        host: str = "",
    ) -> None:
        """`listener` None: no SASL here; the principal is what the transport gave.

        `principal_of`: from a mechanism and whom it found a client to be to its principal (KIP-189).
        `host`: the client's address.
        """
        self._host = host
        self._held_ms: int | None = None
        self._listener = listener
        self._principal_of = principal_of
        self.principal = transport_principal
        self.phase = Phase.COMPLETE if listener is None else Phase.VERSIONS
        self.expiry = SessionExpiry(None)
        self.mechanism: str | None = None
        self._exchange: Exchange | None = None
        self._bad_mechanism: str | None = None
        self._previous: Principal | None = None
        self._client_version = _BARE
        self._began_ms: int | None = None
        self._reauthentication_began_ms: int | None = None
        self._failure_recorded = False
        self._verifying_version: int | None = None  # Of the token whose check is under way; bare: -1.
        self.in_force: Callable[[], bool] | None = None
        """Of the credential in use; None: it cannot be taken back."""

    def follow(self, listener: SaslListener) -> None:
        """The listener's settings have changed: from the next login on these hold."""
        if self._listener is not None:  # Whoever came without SASL goes on without.
            self._listener = listener

    @property
    def known(self) -> bool:
        """Who the client is, is known: also while it logs in again."""
        return self.phase is Phase.COMPLETE or self._previous is not None

    @property
    def under_way(self) -> bool:
        """Only the exchange's own messages may come now."""
        return self.phase is not Phase.COMPLETE

    @property
    def revoked(self) -> bool:
        """The credential of the last login was changed or removed since."""
        return self.in_force is not None and not self.in_force()

    def refuses(self, api_key: int, now_ms: int) -> bool:
        """Past its end a session takes nothing but a handshake that renews it; ApiVersions neither (KIP-368).

        An idle connection is left alone: only its next request shows that the client did not come back.
        """
        if self.phase is not Phase.COMPLETE or not self.expiry.is_over(now_ms):
            return False
        return api_key != ApiKey.SASL_HANDSHAKE or not self._may_reauthenticate(now_ms)

    def handshake(self, version: int, request: Any, now_ms: int) -> Step:
        """SaslHandshake: begins authentication, or re-authentication where one is complete."""
        listener = self._listener
        if listener is None or self.phase not in (Phase.VERSIONS, Phase.HANDSHAKE, Phase.COMPLETE):
            return self._out_of_place_handshake()
        if self.phase is Phase.COMPLETE and not self._may_reauthenticate(now_ms):
            return Step(types.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return self._begin(listener, version, request.mechanism, now_ms)

    def authenticate(self, version: int, request: Any, now_ms: int) -> Step:
        """SaslAuthenticate: one token of the exchange."""
        if self.phase is not Phase.AUTHENTICATE:
            return self._out_of_place_token()
        self._client_version = max(self._client_version, version)
        return self._step(self._respond(bytes(request.auth_bytes), now_ms), version, now_ms)

    def bare_token(self, token: bytes, now_ms: int) -> Step:
        """A frame after SaslHandshake v0. A failure has no answer here: the connection just ends."""
        return self._step(self._respond(token, now_ms), _BARE, now_ms)

    def verified(self, outcome: Settled, now_ms: int) -> Step:
        """What came of a step's `check`."""
        assert self._verifying_version is not None
        version, self._verifying_version = self._verifying_version, None
        return self._step(outcome, version, now_ms)

    def _step(self, outcome: Outcome, version: int, now_ms: int) -> Step:
        if isinstance(outcome, Deferred):
            self._verifying_version = version
            return Step(None, check=outcome)
        if isinstance(outcome, Challenge):
            return self._challenged(outcome, version)
        held_ms, held = self._held_ms, self._held(outcome, version, now_ms)
        if held is not None:
            return held
        step = self._settled(outcome, version, now_ms)
        if step.event is not None:
            step.event.throttle_time_ms = held_ms
        return step

    def _settled(self, outcome: Accepted | Rejected, version: int, now_ms: int) -> Step:
        if isinstance(outcome, Accepted):
            outcome = self._admitted(outcome)
        if isinstance(outcome, Rejected):
            return self._failed(outcome, version)
        lifetime_ms, event = self._complete(outcome, now_ms)
        return Step(_token_response(version, outcome.token, lifetime_ms), event)

    def _held(self, outcome: Accepted | Rejected, version: int, now_ms: int) -> Step | None:
        """The outcome again after a while, where there were many failures; it is told after that."""
        backoff = None if self._listener is None else self._listener.backoff
        if backoff is None or self._held_ms is not None:
            self._held_ms = None
            return None
        user = outcome.principal.name if isinstance(outcome, Accepted) else outcome.user
        delay_ms = backoff.delay_ms(self._host, user, now_ms)
        if isinstance(outcome, Accepted):
            backoff.succeeded(self._host, outcome.principal.name)
        elif outcome.has_response:  # What is not told is a fault of the network, and no guess.
            backoff.failed(self._host, user, now_ms)
        if not delay_ms:
            return None
        self._held_ms, self._verifying_version = delay_ms, version
        return Step(None, check=Deferred(lambda: outcome, delay_ms=delay_ms))

    def refuse(self, api_name: str) -> AuditEvent:
        """Another request where only the exchange may go on: the connection is to be closed."""
        self.phase = Phase.FAILED
        return self._failure_event(
            ErrorCode.ILLEGAL_SASL_STATE, f"{api_name} request while authentication was under way"
        )

    def _out_of_place_handshake(self) -> Step:
        close = self.phase is not Phase.COMPLETE
        response = types.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        return Step(response, self.refuse("SaslHandshake") if close else None, close)

    def _out_of_place_token(self) -> Step:
        if self.phase is not Phase.COMPLETE:
            return Step(None, self.refuse("SaslAuthenticate"), close=True)
        message = "SaslAuthenticate request received after successful authentication"
        response = types.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message
        )
        return Step(response)

    def _may_reauthenticate(self, now_ms: int) -> bool:
        # As in Kafka: only a session that ends, and counted from one re-authentication to the next.
        if self.expiry.expires_at_ms is None:
            return False
        began_ms = self._reauthentication_began_ms
        return began_ms is None or now_ms - began_ms >= MIN_REAUTHENTICATION_INTERVAL_MS

    def _begin(self, listener: SaslListener, version: int, mechanism: str, now_ms: int) -> Step:
        enabled = list(listener.mechanisms)
        if mechanism not in listener.mechanisms:
            self.phase = Phase.FAILED
            # The name is what the client sent: it is told in the record, cut to a sane length.
            event = self._failure_event(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"unsupported SASL mechanism {mechanism[:64]!r}"
            )
            response = types.SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            # Kafka has no words for it in a re-authentication.
            return Step(response if self._previous is None else None, event, close=True)
        if self.phase is Phase.COMPLETE:
            self._previous = self.principal
            self._reauthentication_began_ms = now_ms
            if mechanism != self.mechanism:
                # Refused at whatever comes next, and without an answer, as Kafka does it.
                self._bad_mechanism, version = mechanism, 0
        self.mechanism = self.mechanism or mechanism
        self._began_ms = now_ms
        self._client_version = _BARE
        self._exchange = listener.new_exchange(mechanism)
        self.phase = Phase.AUTHENTICATE if version >= 1 else Phase.BARE_TOKENS
        return Step(types.SaslHandshakeResponse(mechanisms=enabled))

    def _respond(self, token: bytes, now_ms: int) -> Outcome:
        if self._bad_mechanism is not None:
            return Rejected("", f"mechanism changed from {self.mechanism} to {self._bad_mechanism}")
        assert self._exchange is not None
        try:
            return self._exchange.respond(token, now_ms)
        except Exception as error:  # noqa: BLE001 - a foreign mechanism may raise anything
            return Deferred(partial(_raise, error))  # Told and rejected where those of the work are.

    def _admitted(self, accepted: Accepted) -> Accepted | Rejected:
        """The same under the principal that it goes by here, which must not change."""
        if accepted.still_valid is not None and not accepted.still_valid():
            # Nobody asks again until credentials change the next time.
            return Rejected("", "the credential was taken back while it was checked")
        if self._principal_of is not None and self.mechanism is not None:
            try:
                named = self._principal_of(self.mechanism, accepted.principal)
            except Exception as error:  # noqa: BLE001 - whatever a builder raises: nobody
                return Rejected("", f"principal builder: {error or repr(error)}")
            # Whatever a builder makes of the name: a token stays a token, as in Kafka.
            by_token = accepted.principal.token_authenticated or named.token_authenticated
            accepted = replace(accepted, principal=replace(named, token_authenticated=by_token))
        if self._previous not in (None, accepted.principal):
            return Rejected(
                f"Cannot change principals during re-authentication from {_dotted(self._previous)}:"
                f" {_dotted(accepted.principal)}",
                "principal changed",
            )
        return accepted

    def _complete(self, accepted: Accepted, now_ms: int) -> tuple[int, AuditEvent]:
        assert self._listener is not None
        assert self.mechanism is not None
        again = self._previous is not None
        self.principal = accepted.principal
        self._previous = accepted.principal
        self.in_force = accepted.still_valid
        self.phase = Phase.COMPLETE
        self._exchange = None
        limit_ms = self._listener.max_reauth_ms(self.mechanism)
        lifetime_ms = session_lifetime_ms(limit_ms, accepted.expires_at_ms, now_ms)
        # A client of version 0 is told nothing, and cut all the same (R4).
        self.expiry = SessionExpiry.after(limit_ms, accepted.expires_at_ms, now_ms)
        event = self._event("reauthentication" if again else "authentication")
        event.session_lifetime_ms = lifetime_ms
        # Any request of a newer version shows that the client can re-authenticate.
        event.api_version = max(self._client_version, 0)
        event.error_code = ErrorCode.NONE
        event.interval_start_ms, event.interval_end_ms = self._began_ms, now_ms
        return lifetime_ms, event

    def _challenged(self, challenge: Challenge, version: int) -> Step:
        event = None
        if challenge.failure:
            self._failure_recorded = True
            event = self._failure_event(ErrorCode.SASL_AUTHENTICATION_FAILED, challenge.failure)
        return Step(_token_response(version, challenge.token), event)

    def _failed(self, rejected: Rejected, version: int) -> Step:
        event = (
            None
            if self._failure_recorded
            else self._failure_event(ErrorCode.SASL_AUTHENTICATION_FAILED, rejected.reason)
        )
        self.phase = Phase.FAILED
        if not rejected.has_response:
            return Step(None, event, close=True)
        during = "authentication" if self._previous is None else "re-authentication"
        message = rejected.message or (
            f"Authentication failed during {during} due to invalid credentials with SASL mechanism"
            f" {self.mechanism}"
        )
        if version == _BARE:
            return Step(b"", event, close=True)
        response = types.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
        )
        return Step(response, event, close=True)

    def _failure_event(self, error_code: ErrorCode, reason: str) -> AuditEvent:
        again = self._previous is not None
        event = self._event("reauthentication_failed" if again else "authentication_failed")
        event.error_code = error_code
        event.message = reason
        return event

    def _event(self, name: str) -> AuditEvent:
        principal = str(self.principal) if self._previous is not None else None
        return AuditEvent(
            event=name,
            method=ApiKey.name_of(ApiKey.SASL_AUTHENTICATE),
            mechanism=self.mechanism,
            principal=principal,
        )


def _token_response(version: int, token: bytes, lifetime_ms: int = 0) -> Any:
    if version == _BARE:
        return token
    return types.SaslAuthenticateResponse(
        auth_bytes=token, session_lifetime_ms=lifetime_ms if version >= 1 else 0
    )


def _dotted(principal: Principal | None) -> str:
    """As Kafka's message has it."""
    return "" if principal is None else f"{principal.principal_type}.{principal.name}"


def _raise(error: Exception) -> NoReturn:
    raise error
