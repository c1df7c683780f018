"""Our codecs against kio's, which other people made from Kafka's schemas: every field has its right name.

It is given only what we wrote from tame values: it refuses unknown tagged fields, error codes without a
name and times outside Python's, and a hostile count aborts the process.
"""

import datetime
import uuid
from dataclasses import fields, is_dataclass
from enum import Enum
from io import BytesIO
from random import Random
from typing import Any

import pytest
from kio.index import UnknownAPIKey, UnknownEntity, load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey
from proxy.wire.catalog import request, response
from proxy.wire.schema import ZERO_UUID
from tests.support.wire_messages import MessageFiller

pytestmark = pytest.mark.spec("E1")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NEWER_THAN_KIO = {
    (ApiKey.API_VERSIONS, 5),
    (ApiKey.TXN_OFFSET_COMMIT, 6),
    (ApiKey.DELETE_GROUPS, 3),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1),
    (ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, 0),
    (ApiKey.UNREGISTER_CONTROLLER, 0),
}
"""Versions of Kafka 4.4, which kio does not know yet."""
RENAMED = {
    "generation_id": "generation_id_or_member_epoch",
    "acceptable_recovery_lag": "acceptable_recovery_lag_legacy",
}
"""Fields of some messages that Kafka 4.4 has renamed."""

_MILLISECOND = datetime.timedelta(milliseconds=1)


def plain(value: Any) -> Any:
    """What kio read, in the types that we use."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(element) for element in value]
    if isinstance(value, datetime.datetime):
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, datetime.timedelta):
        return value // _MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value.value if isinstance(value, Enum) else value


def seen_as(expected: Any, ours: Any) -> Any:
    """Our value, cut down to the fields that kio has in this version and under its names."""
    if isinstance(expected, dict):
        return {name: seen_as(value, getattr(ours, our_name(ours, name))) for name, value in expected.items()}
    if isinstance(expected, list):
        return [seen_as(value, element) for value, element in zip(expected, ours, strict=True)]
    # No moment and no uuid are None in kio.
    return None if expected is None and ours in (-1, ZERO_UUID) else ours


def our_name(ours: Any, name: str) -> str:
    # kio has types for moments and spans, and then takes the unit out of the name.
    name = name.replace("k_raft", "kraft").rstrip("_")
    renamed = RENAMED.get(name, name)
    if hasattr(ours, renamed):
        return renamed
    return name if hasattr(ours, name) else f"{name}_ms"


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
@pytest.mark.parametrize("kind", [EntityType.request, EntityType.response], ids=lambda kind: kind.name)
def test_kio_reads_the_same_fields_and_writes_the_same_bytes(key: ApiKey, kind: Any) -> None:
    schema = request(key) if kind is EntityType.request else response(key)
    filler = MessageFiller(Random(schema.name), tame=True)
    for version in schema.versions.range:
        if (key, version) in NEWER_THAN_KIO:
            with pytest.raises((UnknownAPIKey, UnknownEntity)):
                load_payload_module(key, version, kind)
            continue
        message = filler.message(schema.name, version)
        written = codecs.data(schema.name, version).encode(message)
        kio_class = getattr(load_payload_module(key, version, kind), schema.name)

        read, size = entity_reader(kio_class)(written, 0)
        rewritten = BytesIO()
        entity_writer(kio_class)(rewritten, read)

        assert size == len(written)
        assert seen_as(plain(read), message) == plain(read)
        assert rewritten.getvalue() == written
