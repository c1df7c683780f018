"""ApiVersions (KIP-35, KIP-511, KIP-590): the versions that proxy, broker and controller all support.

The proxy responds to it itself, also before authentication. To an unknown version it responds in version 0
with UNSUPPORTED_VERSION and the versions of ApiVersions only, so that any client can continue from there.
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
    """Return the error code and the whole response with its length prefix. WireError: a malformed body."""
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
    """Return the encoded body, again only if the gate's versions or features have changed: they seldom do."""
    made_from = (
        gate.versions,
        gate.supported_features,
        gate.finalized_features,
        gate.finalized_features_epoch,
    )
    encoded = gate.api_versions_bodies.get(version)
    # The gate's values are replaced as a whole, so that comparing identities is enough.
    if encoded is not None and all(was is now for was, now in zip(encoded[0], made_from, strict=True)):
        return encoded[1]
    body = codecs.response(ApiKey.API_VERSIONS, version).encode(_supported(gate, version))
    gate.api_versions_bodies[version] = made_from, body
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
