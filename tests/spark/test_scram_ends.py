"""What the audit jobs know of a SCRAM credential with an end: all but its secrets (decision 0162)."""

import json
from typing import Any

import pytest

from proxy.metadata.acl import tags_of_end
from proxy.metadata.image import MetadataImage
from proxy.wire import metadata_records
from spark_audit import schema as S
from spark_audit.kraft.metadata_records import decode
from spark_audit.kraft.secrets import hidden
from spark_audit.reconcile.log_signatures import applied
from tests.support.images import image_of, scram_record

pytestmark = pytest.mark.spec("A11", "S14")


@pytest.mark.parametrize("until_ms", [None, 1_801_418_400_000])
def test_the_digest_of_the_state_is_that_of_the_controller(until_ms: int | None) -> None:
    record = scram_record("alice")
    record.unknown_tags = tags_of_end(until_ms)
    value = metadata_records.encode_record(record)
    fields = decode(value).fields

    row: Any = {
        S.LOG_OFFSET: 0,
        S.RECEIVED: None,
        S.API_KEY: S.USER_SCRAM_CREDENTIAL_RECORD,
        S.BODY: json.dumps(fields),
        S.HIDDEN: hidden(value),
    }
    assert applied(MetadataImage.EMPTY, [row]).digest == image_of(record).digest
    assert fields is not None
    assert fields.get("until_ms") == until_ms
