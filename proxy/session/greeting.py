"""What a session answers by itself: ApiVersions, SASL, and everything that comes when it must not.

Part of proxy.session.session; the state of the exchange is in proxy.session.authentication. Until a client is
known, these are all that may come; past the end of its session only SASL is (KIP-368).
"""

from struct import Struct
from typing import TYPE_CHECKING, Any

from proxy.audit.classes import AUTHENTICATION
from proxy.audit.record import AuditEvent
from proxy.security.sasl.exchange import Settled
from proxy.session import api_versions, not_ready
from proxy.session.authentication import Phase, Step
from proxy.session.effects import Close, Effect, Recorded, Verify
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import RequestHeader, encode_response

if TYPE_CHECKING:
    from proxy.session.session import Session

_INT32 = Struct(">i")
_SASL_API_KEYS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def takes_bare_tokens(session: "Session") -> bool:
    """After a handshake v0 frames are nothing but a token."""
    return session.authentication.phase is Phase.BARE_TOKENS


def bare_token(session: "Session", frame: memoryview, now_ms: int, effects: list[Effect]) -> None:
    """A frame that is a token, its length prefix included."""
    if AUTHENTICATION in session.gate.unrecorded:
        session.close(Close("audit_unavailable"), effects)
        return
    _carry_out(session, None, session.authentication.bare_token(bytes(frame[4:]), now_ms), now_ms, effects)


def took(
    session: "Session", header: RequestHeader, frame: memoryview, now_ms: int, effects: list[Effect]
) -> bool:
    """Whether the frame was our own, or must not have come: then all is done. WireError if malformed."""
    authentication = session.authentication
    api_key = header.api_key
    if authentication.refuses(api_key, now_ms):
        _expired(session, header, effects)
        return True
    if api_key == ApiKey.API_VERSIONS and authentication.phase in (Phase.VERSIONS, Phase.COMPLETE):
        error_code, answer = api_versions.answer(
            session.gate, header.api_version, header.correlation_id, frame, header.body_offset
        )
        if error_code == ErrorCode.NONE and authentication.phase is Phase.VERSIONS:
            authentication.phase = Phase.HANDSHAKE
        session.listener.counts.error(ApiKey.API_VERSIONS, error_code)
        session.answer(answer, effects, ApiKey.API_VERSIONS, now_ms)
        return True
    if api_key in _SASL_API_KEYS and header.api_version in codecs.request_versions(api_key):
        _sasl(session, header, frame, now_ms, effects)
        return True
    if authentication.under_way:
        _out_of_place(session, header, frame, effects)
        return True
    return False


def _out_of_place(
    session: "Session", header: RequestHeader, frame: memoryview, effects: list[Effect]
) -> None:
    """Something else than SASL. Where a token is due Kafka tells its error, before it does not."""
    answer = b""
    if session.authentication.phase is Phase.AUTHENTICATE:
        answer = _told_error(header, frame)
        session.listener.counts.error(header.api_key, ErrorCode.ILLEGAL_SASL_STATE)
    event = session.authentication.refuse(ApiKey.name_of(header.api_key))
    event.client_id = header.client_id
    effects.append(Recorded(session.complete(event)))
    delay_ms = session.listener.failed_authentication_delay_ms
    close = Close("illegal_sasl_state", event.message or "", delay_ms=delay_ms, last_words=answer)
    session.close(close, effects)


def _told_error(header: RequestHeader, frame: memoryview) -> bytes:
    """The answer in which all of it failed; b"" where there is none. WireError for a malformed request."""
    api_key, version = header.api_key, header.api_version
    if version not in codecs.request_versions(api_key):
        return b""
    request, _ = codecs.request(api_key, version).decode(frame, header.body_offset)
    message = f"Unexpected Kafka request of type {ApiKey(api_key).name} during SASL authentication."
    try:
        response = (
            types.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            if api_key == ApiKey.API_VERSIONS
            else not_ready.refused(api_key, version, request, ErrorCode.ILLEGAL_SASL_STATE, message).message
        )
    except KeyError:
        return b""
    if response is None:
        return b""  # A producer that does not listen for answers.
    body = codecs.response(api_key, version).encode(response)
    return encode_response(api_key, version, header.correlation_id, body)


def _sasl(
    session: "Session", header: RequestHeader, frame: memoryview, now_ms: int, effects: list[Effect]
) -> None:
    api_key, version = header.api_key, header.api_version
    request, _ = codecs.request(api_key, version).decode(frame, header.body_offset)
    authentication = session.authentication
    if AUTHENTICATION in session.gate.unrecorded and api_key == ApiKey.SASL_AUTHENTICATE:
        _unrecorded(session, header, effects)
        return
    handle = authentication.handshake if api_key == ApiKey.SASL_HANDSHAKE else authentication.authenticate
    _carry_out(session, header, handle(version, request, now_ms), now_ms, effects)


def _unrecorded(session: "Session", header: RequestHeader, effects: list[Effect]) -> None:
    """audit.policy.authentication: there is no room for the record of this login, so there is no login."""
    response = types.SaslAuthenticateResponse(
        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=not_ready.UNRECORDED
    )
    session.listener.counts.error(header.api_key, response.error_code)
    answer = _answer(header, Step(response))
    delay_ms = session.listener.failed_authentication_delay_ms
    session.close(Close("audit_unavailable", delay_ms=delay_ms, last_words=answer), effects)


def verified(session: "Session", outcome: Settled, now_ms: int, effects: list[Effect]) -> None:
    """What came of a `Verify`: the answer that the client waits for."""
    assert session.verifying is not None
    (header, since_ms), session.verifying = session.verifying, None
    step = session.authentication.verified(outcome, now_ms)
    _carry_out(session, header, step, now_ms, effects, since_ms)


def _carry_out(
    session: "Session",
    header: RequestHeader | None,
    step: Step,
    now_ms: int,
    effects: list[Effect],
    since_ms: int | None = None,
) -> None:
    """`header`: of the request that the step answers, None for a bare token.

    It was taken at `since_ms`, None: now.
    """
    if step.check is not None:
        session.verifying = header, now_ms
        effects.append(Verify(step.check, session.authentication.mechanism or ""))
        return
    answer, client_id = _answer(header, step), None if header is None else header.client_id
    api_key = ApiKey.SASL_AUTHENTICATE if header is None else header.api_key
    session.listener.counts.error(api_key, getattr(step.response, "error_code", ErrorCode.NONE))
    if step.close:
        if step.event is not None:
            step.event.client_id = client_id
            effects.append(Recorded(session.complete(step.event)))
        # A client that guesses has to wait for each answer, and its connection is gone then (KIP-306).
        delay_ms = session.listener.failed_authentication_delay_ms
        session.close(Close("authentication_failed", delay_ms=delay_ms, last_words=answer), effects)
        return
    if step.event is not None and step.event.error_code:
        step.event.client_id = client_id
        effects.append(Recorded(session.complete(step.event)))
    elif step.event is not None:
        _authenticated(session, step.event, client_id, now_ms, effects)
    session.answer(answer, effects, api_key, now_ms if since_ms is None else since_ms)


def _answer(header: RequestHeader | None, step: Step) -> bytes:
    if step.response is None:
        return b""
    if header is None:
        return b"" if step.close else _INT32.pack(len(step.response)) + step.response
    body = codecs.response(header.api_key, header.api_version).encode(step.response)
    return encode_response(header.api_key, header.api_version, header.correlation_id, body)


def _authenticated(
    session: "Session", event: AuditEvent, client_id: str | None, now_ms: int, effects: list[Effect]
) -> None:
    principal: Any = session.authentication.principal
    before = session.client.context.principal
    # The same user is not in the same position with a token as with a password (KIP-48).
    if before != principal or before.token_authenticated != principal.token_authenticated:
        effects += session.renew_client(None, None, now_ms)
        session.fetch_sessions.clear()
    else:
        # What was counted in one session must not look as if it had been served in the next.
        effects += session.summaries(now_ms)
    event.client_id = client_id
    event.principal = str(principal)
    effects.append(Recorded(session.complete(event)))


def _expired(session: "Session", header: RequestHeader, effects: list[Effect]) -> None:
    event = AuditEvent(
        event="session_expired",
        method=ApiKey.name_of(header.api_key),
        api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        mechanism=session.authentication.mechanism,
        error_code=ErrorCode.NONE,
        message="used past the end of its session without re-authentication",
    )
    effects.append(Recorded(session.complete(event)))
    session.close(Close("session_expired"), effects)
