"""Codecs: the round trip of every message, and what they say of bytes and messages that do not fit."""

import pytest

from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.errors import WireError


@pytest.mark.parametrize("name", catalog.names())
def test_a_message_of_defaults_survives_every_version(name: str) -> None:
    schema = catalog.by_name(name)
    message = getattr(t, name)()

    for version in schema.versions.range:
        codec = codecs.data(name, version)

        assert codec.decode_exactly(codec.encode(message)) == message


def test_all_live_apis_have_codecs() -> None:
    assert codecs.live_api_keys() == tuple(sorted(ApiKey))


def test_a_13_byte_request_that_claims_two_billion_topics_is_refused() -> None:
    codec = codecs.request(ApiKey.METADATA, 12)

    with pytest.raises(
        WireError, match=r"MetadataRequest v12: topics: 2147483645 elements of at least 18 bytes"
    ):
        codec.decode(b"\xfe\xff\xff\xff\x07" + bytes(8))
