"""The versions of APIs that brokers of each release speak, against the schemas of Kafka."""

import json

import pytest

from proxy.session.apis.table import TABLE
from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.codecs import request_versions
from spark_audit.tables.files import AuditError
from spark_audit.what_if.broker_release import versions_of
from tests.lab.cluster.kafka import KAFKA_VERSION
from tests.support.broker_versions import TABLE as FILE
from tests.support.broker_versions import written

pytestmark = [pytest.mark.spec("O13"), pytest.mark.spark]


def test_the_newest_release_is_the_one_that_is_followed_and_speaks_the_versions_of_its_schemas() -> None:
    version, spoken = versions_of(KAFKA_VERSION)

    assert version == KAFKA_VERSION == list(json.loads(FILE.read_text()))[-1]
    served = {ApiKey.name_of(key): request_versions(ApiKey(key)) for key in TABLE}
    assert {api: range(first, last + 1) for api, (first, last) in spoken.items() if api in served} == served
    assert spoken.keys() <= {ApiKey.name_of(key) for key in catalog.live_api_keys()}


def test_a_release_is_found_by_its_minor_version_and_has_what_kafka_removed_and_added() -> None:
    assert [versions_of(name)[0] for name in ("3.9", "3.9.0", "2.8")] == ["3.9.2", "3.9.2", "2.8.2"]
    fetches = [versions_of(name)[1]["Fetch"] for name in ("2.8", "3.9", "4.0", "4.4")]
    assert [tuple(span) for span in fetches] == [(0, 12), (0, 17), (4, 17), (4, 18)]
    before, after = versions_of("3.9")[1], versions_of("4.0")[1]
    # With ZooKeeper. Share groups of 4.0 were in early access: their versions were not stable.
    assert before.keys() - after.keys() == {
        "AllocateProducerIds", "AlterPartition", "ControlledShutdown", "Envelope", "LeaderAndIsr",
        "StopReplica", "UpdateMetadata",
    }  # fmt: skip
    assert "ShareFetch" not in after
    assert "ShareFetch" in versions_of("4.1")[1]


@pytest.mark.parametrize("release", ["5.0", "2.7", "4", "four", ""])
def test_a_release_without_schemas_is_an_error_that_names_those_that_there_are(release: str) -> None:
    with pytest.raises(
        AuditError, match=r"no schemas of that release. It has those of 2\.8, 3\.0, .*, 4\.4\."
    ):
        versions_of(release)


@pytest.mark.long
@pytest.mark.kafka
def test_the_table_is_what_kafkas_jars_say() -> None:
    text = FILE.read_text()

    assert written(json.loads(text)) == text
