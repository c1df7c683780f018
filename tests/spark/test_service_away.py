"""The service while its object store fails, and while its catalog is away."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit import session
from spark_audit.tables.delta import Tables
from tests.lab.cluster.broker import Broker
from tests.spark.audit_trail import DAY, Clock, Process
from tests.spark.ingesting import Source, in_tables, log_records
from tests.spark.serving import PATIENCE_MS, get, metrics, service, wait_for
from tests.spark.stopping import job_process
from tests.support import storage
from tests.support.failing_store import Fault, failing_store
from tests.support.hive_metastore import metastore

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.spec("D9", "D16"),
]

IN_S3 = {
    "spark.jars.packages": ",".join(
        [*session.packages(), f"org.apache.hadoop:hadoop-aws:{storage.HADOOP_VERSION}"]
    ),
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    # By default S3A itself tries for minutes.
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "1",
    "spark.hadoop.fs.s3a.connection.timeout": "15s",
    "spark.hadoop.fs.s3a.connection.request.timeout": "15s",
}
SAID = re.compile(
    r"serving /metrics|reading .* every|(audit|metadata_log): |reconciled \d|stopped; the next run"
    r"|.*: the storage of the tables is not available; (retrying every|trying again in) \d+ s"
)
"""Every line of a service whose store fails."""


def conf(settings: dict[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def copied(client: Any, bucket: str, into: Path) -> Path:
    """The objects of a bucket as files."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for each in page["Contents"]:
            if not each["Key"].endswith("/"):
                (into / each["Key"]).parent.mkdir(parents=True, exist_ok=True)
                client.download_file(bucket, each["Key"], str(into / each["Key"]))
    return into


def test_a_service_whose_object_store_fails_says_why_and_goes_on_when_it_is_back(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, tables = Source(kafka.plaintext, "failing-store"), Tables("s3a://audit/penstock")
    source.create()
    proxy = Process("proxy-1", Clock())
    proxy.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")

    def send() -> str:
        """One record more in each topic; what the service prints when it has reconciled them."""
        proxy.high_water()
        source.send_audit(proxy.records[-1:])
        source.send_log(log_records(1, bad=0))
        return rf"reconciled {DAY}: .*; {len(proxy.records)} records"

    with storage.s3(tmp_path, "audit") as s3, failing_store(s3.url.removeprefix("http://")) as front:
        own = conf(IN_S3 | {"spark.hadoop.fs.s3a.endpoint": front.url})
        source.send_audit(proxy.records)
        with service(source, tables, tmp_path, *own, "--out", "s3a://audit/report") as process:
            # The first time, it downloads 600 MB.
            wait_for(process, send(), patience_ms=3 * PATIENCE_MS)
            for fault in Fault:
                before = len(process.log_text())
                front.fail(fault)
                reconciled = send()
                wait_for(process, r"retrying every 10 seconds", before)
                assert get(process, "/livez")[0] == 200
                front.recover()
                wait_for(process, reconciled)
            process.signal(signal.SIGTERM)
            assert process.wait(PATIENCE_MS) == 0
        unknown = [line for line in process.log_text().splitlines() if not SAID.match(line)]
        with job_process("verify", source, tables, tmp_path / "verify", *own) as verify:
            assert verify.wait(PATIENCE_MS) == 0, verify.log_text()
        copy = copied(s3.client, "audit", tmp_path / "copy")

    assert unknown == []
    assert all(front.met[fault] for fault in Fault if fault != Fault.REFUSED), front.met
    assert in_tables(spark, Tables(str(copy / "penstock")), source.topics) == source.held()
    found = json.loads((copy / "report" / DAY / "findings.json").read_text(encoding="utf-8"))["findings"]
    checks = {each["check"] for each in found}
    assert not any(check.startswith(("manifest.", "gaps.", "chain.")) for check in checks), checks


def test_a_catalog_that_is_away_stops_no_service_that_runs(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    source, named = Source(kafka.plaintext, "catalog-away"), Tables("spark_catalog.default")
    source.create()
    source.send_audit(source.records[:2])
    source.send_log(log_records(1, bad=0))
    with metastore(tmp_path / "metastore") as catalog:
        hive = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": catalog.uri}
        own = conf(hive)
        with service(source, named, tmp_path, *own) as process:
            wait_for(process, rf"reconciled {DAY}: .*; 2 records")
            catalog.process.kill()
            source.send_audit(source.records[2:3])
            wait_for(process, rf"reconciled {DAY}: .*; 3 records")
            assert metrics(process)["penstock_reconciliation_failures_total"] == 0
            # Table `reconciled` is new, and cannot be registered.
            process.signal(signal.SIGTERM)
            assert process.wait(PATIENCE_MS) == 2
        last = process.log_text().splitlines()[-1]
        assert last.startswith("penstock audit: ")
        assert "the Hive metastore of spark.hadoop.hive.metastore.uris is not available" in last

        catalog.start()
        with service(source, named, tmp_path / "again", *own) as process:
            source.send_audit(source.records[3:])
            wait_for(process, rf"reconciled {DAY}: .*; {len(source.records)} records")
            catalog.process.kill()
            catalog.start()
            process.signal(signal.SIGTERM)
            assert process.wait(PATIENCE_MS) == 0, process.log_text()

    assert in_tables(spark, Tables(str(catalog.warehouse)), source.topics) == source.held()
