"""Envelopes that are at fault themselves, each in its own way: what the two controllers say of them.

Each is put to both sides in a connection of its own (`told`); the inner request, where one is read, is an
AlterClientQuotas of nothing.
"""

from collections.abc import Mapping
from typing import Any

from proxy.security.principal import Principal, serialize
from proxy.wire import codecs, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_request
from tests.lab.side_by_side.dialogue import Dialogue, Heard
from tests.lab.side_by_side.sides import Side

ADMIN = serialize(Principal("User", "admin"))
NOTHING = codecs.request(ApiKey.ALTER_CLIENT_QUOTAS, 1).encode(types.AlterClientQuotasRequest())
_LENGTH_BYTES = 4


def _inner(api_key: int, version: int, body: bytes = NOTHING) -> bytes:
    return encode_request(api_key, version, 7, "differential", body)[_LENGTH_BYTES:]


_GOOD: Mapping[str, Any] = {
    "request_data": _inner(ApiKey.ALTER_CLIENT_QUOTAS, 1),
    "request_principal": ADMIN,
    "client_host_address": bytes([127, 0, 0, 1]),
}

FAULTS: dict[str, Mapping[str, Any]] = {
    "none": {},
    "an address of IPv6": {"client_host_address": bytes(15) + b"\x01"},
    "an address of no length": {"client_host_address": b""},
    "an address of five bytes": {"client_host_address": bytes(5)},
    "no principal": {"request_principal": None},
    "an empty principal": {"request_principal": b""},
    "a principal of another version": {"request_principal": b"\x00\x07" + ADMIN[2:]},
    "a principal that is cut off": {"request_principal": ADMIN[:-3]},
    "a principal of another type": {"request_principal": serialize(Principal("Group", "staff"))},
    "a principal by a token": {
        "request_principal": serialize(Principal("User", "admin", token_authenticated=True))
    },
    "nothing inside": {"request_data": b""},
    "half a header inside": {"request_data": _inner(ApiKey.ALTER_CLIENT_QUOTAS, 1)[:3]},
    "half a request inside": {"request_data": _inner(ApiKey.ALTER_CLIENT_QUOTAS, 1)[:-2]},
    "bytes behind the request": {"request_data": _inner(ApiKey.ALTER_CLIENT_QUOTAS, 1) + b"more"},
    "an API that nobody has": {"request_data": _inner(999, 0)},
    "a version that nobody has": {"request_data": _inner(ApiKey.ALTER_CLIENT_QUOTAS, 99)},
    "a version of the past": {"request_data": _inner(ApiKey.CREATE_ACLS, 0)},
    "an API that is not forwarded": {"request_data": _inner(ApiKey.METADATA, 12, b"\x00\x00\x00\x00\x00")},
    "an Envelope inside": {
        "request_data": _inner(
            ApiKey.ENVELOPE, 0, codecs.request(ApiKey.ENVELOPE, 0).encode(types.EnvelopeRequest(**_GOOD))
        )
    },
}
"""What is changed of a good Envelope."""


def told(side: Side, fault: str) -> Any:
    """The Envelope's error and whether there is an answer inside; how the connection ended if it did."""
    assert side.controller is not None
    dialogue = Dialogue(side.controller.address)
    if side.controller.user is not None:
        dialogue.log_in(side.controller.user, side.controller.password)
    outcome = dialogue.ask(ApiKey.ENVELOPE, 0, types.EnvelopeRequest(**{**_GOOD, **FAULTS[fault]}))
    dialogue.close()
    if not isinstance(outcome, Heard):
        return outcome
    data = outcome.message.response_data
    return outcome.message.error_code, None if data is None else bytes(data)
