"""The alert rules in Prometheus' own engine: each alert fires when it should, and not otherwise.

Skipped where the engine is not in the cache; `make check-rules` builds it, and nothing is skipped then.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import promql

pytestmark = pytest.mark.spec("O2")

RULES = Path(__file__).resolve().parents[2] / "proxy" / "examples" / "prometheus" / "rules.yaml"
PROXY = 'job="penstock-proxy",instance="kafka-0"'
CONTROLLER = 'job="penstock-controller",instance="controller-0"'
AUDIT = 'job="penstock-audit",instance="audit-0"'
EXPIRY, DAY_S = "penstock_certificate_expiry_timestamp_seconds", 86_400
STANDING_BY = "not the active controller: standing by"
UP = f"up{{{PROXY}}} 1x240"
HEALTHY = "\n  ".join(
    (
        UP,
        f"up{{{CONTROLLER}}} 1x240",
        f"penstock_ready{{{PROXY}}} 1x240",
        f"penstock_broker_connected{{{PROXY}}} 1x240",
        f"penstock_broker_connected{{{CONTROLLER}}} 1x240",
        'penstock_ready{job="penstock-controller",instance="controller-1"} 0x240',
        f'penstock_not_ready{{job="penstock-controller",instance="controller-1",cause="{STANDING_BY}"}}'
        " 1x240",
        f"penstock_metadata_offset{{{PROXY}}} 5+1x240",
        f"penstock_controller_metadata_offset{{{CONTROLLER}}} 5+1x240",
        f"penstock_metadata_digest{{{PROXY}}} 7x240",
        f"penstock_metadata_digest{{{CONTROLLER}}} 7x240",
        f"penstock_metadata_unsigned_records_total{{{PROXY}}} 0x240",
        f"penstock_proxy_id_used_twice{{{PROXY}}} 0x240",
        f"penstock_controller_connected{{{PROXY}}} 1x240",
        f"penstock_quota_cluster_fallback_shards{{{PROXY}}} 0x240",
        f'penstock_own_topic_faults{{{PROXY},topic="__penstock_audit"}} 0x240',
        f"penstock_controller_active{{{CONTROLLER}}} 1x240",
        'penstock_controller_active{job="penstock-controller",instance="controller-1"} 0x240',
        f"penstock_audit_oldest_unshipped_seconds{{{PROXY}}} 0.1x240",
        f"penstock_audit_spool_ratio{{{PROXY}}} 0.01x240",
        f"penstock_audit_unshipped_records{{{PROXY}}} 3x240",
        f'penstock_audit_dropped_total{{{PROXY},reason="spool_full",class="summary"}} 7x240',
        f'penstock_authentication_total{{{PROXY},listener="L",mechanism="PLAIN",outcome="failed"}} 0+1x240',
        f'penstock_authentication_total{{{CONTROLLER},mechanism="PLAIN",outcome="failed"}} 2x240',
        f'penstock_file_reloads_total{{{PROXY},file_kind="users",outcome="failed"}} 1x240',
        f'penstock_controller_commit_seconds_bucket{{{CONTROLLER},le="0.1"}} 0+5x240',
        f'penstock_controller_commit_seconds_bucket{{{CONTROLLER},le="+Inf"}} 0+5x240',
        f'penstock_requests_total{{{PROXY},listener="L",api="Produce"}} 0+900x240',
        f'penstock_request_errors_total{{{PROXY},listener="L",api="Produce",error="CORRUPT_MESSAGE"}}'
        " 0+9x240",
        f'penstock_event_loop_lag_seconds_bucket{{{PROXY},le="0.1"}} 0+150x240',
        f'penstock_event_loop_lag_seconds_bucket{{{PROXY},le="+Inf"}} 0+150x240',
        f"penstock_event_loop_lag_seconds_count{{{PROXY}}} 0+150x240",
        f"process_open_fds{{{PROXY}}} 500x240",
        f"process_max_fds{{{PROXY}}} 1000x240",
        'process_open_fds{job="another",instance="x"} 999x240',
        'process_max_fds{job="another",instance="x"} 1000x240',
        f'{EXPIRY}{{{PROXY},file="tls.crt"}} {15 * DAY_S}x240',
        f'penstock_ingest_last_poll_timestamp_seconds{{{AUDIT},table="audit"}} 0+60x240',
        f"penstock_reconciliation_last_success_timestamp_seconds{{{AUDIT}}} 0+60x240",
        f"penstock_reconciliation_interval_seconds{{{AUDIT}}} 3600x240",
        f'penstock_reconciliation_findings{{{AUDIT},severity="high"}} 0x240',
        f'penstock_reconciliation_findings{{{AUDIT},severity="medium"}} 3x240',
    )
)
GROWS = "0+1x240"


def proxy(metric: str, values: str = GROWS, labels: str = "") -> str:
    return f"{UP}\n  {metric}{{{PROXY}{',' * bool(labels)}{labels}}} {values}"


def controller(metric: str, values: str = GROWS, labels: str = "") -> str:
    return (
        f"{UP}\n  penstock_controller_active{{{CONTROLLER}}} 1x240"
        f"\n  {metric}{{{CONTROLLER}{',' * bool(labels)}{labels}}} {values}"
    )


# Alert -> what there is to see, and the alerts that then fire besides.
CASES: dict[str, tuple[str, set[str]]] = {
    "PenstockDown": (f"up{{{PROXY}}} 0x240", set()),
    "PenstockNotScraped": ('up{job="pods",instance="kafka-0"} 1x240', set()),
    "PenstockNotReady": (
        proxy("penstock_ready", "0x240") + f'\n  penstock_not_ready{{{PROXY},cause="draining"}} 1x240',
        set(),
    ),
    "PenstockBrokerUnreachable": (proxy("penstock_broker_connected", "0x240"), set()),
    "PenstockNoController": (
        f"{UP}\n  penstock_controller_active{{{CONTROLLER}}} 0x240"
        f"\n  penstock_controller_connected{{{PROXY}}} 1x240",
        set(),
    ),
    "PenstockControllerUnreachable": (
        f"{UP}\n  penstock_controller_connected{{{PROXY}}} 0x240"
        '\n  penstock_controller_connected{job="penstock-proxy",instance="kafka-1"} 1x240',
        set(),
    ),
    "PenstockControllerDisturbed": (
        controller("penstock_controller_disturbances_total", labels='kind="fenced"'),
        set(),
    ),
    "PenstockControllerLoginsFail": (
        controller("penstock_authentication_total", labels='mechanism="PLAIN",outcome="failed"'),
        set(),
    ),
    "PenstockControllerSessionsEnd": (controller("penstock_expired_connections_killed_total"), set()),
    "PenstockMetadataLagging": (
        f"{UP}\n  penstock_metadata_offset{{{PROXY}}} 5x240"
        f"\n  penstock_controller_metadata_offset{{{CONTROLLER}}} 6x240",
        set(),
    ),
    "PenstockMetadataNotUnderstood": (proxy("penstock_metadata_not_understood", "1x240"), set()),
    "PenstockProxyIdUsedTwice": (proxy("penstock_proxy_id_used_twice", "1x240"), set()),
    "PenstockMetadataUnsigned": (proxy("penstock_metadata_unsigned_records_total"), set()),
    "PenstockMetadataDigestsDiffer": (
        f"{proxy('penstock_metadata_digest', '11x240')}\n  penstock_metadata_digest{{{CONTROLLER}}} 12x240"
        f"\n  penstock_metadata_offset{{{PROXY}}} 6x240"
        f"\n  penstock_controller_metadata_offset{{{CONTROLLER}}} 6x240"
        f"\n  penstock_controller_active{{{CONTROLLER}}} 1x240",
        set(),
    ),
    "PenstockQuorumLost": (proxy("penstock_quorum_connected", "0x240"), set()),
    "PenstockAuthorizerErrors": (proxy("penstock_authorizer_errors_total"), set()),
    "PenstockAuditDropped": (
        proxy("penstock_audit_dropped_total", labels='reason="spool_full",class="denial"'),
        set(),
    ),
    "PenstockAuditNotShipping": (proxy("penstock_audit_oldest_unshipped_seconds", "600x240"), set()),
    "PenstockAuditSpoolGrows": (
        proxy("penstock_audit_spool_ratio", "0+0.002x240")
        + f"\n  penstock_audit_unshipped_records{{{PROXY}}} 20000x240",
        set(),
    ),
    "PenstockAuditSpoolNearlyFull": (proxy("penstock_audit_spool_ratio", "0.9x240"), set()),
    "PenstockAuditDiskHangs": (proxy("penstock_audit_disk_wait_seconds", "10x240"), set()),
    "PenstockAuditDiskFails": (proxy("penstock_audit_faults_total", labels='at="write"'), set()),
    "PenstockAuditSegmentLost": (
        proxy("penstock_audit_segment_faults_total", labels='fault="deleted"'),
        set(),
    ),
    "PenstockAuditCollapses": (proxy("penstock_audit_collapsed_total", labels='class="denial"'), set()),
    "PenstockAuditTopicFails": (
        proxy("penstock_audit_ship_failing", "1x240", 'reason="NOT_ENOUGH_REPLICAS"'),
        set(),
    ),
    "PenstockAuditRecordRefused": (
        proxy("penstock_audit_ship_failing", "1x240", 'reason="MESSAGE_TOO_LARGE"'),
        {"PenstockAuditTopicFails"},
    ),
    "PenstockAuditRefuses": (proxy("penstock_audit_refusing", "1x240", 'class="admin"'), set()),
    "PenstockLoginChecksFail": (proxy("penstock_authentication_errors_total"), set()),
    "PenstockLoginChecksDropped": (
        proxy("penstock_authentication_checks_dropped_total", labels='reason="login_checks_queue_full"'),
        set(),
    ),
    "PenstockAuthenticationFailures": (
        proxy("penstock_authentication_total", "0+60x240", 'listener="L",outcome="failed"'),
        set(),
    ),
    "PenstockForwardingRetries": (proxy("penstock_forwarding_retries_total"), set()),
    "PenstockUpstreamErrors": (proxy("penstock_upstream_errors_total", "0+9x240", 'kind="closed"'), set()),
    "PenstockBrokersNotTold": (proxy("penstock_brokers_not_told", "1x240"), set()),
    "PenstockAcceptFails": (proxy("penstock_accept_errors_total", labels='error="EMFILE"'), set()),
    "PenstockLogLinesLost": (
        proxy("penstock_log_lines_dropped_total", labels='reason="queue_full"'),
        set(),
    ),
    "PenstockProtocolErrors": (
        proxy("penstock_protocol_errors_total", "0+60x240", 'listener="L",kind="frame"'),
        set(),
    ),
    "PenstockWorkersDie": (proxy("penstock_worker_restarts_total"), set()),
    "PenstockCommitsSlow": (
        controller("penstock_controller_commit_seconds_bucket", "0+1x240", 'le="2"')
        + f'\n  penstock_controller_commit_seconds_bucket{{{CONTROLLER},le="1"}} 0x240'
        + f'\n  penstock_controller_commit_seconds_bucket{{{CONTROLLER},le="+Inf"}} 0+1x240',
        set(),
    ),
    "PenstockQuotaFallback": (proxy("penstock_quota_cluster_fallback_shards", "3x240"), set()),
    "PenstockOwnTopicFault": (proxy("penstock_own_topic_faults", "1x240", 'topic="__penstock_audit"'), set()),
    "PenstockErrors": (
        proxy(
            "penstock_request_errors_total",
            "0+60x240",
            'listener="L",api="Metadata",error="TOPIC_AUTHORIZATION_FAILED"',
        )
        + f'\n  penstock_requests_total{{{PROXY},listener="L",api="Metadata"}} 0+200x240',
        set(),
    ),
    "PenstockUnknownTopicIds": (
        proxy(
            "penstock_request_errors_total",
            "0+600x240",
            'listener="L",api="Fetch",error="UNKNOWN_TOPIC_ID"',
        )
        + f'\n  penstock_requests_total{{{PROXY},listener="L",api="Fetch"}} 0+600x240',
        {"PenstockErrors"},
    ),
    "PenstockEventLoopLags": (
        proxy("penstock_event_loop_lag_seconds_bucket", "0+150x240", 'le="+Inf"')
        + f'\n  penstock_event_loop_lag_seconds_bucket{{{PROXY},le="0.2"}} 0+150x240'
        + f'\n  penstock_event_loop_lag_seconds_bucket{{{PROXY},le="0.1"}} 0+120x240',
        set(),
    ),
    "PenstockFilesRunOut": (
        proxy("process_open_fds", "950x240")
        + f"\n  process_max_fds{{{PROXY}}} 1000x240"
        + f"\n  penstock_event_loop_lag_seconds_count{{{PROXY}}} 0+150x240",
        set(),
    ),
    "PenstockCertificateExpires": (
        proxy(f"{EXPIRY}", f"{13 * DAY_S}x240", 'file="tls.crt"'),
        set(),
    ),
    "PenstockCertificateExpiresSoon": (
        proxy(f"{EXPIRY}", f"{2 * DAY_S}x240", 'file="tls.crt"'),
        {"PenstockCertificateExpires"},
    ),
    "PenstockIngestStale": (
        f'{UP}\n  penstock_ingest_last_poll_timestamp_seconds{{{AUDIT},table="audit"}} 0x240',
        set(),
    ),
    "PenstockReconciliationStale": (
        f"{UP}\n  penstock_reconciliation_last_success_timestamp_seconds{{{AUDIT}}} 0x240"
        f"\n  penstock_reconciliation_interval_seconds{{{AUDIT}}} 600x240",
        set(),
    ),
    "PenstockFindings": (
        f'{UP}\n  penstock_reconciliation_findings{{{AUDIT},severity="high"}} 1x240',
        set(),
    ),
    "PenstockFileNotLoaded": (
        proxy("penstock_file_reloads_total", labels='file_kind="users",outcome="failed"'),
        set(),
    ),
    "PenstockIdentityKeysNotLoaded": (
        proxy("penstock_jwks_refreshes_total", labels='url="https://idp",outcome="failed"'),
        set(),
    ),
}
ALL_GONE = f"""{UP}
  penstock_controller_active{{{CONTROLLER}}} 1x20 _x60
  penstock_controller_connected{{{PROXY}}} 1x20 0x60"""


@pytest.fixture(scope="module")
def engine() -> Path:
    if os.environ.get("PENSTOCK_REQUIRE_PROMETHEUS") == "1":
        return promql.ENGINE.built()
    found = promql.ENGINE.installed()
    if found is None:
        pytest.skip("Prometheus' engine is not in the cache: `make check-rules` builds it")
    return found


def fired(engine: Path, series: str, at: str) -> set[str]:
    answer = promql.evaluate(engine, RULES, {"one": (f"load 15s\n  {series}", at)})
    assert answer["errors"] == []
    return {each["alert"] for each in answer["firing"]["one"]}


def test_every_alert_fires_for_what_it_is_for_and_for_nothing_else(engine: Path) -> None:
    """All at once: the engine starts one time."""
    cases = {name: (f"load 15s\n  {series}", "1h") for name, (series, _) in CASES.items()}

    firing: dict[str, Any] = promql.evaluate(engine, RULES, cases)["firing"]

    found = {name: {each["alert"] for each in alerts} for name, alerts in firing.items()}
    assert found == {name: {name, *besides} for name, (_, besides) in CASES.items()}


def test_every_alert_has_a_case() -> None:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]

    assert [rule["alert"] for rule in group["rules"]] == list(CASES)


def test_no_alert_fires_while_all_is_well(engine: Path) -> None:
    assert fired(engine, HEALTHY, "1h") == set()


def test_no_controller_fires_when_all_of_them_are_gone(engine: Path) -> None:
    """Their series are gone with them: only the proxies still know."""
    assert fired(engine, ALL_GONE, "5m") == set()
    assert fired(engine, ALL_GONE, "12m") == {"PenstockNoController", "PenstockControllerUnreachable"}


def test_no_controller_does_not_fire_where_kafkas_own_take_its_place(engine: Path) -> None:
    connected = proxy("penstock_controller_connected", "1x240")
    series = f"{connected}\n  penstock_quorum_connected{{{PROXY}}} 1x240"

    assert fired(engine, series, "30m") == set()


def test_pods_that_are_gone_are_missed_though_no_target_is_down(engine: Path) -> None:
    series = f"up{{{PROXY}}} 1x20 _x60"

    assert fired(engine, series, "5m") == set()
    assert fired(engine, series, "18m") == {"PenstockNotScraped"}


@pytest.mark.parametrize(
    "alert",
    [
        "PenstockControllerDisturbed",
        "PenstockControllerLoginsFail",
        "PenstockControllerSessionsEnd",
        "PenstockAcceptFails",
    ],
)
def test_the_first_event_of_a_kind_fires_though_its_series_is_new(engine: Path, alert: str) -> None:
    """These series are there from their first event on: a counter that begins with 1 has no increase."""
    series = CASES[alert][0].replace(GROWS, "_x100 1x100")

    assert fired(engine, series, "24m") == set()
    assert fired(engine, series, "26m") == {alert}
    assert fired(engine, series, "40m") == set()


def test_an_alert_waits_for_its_time(engine: Path) -> None:
    series = f"up{{{PROXY}}} 1x20 0x60"

    assert fired(engine, series, "6m") == set()
    assert fired(engine, series, "6m15s") == {"PenstockDown"}


HISTOGRAM = "penstock_request_duration_seconds_bucket"
SCRAPED: dict[str, tuple[dict[str, str], list[int]]] = {
    "penstock_connections": ({"listener": "L"}, [3] * 41),
    "penstock_connections_accepted_total": ({"listener": "L"}, [30 * n for n in range(41)]),
    "penstock_authentication_total": (
        {"listener": "L", "mechanism": "PLAIN", "outcome": "failed"},
        list(range(41)),
    ),
    "penstock_requests_total": ({"listener": "L", "api": "Produce"}, [2 * n for n in range(41)]),
}
RECORDED: dict[str, tuple[dict[str, str], int]] = {
    "kafka_server_socket_server_metrics_connection_count": ({"listener": "L"}, 3),
    "kafka_server_socket_server_metrics_connection_creation_rate": ({"listener": "L"}, 2),
    "kafka_server_socket_server_metrics_failed_authentication_total": ({"listener": "L"}, 40),
    "kafka_network_requestmetrics_requests_total": ({"request": "Produce"}, 80),
}
"""The name that is recorded -> its labels besides job and instance, and its value after 10 minutes."""


@pytest.mark.spec("O15")
def test_recording_rules_give_the_values_of_kafkas_names(engine: Path, tmp_path: Path) -> None:
    at = [15_000 * n for n in range(41)]
    own = {"job": "penstock-proxy", "instance": "kafka-0"}
    samples: list[dict[str, Any]] = [
        {"labels": {"__name__": name, **own, **labels}, "at": at, "values": [str(value) for value in values]}
        for name, (labels, values) in SCRAPED.items()
    ]
    # Half of the requests take up to 10 ms, the other half up to 100 ms.
    samples += [
        {
            "labels": {"__name__": HISTOGRAM, **own, "listener": "L", "api": "Produce", "le": le},
            "at": at,
            "values": [str(each * n) for n in range(41)],
        }
        for le, each in (("0.01", 1), ("0.1", 2), ("+Inf", 2))
    ]
    file = tmp_path / "samples.json"
    file.write_text(json.dumps(samples), encoding="utf-8")
    compat = yaml.safe_load(RULES.with_name("kafka-compat.yaml").read_text(encoding="utf-8"))["groups"]
    assert promql.evaluate(engine, RULES.with_name("kafka-compat.yaml"), {})["errors"] == []

    queries = {
        rule["record"] + rule["labels"].get("quantile", ""): rule["expr"] for rule in compat[0]["rules"]
    }
    found = promql.ranges(engine, file, queries, start_ms=600_000, end_ms=600_000, step_ms=15_000)

    for name, (labels, value) in RECORDED.items():
        [line] = found[name]
        assert {key: line["labels"][key] for key in line["labels"] if key != "__name__"} == own | labels
        assert line["points"] == [[600_000, pytest.approx(value)]]
    [line] = found["kafka_network_requestmetrics_totaltimems0.50"]
    assert line["points"] == [[600_000, pytest.approx(10)]]
    assert {key: line["labels"][key] for key in own | {"request": ""}} == own | {"request": "Produce"}
