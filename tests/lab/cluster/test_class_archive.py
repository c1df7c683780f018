"""Kafka's classes are read from an archive where there is one, and from the jars where none could be made."""

import subprocess
from pathlib import Path

import pytest

from tests.lab.cluster import class_archive, jvm

pytestmark = [pytest.mark.tooling, pytest.mark.slow]

KAFKAS = "source: shared objects file"


def test_a_tool_reads_its_classes_from_the_archive(kafka_libs: Path, tmp_path: Path) -> None:
    if not jvm.archive(kafka_libs).exists():
        pytest.skip("`make setup` could not make an archive here")
    told = tmp_path / "classes"
    program, *rest = jvm.command(
        kafka_libs, "kafka.tools.StorageTool", ["random-uuid"], jvm.SHORT_LIVED, "WARN"
    )

    done = subprocess.run([program, f"-Xlog:class+load:file={told}", *rest], capture_output=True, text=True)

    read = [line for line in told.read_text().splitlines() if "kafka" in line and KAFKAS in line]
    assert (done.returncode, len(done.stdout.split()), done.stderr) == (0, 1, "")
    assert len(read) > 10


def test_an_archive_that_does_not_fit_is_passed_over_without_a_word(kafka_libs: Path, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    for jar in kafka_libs.glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    jvm.archive(jars).write_bytes(b"of another Java")

    command = jvm.command(jars, "kafka.tools.StorageTool", ["random-uuid"], jvm.SHORT_LIVED, "WARN")
    done = subprocess.run(command, capture_output=True, text=True)

    assert str(jvm.archive(jars)) in " ".join(command)
    assert (done.returncode, len(done.stdout.split()), done.stderr) == (0, 1, "")


@pytest.mark.usefixtures("kafka_libs")
def test_where_none_can_be_made_it_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    libs = tmp_path / "no jars"
    libs.mkdir()
    told: list[str] = []

    class_archive.ensure(libs, told.append)

    assert "recording" in told[0]
    assert "start as slowly as always" in told[1]
    assert list(tmp_path.iterdir()) == [libs]
    assert list(libs.iterdir()) == []
