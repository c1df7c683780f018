"""Where the throttle time stands in the answers that pass: of every API, in every version."""

from typing import Any

import pytest

from proxy.session import throttling
from proxy.session.apis.table import TABLE
from proxy.session.in_flight import InFlight, Timed
from proxy.wire import catalog, codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey
from proxy.wire.header import encode_response


@pytest.mark.spec("Q7", "Q12")
@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        (key, version)
        for key in TABLE
        for version in codecs.request_versions(key)
        if throttling.throttle_offset(key, version) is not None
    ],
)
def test_the_throttle_time_is_put_where_the_answer_has_it(api_key: int, version: int) -> None:
    codec = codecs.response(api_key, version)
    empty = codec.decode(codec.encode(type_of(api_key)()))[0]
    frame = memoryview(bytearray(encode_response(api_key, version, 1, codec.encode(empty))))

    throttling.write_throttle_time(frame, 0, entry_of(api_key, version), 321)
    throttling.write_throttle_time(frame, 0, entry_of(api_key, version), 12)

    told, _ = codec.decode(frame, 4 + len(frame) - 4 - len(codec.encode(empty)))
    assert told.throttle_time_ms == 321
    told.throttle_time_ms = empty.throttle_time_ms
    assert codec.encode(told) == codec.encode(empty)


def type_of(api_key: int) -> Any:
    return getattr(t, f"{ApiKey.name_of(api_key)}Response")


def entry_of(api_key: int, version: int) -> InFlight:
    return Timed(api_key, version, 1)


@pytest.mark.spec("Q12")
def test_only_answers_without_a_place_of_its_own_for_it_do_not_tell_it() -> None:
    untold = {
        (ApiKey.name_of(key), version)
        for key in TABLE
        for version in codecs.request_versions(key)
        if throttling.throttle_offset(key, version) is None
        and "throttle_time_ms" in {f.attribute for f in catalog.response(key).root.present(version)}
    }
    # Of these we have the decoded answer in hand.
    assert {name for name, _ in untold} == {
        "CreateDelegationToken",
        "DescribeDelegationToken",
    }
