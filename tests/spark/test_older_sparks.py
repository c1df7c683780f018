"""The audit jobs on the older releases of Spark, each in an environment of its own, before a real broker."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker
from tests.spark.readme import ROOT, a_trail, commands, filled_in, send, topics
from tests.spark.sealed import altered, seal
from tests.support.other_spark import python_with
from tests.support.siem_events import faults

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("D16"),
]

OLDER = ("4.0.5", "4.1.4")
TIMEOUT_S = 400
QUESTIONS = """
import sys
import pyspark
from spark_audit.session import open_session
from spark_audit.tables.names import located
from spark_audit.views import statements
spark = open_session("local[2]")
for statement in statements(sys.argv[1], sys.argv[2], None):
    spark.sql(statement)
spark.sql("USE penstock")
print(spark.version)
print([row[0] for row in spark.sql("SELECT DISTINCT principal FROM denials").collect()])
print(sorted(row[0] for row in spark.sql("SELECT kind FROM policy_at(6)").collect()))
"""


def said(python: str | Path, *arguments: str, cwd: Path) -> tuple[int, str]:
    """The exit code of a Python program, and what it has printed."""
    done = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("version", OLDER)
async def test_the_jobs_run_on_an_older_spark_and_the_newest_one_reads_their_tables(
    version: str, kafka: Broker, tmp_path: Path
) -> None:
    python, trail = await asyncio.to_thread(python_with, version), a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    lines.append(altered(lines[-2], host="10.6.6.6"))
    await send(kafka.plaintext, version, trail, lines)
    tables, out = str(tmp_path / "tables"), str(tmp_path / "out")

    async def audit(*arguments: str, by: str | Path = python) -> tuple[int, str]:
        command = ("-m", "spark_audit", *arguments, "--tables", tables)
        return await asyncio.to_thread(said, by, *command, cwd=tmp_path)

    topics = ("--audit-topic", f"{version}-audit", "--metadata-topic", f"{version}-metadata")
    code, text = await audit("run", "--bootstrap", kafka.plaintext, *topics, "--out", out)
    assert (code, f"audit: {len(lines)} records in 1 batches" in text) == (1, True), text
    document = json.loads((tmp_path / "out" / "findings.json").read_text(encoding="utf-8"))
    assert [finding["check"] for finding in document["findings"]] == ["gaps.different_copies"]
    assert "gaps.different_copies" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")

    exported = tmp_path / "exported"
    code, text = await audit("export", "--as", "ocsf", "--position", "position", "--out", str(exported))
    assert code == 0, text
    texts = [path.read_text(encoding="utf-8") for path in exported.glob("part-*")]
    documents = [json.loads(line) for each in texts for line in each.splitlines()]
    assert len(documents) == len(lines)
    assert [fault for each in documents for fault in faults("ocsf", each)] == []

    asked = await asyncio.to_thread(said, python, "-c", QUESTIONS, tables, out, cwd=tmp_path)
    assert asked[0] == 0, asked[1]
    assert asked[1].splitlines()[:3] == [version, "['User:mallory']", "['ACL', 'QUOTA']"]
    for by in (python, sys.executable):
        code, text = await audit("verify", by=by)
        assert (code, "differences: 0" in text) == (0, True), text


async def test_the_extra_cluster_is_installed_beside_an_older_spark_and_leaves_it_as_it_is(
    kafka: Broker, tmp_path: Path
) -> None:
    """`pip install '.[cluster]'` in a copy of the checkout, then the first command of "On a cluster"."""
    checkout, place, version = tmp_path / "checkout", tmp_path / "cluster", OLDER[0]
    checkout.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    for name in ("docs", "proxy", "forwarding", "spark_audit"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "auditor.properties").write_text("security.protocol=PLAINTEXT\n")
    uv, python = str(Path(sys.executable).with_name("uv")), place / "bin" / "python"
    run = partial(subprocess.run, cwd=checkout, check=True, timeout=TIMEOUT_S)
    run([sys.executable, "-m", "venv", place])
    run([uv, "--quiet", "pip", "install", "--python", python, f"pyspark=={version}"])
    [of_spark] = place.glob("lib/*/site-packages/pyspark-*.dist-info/RECORD")
    before = of_spark.stat()
    run([python, "-m", "pip", "--quiet", "install", ".[cluster]"])
    freeze = [python, "-m", "pip", "list", "--format", "json"]
    listed = json.loads(run(freeze, capture_output=True, text=True).stdout)
    installed = {each["name"]: each["version"] for each in listed}
    assert (installed["pyspark"], of_spark.stat()) == (version, before)
    assert "penstock" in installed
    assert "delta-spark" not in installed

    trail = a_trail()
    lines = [line for process in trail.processes for line in seal(process)]
    await send(kafka.plaintext, "beside", trail, lines)
    readme = (ROOT / "deploy" / "spark" / "README.md").read_text(encoding="utf-8")
    packages = dict(re.findall(r"^\| (4\.\d) \| `(.*)` \|$", readme, re.M))
    own = {
        "spark://spark-1:7077": "local[1]",
        packages["4.2"]: packages[version[:3]],
        "broker-1:9093,broker-2:9093": f"{kafka.plaintext} {topics('beside')}",
        "s3a://audit/penstock": str(tmp_path / "tables"),
    }
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    surroundings |= {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = ["bash", "-euc", filled_in(commands("On a cluster")[0], own)]
    done = run(command, env=surroundings, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"audit: {len(lines)} records in 1 batches" in done.stdout
    assert f"version {version}" in done.stderr
