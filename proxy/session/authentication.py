"""The server side of SASL on one connection (KIP-43, KIP-152, KIP-368).

proxy.session and the controller's listener pass decoded requests, or bare tokens after a handshake v0, and
get the response, the audit event, and whether the connection has to be closed. proxy.security.sasl handles
the tokens of each mechanism; this module knows only when a token may come.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, NoReturn

from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.security.backoff import LoginBackoff
from proxy.security.principal import ANONYMOUS, Principal, by_token, from_plugin
from proxy.security.sasl.exchange import (
    Accepted,
    Challenge,
    Deferred,
    Exchange,
    Outcome,
    Rejected,
    Settled,
    outcome_fault,
    session_end_ms,
    session_lifetime_ms,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode

MIN_REAUTHENTICATION_INTERVAL_MS = 1_000
"""KIP-368: a client that re-authenticates in a loop must not use up the CPU."""
BY_CERTIFICATE = "SSL"
"""In place of a SASL mechanism."""
_BARE = -1
"""In place of a version of SaslAuthenticate: a bare token after a SaslHandshake v0."""


class Phase(Enum):
    """The state of authentication on a connection."""

    VERSIONS = "versions"  # Nothing yet: ApiVersions or SaslHandshake may come.
    HANDSHAKE = "handshake"  # After ApiVersions: SaslHandshake has to come.
    AUTHENTICATE = "authenticate"  # SaslAuthenticate requests carry the tokens.
    BARE_TOKENS = "bare tokens"  # After SaslHandshake v0: frames that are nothing but a token.
    COMPLETE = "complete"  # The client is authenticated; a SaslHandshake begins re-authentication.
    FAILED = "failed"  # The response is sent, and the connection is about to be closed.


@dataclass(frozen=True, slots=True)
class SaslListener:
    """The SASL settings of a listener."""

    name: str
    mechanisms: tuple[str, ...]
    """Enabled mechanisms, in the order in which clients get them."""
    max_reauth_ms: Callable[[str], int]
    """Returns connections.max.reauth.ms of a mechanism; 0: no limit (KIP-368)."""
    new_exchange: Callable[[str], Exchange]
    """Returns a new exchange of a mechanism, with the present credentials."""
    backoff: LoginBackoff | None = None
    """Delays responses to clients that may be guessing passwords; None: no delay."""


@dataclass(slots=True)
class Step:
    """The outcome of one message of the exchange."""

    response: Any
    """The response message, or bytes for a bare token; None: no response, or not before `check` is done."""
    event: AuditEvent | None = None
    close: bool = False
    check: Deferred | None = None
    """To be done outside the event loop; `Authentication.verified` gets its outcome and has the response."""


class Authentication:
    """Authenticates the client of one connection, and again at each re-authentication."""

    __slots__ = (
        "_bad_mechanism",
        "_began_ms",
        "_client_version",
        "_delay_ms",
        "_exchange",
        "_failure_recorded",
        "_host",
        "_listener",
        "_previous",
        "_principal_of",
        "_reauthentication_began_ms",
        "_verifying_version",
        "certificate_holds",
        "client_software",
        "expires_at_ms",
        "mechanism",
        "phase",
        "principal",
        "still_valid",
    )

    def __init__(
        self,
        listener: SaslListener | None,
        transport_principal: Principal = ANONYMOUS,
        principal_of: Callable[[str, Principal], Principal] | None = None,
        host: str = "",
    ) -> None:
        """`listener` None: no SASL; the principal is that of the transport.

        `principal_of`: mechanism, and the principal that it has verified -> the client's principal (KIP-189).
        `host`: the client's address.
        """
        self._host = host
        self._delay_ms: int | None = None
        self._listener = listener
        self._principal_of = principal_of
        self.principal = transport_principal
        self.phase = Phase.COMPLETE if listener is None else Phase.VERSIONS
        self.expires_at_ms: int | None = None
        """When the session ends (KIP-368); None: never."""
        self.mechanism: str | None = None
        self.client_software: str | None = None
        """Name and version, as the client has reported them (KIP-511)."""
        self._exchange: Exchange | None = None
        self._bad_mechanism: str | None = None
        self._previous: Principal | None = None
        self._client_version = _BARE
        self._began_ms: int | None = None
        self._reauthentication_began_ms: int | None = None
        self._failure_recorded = False
        self._verifying_version: int | None = None  # Of the token whose check is under way; bare: -1.
        self.still_valid: Callable[[], bool] | None = None
        """Whether the credential in use is still valid; None: it cannot be revoked."""
        self.certificate_holds: Callable[[], bool] | None = None
        """Whether the client's certificate is in no revocation list; None: it has none."""

    def by_certificate(self, expires_at_ms: int | None, now_ms: int) -> AuditEvent:
        """The client's certificate has proven the transport's principal. Return the record of this login.

        `expires_at_ms`: the end of the session (R11); None: it has none.
        """
        self.mechanism = BY_CERTIFICATE
        self.expires_at_ms = expires_at_ms
        return events.authentication(
            principal=str(self.principal),
            groups=self.principal.groups or None,
            mechanism=self.mechanism,
            error_code=ErrorCode.NONE,
            session_lifetime_ms=0 if expires_at_ms is None else max(expires_at_ms - now_ms, 0),
            interval_start_ms=now_ms,
            interval_end_ms=now_ms,
        )

    def follow(self, listener: SaslListener) -> None:
        """Apply the listener's changed settings from the next login on."""
        if self._listener is not None:  # A connection without SASL stays without.
            self._listener = listener

    @property
    def known(self) -> bool:
        """Whether the client is authenticated; also true while it re-authenticates."""
        return self.phase is Phase.COMPLETE or self._previous is not None

    @property
    def under_way(self) -> bool:
        """Whether only messages of the exchange may come now."""
        return self.phase is not Phase.COMPLETE

    @property
    def revocation(self) -> str | None:
        """Why the credential of the last login is not valid any more; None: it is."""
        if self.certificate_holds is not None and not self.certificate_holds():
            return "the client's certificate was revoked"
        return _revocation(self.still_valid)

    def is_expired(self, now_ms: int) -> bool:
        """Whether a request at this time is past the end of the session."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    def set_back(self, by_ms: int) -> None:
        """Move the end of the session with the clock, which was set back by so much."""
        if self.expires_at_ms is not None:
            self.expires_at_ms -= by_ms

    def rejects(self, api_key: int, now_ms: int) -> bool:
        """Whether the session has expired and this request does not renew it; ApiVersions does not (KIP-368).

        An idle connection stays open: only its next request shows that the client has not re-authenticated.
        """
        if self.phase is not Phase.COMPLETE or not self.is_expired(now_ms):
            return False
        return api_key != ApiKey.SASL_HANDSHAKE or not self._may_reauthenticate(now_ms)

    def handshake(self, version: int, request: Any, now_ms: int) -> Step:
        """Handle SaslHandshake: begin authentication, or re-authentication if one is complete."""
        listener = self._listener
        if listener is None or self.phase not in (Phase.VERSIONS, Phase.HANDSHAKE, Phase.COMPLETE):
            close = self.phase is not Phase.COMPLETE
            response = types.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            return Step(response, self.fail("SaslHandshake") if close else None, close)
        if self.phase is Phase.COMPLETE and not self._may_reauthenticate(now_ms):
            return Step(types.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return self._begin(listener, version, request.mechanism, now_ms)

    def authenticate(self, version: int, request: Any, now_ms: int) -> Step:
        """Handle SaslAuthenticate: one token of the exchange."""
        if self.phase is not Phase.AUTHENTICATE:
            return self._out_of_place_token()
        self._client_version = max(self._client_version, version)
        return self._step(self._respond(bytes(request.auth_bytes), now_ms), version, now_ms)

    def bare_token(self, token: bytes, now_ms: int) -> Step:
        """Handle a frame after SaslHandshake v0. A failure has no response: the connection is closed."""
        return self._step(self._respond(token, now_ms), _BARE, now_ms)

    def verified(self, outcome: Settled, now_ms: int) -> Step:
        """Handle the outcome of a step's `check`."""
        assert self._verifying_version is not None
        version, self._verifying_version = self._verifying_version, None
        return self._step(outcome, version, now_ms)

    def _step(self, outcome: Outcome, version: int, now_ms: int) -> Step:
        fault = outcome_fault(outcome)
        if fault is not None:
            outcome = Rejected("", f"mechanism {self.mechanism}: {fault}")
        if isinstance(outcome, Deferred):
            self._verifying_version = version
            return Step(None, check=outcome)
        if isinstance(outcome, Challenge):
            event = None
            if outcome.failure:
                self._failure_recorded = True
                event = self._failure_event(ErrorCode.SASL_AUTHENTICATION_FAILED, outcome.failure)
            return Step(_token_response(version, outcome.token), event)
        delay_ms, delayed = self._delay_ms, self._delayed(outcome, version, now_ms)
        if delayed is not None:
            return delayed
        if isinstance(outcome, Accepted):
            outcome = self._admitted(outcome)
        if isinstance(outcome, Rejected):
            step = self._failed(outcome, version)
        else:
            lifetime_ms, event = self._complete(outcome, now_ms)
            step = Step(_token_response(version, outcome.token, lifetime_ms), event)
        if step.event is not None:
            step.event.throttle_time_ms = delay_ms
        return step

    def _delayed(self, outcome: Accepted | Rejected, version: int, now_ms: int) -> Step | None:
        """Delay the outcome, and its response, if there were many failures; None: no delay, or it is over."""
        backoff = None if self._listener is None else self._listener.backoff
        if backoff is None or self._delay_ms is not None:
            self._delay_ms = None
            return None
        user = outcome.principal.name if isinstance(outcome, Accepted) else outcome.user
        delay_ms = backoff.delay_ms(self._host, user, now_ms)
        if isinstance(outcome, Accepted):
            backoff.succeeded(self._host, outcome.principal.name)
        elif outcome.has_response:  # Without a response it is a fault of the network, and no guess.
            backoff.failed(self._host, user, now_ms)
        if not delay_ms:
            return None
        self._delay_ms, self._verifying_version = delay_ms, version
        return Step(None, check=Deferred(lambda: outcome, delay_ms=delay_ms))

    def fail(self, api_name: str) -> AuditEvent:
        """Fail because of another request during the exchange; the caller closes the connection."""
        self.phase = Phase.FAILED
        return self._failure_event(
            ErrorCode.ILLEGAL_SASL_STATE, f"{api_name} request while authentication was under way"
        )

    def _out_of_place_token(self) -> Step:
        if self.phase is not Phase.COMPLETE:
            return Step(None, self.fail("SaslAuthenticate"), close=True)
        message = "SaslAuthenticate request received after successful authentication"
        response = types.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message
        )
        return Step(response)

    def _may_reauthenticate(self, now_ms: int) -> bool:
        # As in Kafka: only a session that ends, and counted from one re-authentication to the next. One by
        # certificate ends, and cannot be renewed.
        if self._listener is None or self.expires_at_ms is None:
            return False
        began_ms = self._reauthentication_began_ms
        # The clock may have been set back.
        return began_ms is None or not 0 <= now_ms - began_ms < MIN_REAUTHENTICATION_INTERVAL_MS

    def _begin(self, listener: SaslListener, version: int, mechanism: str, now_ms: int) -> Step:
        enabled = list(listener.mechanisms)
        if mechanism not in listener.mechanisms:
            self.phase = Phase.FAILED
            # The client chose the name, so the record has its beginning only.
            event = self._failure_event(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"unsupported SASL mechanism {mechanism[:64]!r}"
            )
            response = types.SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            # Kafka sends no response in a re-authentication.
            return Step(response if self._previous is None else None, event, close=True)
        if self.phase is Phase.COMPLETE:
            self._previous = self.principal
            self._reauthentication_began_ms = now_ms
            if mechanism != self.mechanism:
                # The next frame is rejected without a response, as in Kafka.
                self._bad_mechanism, version = mechanism, 0
        self.mechanism = self.mechanism or mechanism
        self._began_ms = now_ms
        self._client_version = _BARE
        self.phase = Phase.AUTHENTICATE if version >= 1 else Phase.BARE_TOKENS
        return Step(types.SaslHandshakeResponse(mechanisms=enabled))

    def _respond(self, token: bytes, now_ms: int) -> Outcome:
        if self._bad_mechanism is not None:
            return Rejected("", f"mechanism changed from {self.mechanism} to {self._bad_mechanism}")
        listener, mechanism = self._listener, self.mechanism
        assert listener is not None
        assert mechanism is not None
        if mechanism not in listener.mechanisms:
            return _not_enabled(mechanism)
        try:
            if self._exchange is None:
                # Not before the first token: a client may wait with it until settings have changed.
                self._exchange = listener.new_exchange(mechanism)
            return self._exchange.respond(token, now_ms)
        except Exception as error:  # noqa: BLE001 - a foreign mechanism may raise anything
            return Deferred(partial(_raise, error))  # Reported and rejected where errors of the work are.

    def _admitted(self, accepted: Accepted) -> Accepted | Rejected:
        """Return the outcome with the client's principal, which must not change in a re-authentication."""
        revocation = _revocation(accepted.still_valid)
        if revocation is not None:
            # The next check comes only when credentials change again.
            return Rejected("", f"while it was checked, {revocation}")
        assert self._listener is not None
        assert self.mechanism is not None
        if self.mechanism not in self._listener.mechanisms:
            return _not_enabled(self.mechanism)
        if self._principal_of is not None:
            try:
                named = from_plugin(partial(self._principal_of, self.mechanism, accepted.principal))
                if accepted.principal.token_authenticated:
                    # A builder cannot change that the client has logged in with a token, as in Kafka.
                    named = from_plugin(partial(by_token, named))
            except ValueError as error:
                return Rejected("", f"principal builder: {error}")
            accepted = replace(accepted, principal=named)
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
        self.still_valid = accepted.still_valid
        self.phase = Phase.COMPLETE
        self._exchange = None
        limit_ms = self._listener.max_reauth_ms(self.mechanism)
        lifetime_ms = session_lifetime_ms(limit_ms, accepted.expires_at_ms, now_ms)
        # A client of version 0 gets no lifetime, and is disconnected all the same (R4).
        self.expires_at_ms = session_end_ms(limit_ms, accepted.expires_at_ms, now_ms)
        event = self._event("reauthentication" if again else "authentication")
        event.groups = self.principal.groups or None
        event.session_lifetime_ms = lifetime_ms
        # A request of version 1 or later shows that the client can re-authenticate.
        event.api_version = max(self._client_version, 0)
        event.error_code = ErrorCode.NONE
        event.interval_start_ms, event.interval_end_ms = self._began_ms, now_ms
        return lifetime_ms, event

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
        event.message = f"{reason} (client: {self.client_software})" if self.client_software else reason
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
    """Return the principal as in Kafka's message."""
    return "" if principal is None else f"{principal.principal_type}.{principal.name}"


def _revocation(still_valid: Callable[[], bool] | None) -> str | None:
    if still_valid is None:
        return None
    try:
        return None if still_valid() else "the credential it logged in with was changed or removed"
    except Exception as error:  # noqa: BLE001 - of a foreign mechanism
        return f"the mechanism could not say whether the credential is valid: {error!r}"


def _not_enabled(mechanism: str) -> Rejected:
    return Rejected("", f"mechanism {mechanism} was disabled while the client logged in")


def _raise(error: Exception) -> NoReturn:
    raise error
