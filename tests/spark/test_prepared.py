"""What `penstock audit prepare` leaves on a machine, and the sessions that use it. Starts no JVM."""

import fcntl
from pathlib import Path

import pytest

from spark_audit import prepare, prepared, session

KAFKA, DELTA = "org.apache.spark_spark-sql-kafka.jar", "io.delta_delta-spark.jar"


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of two packages that exist, in an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (KAFKA, DELTA):
        (tmp_path / name).touch()
    prepared.directory().mkdir(parents=True)
    return [str(tmp_path / name) for name in (KAFKA, DELTA)]


def standalone(master: str = "local[2]", ivy_dir: str | None = None, **wanted: str) -> dict[str, str]:
    return session.standalone(master, ivy_dir, wanted)


@pytest.mark.spec("D7")
def test_a_prepared_session_resolves_no_package_and_reads_the_archive(jars: list[str]) -> None:
    prepared.remember_jars(jars)
    Path(prepared.options_that_write_archive("").split("=")[1].split()[0]).write_bytes(b"classes")

    size_bytes = prepared.accept_archive()

    settings = standalone()
    archive = prepared.directory() / "classes.jsa"
    assert (size_bytes, archive.read_bytes()) == (7, b"classes")
    assert "spark.jars.packages" not in settings
    assert settings[prepared.CLASS_PATH] == ":".join(jars)
    assert settings[prepared.JAVA_OPTIONS].startswith(session.JAVA_OPTIONS)
    assert f"-XX:SharedArchiveFile={archive}" in settings[prepared.JAVA_OPTIONS]


@pytest.mark.spec("D7")
def test_libraries_that_spark_has_are_left_out_in_any_version() -> None:
    kept = "/ivy/io.delta_delta-spark_2.13-4.4.0.jar"
    uris = ["file:/ivy/com.fasterxml.jackson.core_jackson-core-2.13.5.jar", f"file:{kept}"]

    assert prepare.without_sparks_own(",".join(uris)) == [kept]
    assert prepare.without_sparks_own("") == []


@pytest.mark.spec("D7")
def test_packages_of_another_set_do_not_get_an_older_archive(jars: list[str]) -> None:
    prepared.remember_jars(jars)
    (prepared.directory() / "classes.jsa").write_bytes(b"classes")

    prepared.remember_jars(jars[:1])

    settings = standalone()
    assert settings[prepared.CLASS_PATH] == jars[0]
    assert settings[prepared.JAVA_OPTIONS] == session.JAVA_OPTIONS


@pytest.mark.spec("D7")
@pytest.mark.parametrize(
    "changes",
    [
        {"master": "spark://host:7077"},
        {"ivy_dir": "/elsewhere"},
        {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"},
        {prepared.JAVA_OPTIONS: "-Xss8m"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_settings_of_the_user_decide_instead(jars: list[str], changes: dict[str, str]) -> None:
    prepared.remember_jars(jars)

    settings = standalone(**changes)

    assert prepared.CLASS_PATH not in settings
    assert settings["spark.jars.packages"] == ",".join(session.packages())


@pytest.mark.spec("D7")
@pytest.mark.parametrize(
    "fault", ["nothing", "a jar is gone", "the list is cut", "the list is another value"]
)
def test_a_session_starts_as_before_without_what_was_prepared(jars: list[str], fault: str) -> None:
    if fault != "nothing":
        prepared.remember_jars(jars)
    if fault == "a jar is gone":
        Path(jars[0]).unlink()
    if fault == "the list is cut":
        (prepared.directory() / "packages.json").write_text('["/a')
    if fault == "the list is another value":
        (prepared.directory() / "packages.json").write_text('{"a": 1}')

    settings = standalone()

    assert prepared.CLASS_PATH not in settings
    assert settings["spark.jars.packages"] == ",".join(session.packages())


@pytest.mark.spec("D7")
def test_only_one_process_prepares_at_a_time(jars: list[str]) -> None:
    with (prepared.directory() / "lock").open("w") as another:
        with prepared.alone(), pytest.raises(BlockingIOError):
            fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)

        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
