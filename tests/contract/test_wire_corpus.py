"""Our codecs against Kafka's own: a corpus of messages that Kafka's classes wrote.

Made with Kafka's jars in LIBS (java/MessageCorpus.java says what a line holds):

    java -cp 'LIBS/*' tests/contract/java/MessageCorpus.java \\
        tests/contract/corpus/kafka-messages.gz 440 6
"""

import gzip
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from proxy.wire import catalog, codecs, types
from proxy.wire.errors import WireError
from proxy.wire.message import Message

pytestmark = pytest.mark.spec("S1", "E1")

CORPUS = Path(__file__).parent / "corpus" / "kafka-messages.gz"

_UNFILLED = "-"
_REFUSED = "!"


class Line(NamedTuple):
    name: str
    version: str
    written: str
    other_version: str
    written_by_other: str


def read_corpus() -> dict[str, list[Line]]:
    lines_by_name: dict[str, list[Line]] = defaultdict(list)
    with gzip.open(CORPUS, "rt", encoding="ascii") as corpus:
        for text in corpus:
            line = Line(*text.rstrip("\n").split(" "))
            lines_by_name[line.name].append(line)
    return lines_by_name


LINES = read_corpus()


def message_of(line: Line) -> Message:
    if line.version == _UNFILLED:
        unfilled: Message = getattr(types, line.name)()
        return unfilled
    decoded: Message = codecs.data(line.name, int(line.version)).decode_exactly(bytes.fromhex(line.written))
    return decoded


def encoded(message: Message, line: Line) -> str:
    try:
        return codecs.data(line.name, int(line.other_version)).encode(message).hex()
    except WireError:
        return _REFUSED


def test_the_corpus_holds_every_message_in_every_version() -> None:
    in_corpus = {name: {int(line.other_version) for line in lines} for name, lines in LINES.items()}
    in_tables = {name: set(catalog.by_name(name).versions.range) for name in catalog.names()}

    assert in_corpus == in_tables


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_message_of_kafkas_is_written_back_byte_for_byte(name: str) -> None:
    for line in LINES[name]:
        if line.version != _UNFILLED:
            message = message_of(line)

            assert codecs.data(name, int(line.version)).encode(message).hex() == line.written


@pytest.mark.parametrize("name", sorted(LINES))
def test_another_version_writes_or_refuses_the_message_as_kafka_does(name: str) -> None:
    for line in LINES[name]:
        assert encoded(message_of(line), line) == line.written_by_other


def test_the_corpus_tries_unknown_tags_and_refusals() -> None:
    lines = [line for lines in LINES.values() for line in lines]

    assert sum(line.written_by_other == _REFUSED for line in lines) > 100
    assert sum(bool(message_of(line).unknown_tags) for line in lines) > 100
