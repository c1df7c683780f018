"""A real broker's own bytes, captured as it forwarded to its controller, are served by ours as by Kafka's.

The captured conversation (tests/contract/capture_envelopes.py says how it was made) is sent again as it is,
over a socket, to our controller before a broker; its answers are those of Kafka's controller, field by field.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forwarding.controller.api import TokenSettings
from forwarding.net.log import MetadataLog, WrittenRecord
from proxy.net.runtime.clock import now_ms
from proxy.security.delegation_tokens import TokenSecret
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs, metadata_records, types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header, decode_response_header
from tests.lab.cluster.broker import Broker
from tests.lab.differential.comparing import differences, plain
from tests.lab.differential.naming import Names
from tests.lab.side_by_side.dialogue import Heard
from tests.support.controllers import controller_settings, made_controller, plaintext, running

pytestmark = pytest.mark.kafka

CAPTURED = json.loads(
    (Path(__file__).parents[1] / "contract" / "corpus" / "envelopes.json").read_text(encoding="utf-8")
)
SUPER_USERS = "User:ANONYMOUS"
YEAR_MS = 365 * 24 * 3_600_000


class Inner(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    envelope_error: int
    answer: Any


def exchanges() -> list[tuple[bytes, bytes]]:
    return [
        (base64.b64decode(each["asked"]), base64.b64decode(each["told"])) for each in CAPTURED["exchanges"]
    ]


def inner(asked: bytes, told: bytes) -> Inner:
    """The request inside of an exchange, and its answer read as Kafka would."""
    header = decode_request_header(asked)
    request, _ = codecs.request(ApiKey.ENVELOPE, header.api_version).decode(asked, header.body_offset)
    within = decode_request_header(request.request_data)
    correlation_id, offset = decode_response_header(ApiKey.ENVELOPE, header.api_version, told)
    assert correlation_id == header.correlation_id
    response = codecs.response(ApiKey.ENVELOPE, header.api_version).decode_exactly(told[offset:])
    if response.error_code:
        return Inner(within.api_key, within.api_version, within.correlation_id, response.error_code, None)
    data = bytes(response.response_data)
    inner_id, offset = decode_response_header(within.api_key, within.api_version, data)
    answer = codecs.response(within.api_key, within.api_version).decode_exactly(data[offset:])
    return Inner(within.api_key, within.api_version, inner_id, response.error_code, answer)


def comparable(told: Inner) -> Any:
    return plain(Heard(told.answer), told.api_key, told.version, Names(0), {})


async def replayed(address: tuple[str, int], frames: list[bytes]) -> list[bytes]:
    reader, writer = await asyncio.open_connection(*address)
    answers = []
    for frame in frames:
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answers.append(await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big")))
    writer.close()
    return answers


def captured_token() -> tuple[Any, bytes]:
    """The token that the captured renewal is about, as a record, and its HMAC from Kafka."""
    made = next(
        inner(*each).answer
        for each in exchanges()[1:]
        if inner(*each).api_key == ApiKey.CREATE_DELEGATION_TOKEN
    )
    record = types.DelegationTokenRecord(
        owner=f"{made.principal_type}:{made.principal_name}",
        requester=f"{made.token_requester_principal_type}:{made.token_requester_principal_name}",
        renewers=[],
        issue_timestamp=now_ms(),
        max_timestamp=now_ms() + 100 * YEAR_MS,
        expiration_timestamp=now_ms() + YEAR_MS,
        token_id=made.token_id,
    )
    return record, bytes(made.hmac)


@pytest.mark.spec("E1", "E2", "R9")
async def test_what_a_real_broker_forwards_is_answered_as_by_krafts_controller(
    kafka: Broker, topic_name: str
) -> None:
    secret = TokenSecret(CAPTURED["delegation.token.secret.key"].encode())
    settings = controller_settings(plaintext(kafka), topic_name, tokens=TokenSettings(secret))
    token, hmac = captured_token()
    asked, told = zip(*exchanges(), strict=True)
    async with running(made_controller(settings, super_users=SUPER_USERS)):
        # The renewed token is made as another: the log of the captured cluster had it.
        log = MetadataLog(plaintext(kafka), topic_name, settings.config.metadata.transactional_id)
        await log.claim()
        record = metadata_records.encode_record(token)
        await log.append([WrittenRecord(f"/token/{token.token_id}".encode(), record)], None)
        await log.resign()
    async with running(made_controller(settings, super_users=SUPER_USERS)) as controller:
        address = controller.endpoint.host, controller.endpoint.port
        answers = await replayed(address, list(asked))

    assert hmac == secret.hmac(token.token_id)
    kafkas = [inner(*each) for each in zip(asked[1:], told[1:], strict=True)]
    ours = [inner(*each) for each in zip(asked[1:], answers[1:], strict=True)]
    assert {each.api_key for each in kafkas} == FORWARDED | {ApiKey.LIST_PARTITION_REASSIGNMENTS}
    for one, other in zip(kafkas, ours, strict=True):
        if one.api_key == ApiKey.LIST_PARTITION_REASSIGNMENTS:
            # A change of nothing; proxies have it answered by their brokers.
            assert other.envelope_error == ErrorCode.INVALID_REQUEST
            continue
        assert (other.envelope_error, other.correlation_id) == (0, one.correlation_id)
        assert list(differences(comparable(one), comparable(other))) == [], ApiKey.name_of(one.api_key)


@pytest.mark.spec("E1", "E8")
async def test_a_real_brokers_first_words_are_answered_with_what_it_may_forward(
    kafka: Broker, topic_name: str
) -> None:
    asked, _ = exchanges()[0]
    settings = controller_settings(plaintext(kafka), topic_name)
    async with running(made_controller(settings)) as controller:
        (answer,) = await replayed((controller.endpoint.host, controller.endpoint.port), [asked])

    header = decode_request_header(asked)
    assert header.api_key == ApiKey.API_VERSIONS
    correlation_id, offset = decode_response_header(ApiKey.API_VERSIONS, header.api_version, answer)
    versions = codecs.response(ApiKey.API_VERSIONS, header.api_version).decode_exactly(answer[offset:])
    assert (correlation_id, versions.error_code) == (header.correlation_id, 0)
    offered = {each.api_key: (each.min_version, each.max_version) for each in versions.api_keys}
    for each in exchanges()[1:]:
        told = inner(*each)
        low, high = offered.get(told.api_key, (0, -1))
        assert low <= told.version <= high or told.api_key not in FORWARDED
