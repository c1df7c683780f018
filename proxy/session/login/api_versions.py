"""ApiVersions (KIP-35, KIP-511, KIP-590): what the proxy, the broker and the controller can all do.

Answered by the proxy itself, before authentication too. A version we do not know is answered in version 0
with UNSUPPORTED_VERSION and the versions of ApiVersions alone, so that any client can go on from there.
"""

import re
from typing import Any

from proxy.session.gate import Gate
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import encode_response

_FIRST_WITH_SOFTWARE = 3
_FIRST_WITH_FEATURES_FROM_ZERO = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

OWN_VERSIONS = codecs.request_versions(ApiKey.API_VERSIONS)


def response(
    gate: Gate, version: int, correlation_id: int, frame: memoryview, body_offset: int
) -> tuple[ErrorCode, bytes]:
    """Its error, and the whole answer, length prefix included. WireError for a body that is malformed."""
    if version not in OWN_VERSIONS:
        return ErrorCode.UNSUPPORTED_VERSION, _encoded(0, correlation_id, _unsupported())
    if version >= _FIRST_WITH_SOFTWARE:
        request, _ = codecs.request(ApiKey.API_VERSIONS, version).decode(frame, body_offset)
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(name) for name in names):
            invalid = types.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
            return ErrorCode.INVALID_REQUEST, _encoded(version, correlation_id, invalid)
    body = _supported_body(gate, version)
    return ErrorCode.NONE, encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)


def _unsupported() -> Any:
    response = types.ApiVersionsResponse
    own = response.ApiVersion(
        api_key=ApiKey.API_VERSIONS, min_version=OWN_VERSIONS.start, max_version=OWN_VERSIONS.stop - 1
    )
    return response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])


def _supported_body(gate: Gate, version: int) -> bytes:
    """Made anew when the gate has other versions or features: every client asks, and they seldom change."""
    made_of = (
        gate.versions,
        gate.supported_features,
        gate.finalized_features,
        gate.finalized_features_epoch,
    )
    told = gate.api_versions_told.get(version)
    # What the gate holds is swapped whole, so that comparing identities is enough.
    if told is not None and all(was is now for was, now in zip(told[0], made_of, strict=True)):
        return told[1]
    body = codecs.response(ApiKey.API_VERSIONS, version).encode(_supported(gate, version))
    gate.api_versions_told[version] = made_of, body
    return body


def _supported(gate: Gate, version: int) -> Any:
    response = types.ApiVersionsResponse
    first = 0 if version >= _FIRST_WITH_FEATURES_FROM_ZERO else 1
    return response(
        api_keys=[
            response.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(gate.versions.items())
        ],
        supported_features=[
            response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in gate.supported_features.items()
            if low >= first
        ],
        finalized_features_epoch=gate.finalized_features_epoch,
        finalized_features=[
            response.FinalizedFeatureKey(name=name, min_version_level=low, max_version_level=high)
            for name, (low, high) in gate.finalized_features.items()
        ],
    )


def _encoded(version: int, correlation_id: int, message: Any) -> bytes:
    body = codecs.response(ApiKey.API_VERSIONS, version).encode(message)
    return encode_response(ApiKey.API_VERSIONS, version, correlation_id, body)
