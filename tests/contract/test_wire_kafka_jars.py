"""Our tables, numbers and corpus against the jars of the Kafka release that we follow.

After a new release these fail until `make schemas` has run, the numbers are put right by hand, and the
corpus is made anew.
"""

import gzip
import subprocess
from pathlib import Path

import pytest

from proxy.wire import catalog
from proxy.wire.api_keys import ApiKey
from proxy.wire.codecs import request_versions
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import decode_request_header, encode_request, response_body_offset
from tests.lab.cluster.java import java
from tests.support.import_schemas import read_jar

pytestmark = [pytest.mark.kafka, pytest.mark.spec("S1", "E1")]

HERE = Path(__file__).parent
CORPUS = HERE / "corpus" / "kafka-messages.gz"
CORPUS_SEED = "440"
CORPUS_MESSAGES_PER_VERSION = "6"


def run_java(libs: Path, program: str, *arguments: str) -> str:
    command = [java(), "-cp", f"{libs}/*", str(HERE / "java" / program), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_the_tables_are_those_of_the_jars(kafka_libs: Path) -> None:
    jars = [jar for name in ("clients", "metadata") for jar in kafka_libs.glob(f"kafka-{name}-*.jar")]

    defined = {schema.name: schema for jar in jars for schema in read_jar(jar)}

    assert defined == {name: catalog.by_name(name) for name in catalog.names()}


def header_versions(key: ApiKey, version: int) -> tuple[int, int]:
    """Which schemas our hand-written headers follow, told from how long they are."""
    request = decode_request_header(encode_request(key, version, 1, None, b"")[4:])
    return {10: 1, 11: 2}[request.body_offset], {4: 0, 5: 1}[response_body_offset(key, version)]


@pytest.mark.slow
def test_keys_headers_and_error_codes_are_those_of_the_jars(kafka_libs: Path) -> None:
    headers = {
        "header {} {} {} {}".format(key.value, version, *header_versions(key, version))
        for key in ApiKey
        for version in request_versions(key, unstable=True)
    }
    api_keys = {f"api {key.value} {key.name} {ApiKey.name_of(key)}" for key in ApiKey}
    error_codes = {f"error {code.value} {code.name} {str(code.retriable).lower()}" for code in ErrorCode}

    assert set(run_java(kafka_libs, "KafkaNumbers.java").splitlines()) == api_keys | headers | error_codes


@pytest.mark.slow
def test_the_corpus_is_what_kafkas_classes_write(kafka_libs: Path, tmp_path: Path) -> None:
    made = tmp_path / "messages.gz"

    run_java(kafka_libs, "MessageCorpus.java", str(made), CORPUS_SEED, CORPUS_MESSAGES_PER_VERSION)

    # Not the compressed bytes: those depend on the zlib of the machine.
    assert gzip.decompress(made.read_bytes()) == gzip.decompress(CORPUS.read_bytes())
