"""deploy/helm/penstock: what it renders is what Kubernetes takes, and the plain manifests are made of it.

Skipped where helm is not in the cache; `make check-helm` builds it, and nothing is skipped then.
"""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from proxy.commands.check import check, warnings
from proxy.commands.init import example
from proxy.config import ProxyConfig, load
from tests.lab.cluster.errors import SetupError
from tests.support import chart
from tests.support.helm import helm, installed
from tests.unit.test_deploy import KUBERNETES_VERSIONS, values_of, with_secrets

DIGEST = "sha256:" + "0123456789abcdef" * 4
CUSTOM = ("monitoring.coreos.com/v1", "cert-manager.io/v1")
"""Kubernetes has no schema for these: what we write of them is compared instead."""
EVERYTHING = {
    "image": {"digest": DIGEST},
    "imagePullSecrets": [{"name": "registry"}],
    "brokers": {
        "replicas": 5,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "storage": {"size": "1Ti", "storageClassName": "fast"},
    },
    "controller": {"replicas": 3, "nodeSelector": {"disk": "ssd"}},
    "proxy": {"config": {"workers": 4, "limits": {"max.connections": 500}}},
    "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"kafka": "client"}}}]},
    "monitoring": {"podMonitor": True, "rules": True, "dashboard": True, "labels": {"release": "prometheus"}},
    "certManager": {"enabled": True, "dnsNames": ["kafka.example.org"]},
    "audit": {
        "enabled": True,
        "image": {"digest": DIGEST},
        "jobs": [
            {"name": "ingest", "command": "ingest", "schedule": "*/10 * * * *"},
            {"name": "reconcile", "command": "reconcile"},
            {"name": "page", "command": "report"},
            {"name": "service", "command": "run", "continuous": True, "args": ["--retain-days=30"]},
        ],
    },
}
BY_CERTIFICATE = {
    "http": {"authentication": "certificate"},
    "monitoring": {"serviceMonitor": True},
}
KRAFT = {
    "controller": {"enabled": False},
    "proxy": {"config": {"controller": {"mode": "kraft", "endpoints": ["kafka-0.kafka:9095"]}}},
}


@pytest.fixture(scope="module")
def program() -> Path:
    if os.environ.get("PENSTOCK_REQUIRE_HELM") == "1":
        return helm()
    found = installed()
    if found is None:
        pytest.skip("helm is not in the cache: `make check-helm` builds it")
    return found


def rendered(program: Path, directory: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    file = directory / "values.yaml"
    file.write_text(json.dumps(values), encoding="utf-8")
    return chart.objects(program, "--values", str(file))


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


@pytest.mark.spec("O1")
def test_the_plain_manifests_were_made_of_the_chart_as_it_is() -> None:
    """Needs no helm: it is the one of these tests that always runs."""
    files = [*(chart.DEPLOY / "kubernetes").glob("*.yaml"), chart.DEPLOY / "spark" / "service.yaml"]
    line = f"# Chart: sha256:{chart.chart_sha256()}\n"
    stale = [
        file.name
        for file in files
        if file.name != "kustomization.yaml" and line not in file.read_text(encoding="utf-8")
    ]

    assert stale == [], "run `make manifests`"
    assert len(files) == 6


@pytest.mark.tooling
def test_the_chart_is_of_the_projects_version() -> None:
    project = tomllib.loads((chart.DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))

    assert (metadata["version"], metadata["appVersion"]) == (project["version"], project["version"])


@pytest.mark.spec("O1")
def test_kustomize_lists_every_plain_manifest() -> None:
    directory = chart.DEPLOY / "kubernetes"
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text(encoding="utf-8"))

    assert sorted([*kustomization["resources"], "kustomization.yaml"]) == sorted(
        file.name for file in directory.glob("*.yaml")
    )


@pytest.mark.spec("O1")
def test_the_plain_manifests_are_what_the_chart_renders(program: Path) -> None:
    different = [
        file.name for file, text in chart.manifests(program) if file.read_text(encoding="utf-8") != text
    ]

    assert different == [], "run `make manifests`"


@pytest.mark.spec("O1")
def test_helm_finds_nothing_wrong_with_the_chart(program: Path) -> None:
    linted = chart.run(program, "lint", "--strict", str(chart.CHART))

    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize(
    "values",
    [{}, EVERYTHING, KRAFT, BY_CERTIFICATE],
    ids=["defaults", "everything", "kraft", "certificate"],
)
def test_what_the_chart_renders_is_what_kubernetes_takes(
    program: Path, tmp_path: Path, values: dict[str, Any], version: str
) -> None:
    for each in rendered(program, tmp_path, values):
        if each["apiVersion"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.spec("O5")
def test_penstock_check_finds_nothing_wrong_with_what_the_values_add(program: Path, tmp_path: Path) -> None:
    data = named(rendered(program, tmp_path, EVERYTHING), "ConfigMap", "penstock-proxy")["data"]
    filled_in = {name: text.replace("@NAME@", "kafka-4").replace("@ID@", "4") for name, text in data.items()}
    directory = with_secrets(tmp_path, filled_in)

    proxy = load(directory / "proxy.yaml", ProxyConfig)

    assert check(directory / "proxy.yaml") == []
    assert (proxy.workers, proxy.limits.max_connections, proxy.limits.drain_timeout_ms) == (4, 500, 30_000)
    assert sorted(proxy.upstream.advertised_brokers) == [0, 1, 2, 3, 4]


@pytest.mark.spec("O1")
def test_images_are_named_by_digest_where_one_is_given(program: Path, tmp_path: Path) -> None:
    images = set(values_of(rendered(program, tmp_path, EVERYTHING), "image"))

    assert images == {f"penstock@{DIGEST}", f"penstock-audit@{DIGEST}", "apache/kafka:4.4.0"}


@pytest.mark.spec("O1", "O4")
def test_a_changed_configuration_restarts_the_pods(program: Path, tmp_path: Path) -> None:
    def checksums(values: dict[str, Any]) -> list[str]:
        return list(values_of(rendered(program, tmp_path, values), "checksum/configuration"))

    before = checksums({})
    after = checksums({"proxy": {"config": {"workers": 2}}})

    assert len(before) == 2
    assert set(before).isdisjoint(after)


@pytest.mark.spec("O2")
@pytest.mark.parametrize(("monitor", "port"), [("podMonitor", "penstock-http"), ("serviceMonitor", "http")])
def test_monitors_scrape_under_the_names_that_the_alerts_select(
    program: Path, tmp_path: Path, monitor: str, port: str
) -> None:
    objects = rendered(program, tmp_path, {"monitoring": {monitor: True}})
    kind = monitor[0].upper() + monitor[1:]
    monitors = [each for each in objects if each["kind"] == kind]
    endpoints = [
        end for each in monitors for key in each["spec"] if "ndpoints" in key for end in each["spec"][key]
    ]
    apps = [each["spec"]["selector"]["matchLabels"]["app"] for each in monitors]
    jobs = [rule["replacement"] for end in endpoints for rule in end["relabelings"] if "replacement" in rule]
    ports = [
        {each["name"] for each in part}
        for name in apps
        for part in values_of(
            named(objects, "Service" if monitor == "serviceMonitor" else "StatefulSet", name), "ports"
        )
    ]

    assert sorted(zip(apps, jobs, strict=True)) == [
        ("kafka", "penstock-proxy"),
        ("penstock-controller", "penstock-controller"),
    ]
    assert {end["port"] for end in endpoints} == {port}
    assert sum(port in names for names in ports) == 2


@pytest.mark.spec("O2", "O3")
@pytest.mark.parametrize("values", [{}, BY_CERTIFICATE], ids=["token", "certificate"])
def test_monitors_show_what_the_processes_ask_for_and_check_whom_they_scrape(
    program: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    objects = rendered(program, tmp_path, values | {"monitoring": {"serviceMonitor": True}})
    monitors = [each for each in objects if each["kind"] == "ServiceMonitor"]
    endpoints = {each["metadata"]["name"]: each["spec"]["endpoints"][0] for each in monitors}
    configurations = {
        f"penstock-{process}": yaml.safe_load(
            named(objects, "ConfigMap", f"penstock-{process}")["data"][f"{process}.yaml"]
        )["http"]
        for process in ("proxy", "controller")
    }
    mounted = {
        (source["secret"]["name"], item["key"], f"secrets/{item['path']}")
        for volume in values_of(objects, "projected")
        for source in volume["sources"]
        for item in source["secret"]["items"]
    }

    assert set(endpoints) == set(configurations)
    for name, endpoint in endpoints.items():
        http, tls = configurations[name], endpoint["tlsConfig"]
        assert endpoint["scheme"] == "https"
        # The CA of the certificate that is served, and a name in it: *.kafka.kafka.svc.
        assert tls["ca"]["secret"] == {"name": "penstock", "key": "ca.crt"}
        app = {"penstock-proxy": "kafka"}.get(name, name)
        assert tls["serverName"] == f"{app}-0.{app}.kafka.svc"
        if values:
            assert ("penstock-monitoring", "ca.crt", http["ssl"]["ca"]) in mounted
            assert {tls["cert"]["secret"]["name"], tls["keySecret"]["name"]} == {"penstock-monitoring"}
            assert "authorization" not in endpoint
        else:
            token = endpoint["authorization"]["credentials"]
            assert (token["name"], token["key"], http["bearer.token.file"]) in mounted
    # A monitor's key is for Prometheus alone.
    assert [key for name, key, _ in mounted if name == "penstock-monitoring" and key != "ca.crt"] == []


@pytest.mark.spec("O5")
def test_penstock_check_takes_the_http_port_for_closed(program: Path, tmp_path: Path) -> None:
    objects = rendered(program, tmp_path, BY_CERTIFICATE)
    for process in ("proxy", "controller"):
        data = named(objects, "ConfigMap", f"penstock-{process}")["data"]
        filled_in = {
            name: text.replace("@NAME@", "kafka-1").replace("@ID@", "1") for name, text in data.items()
        }
        file = with_secrets(tmp_path, filled_in) / f"{process}.yaml"
        assert check(file) == []
        assert [told for told in warnings(file) if "http" in told] == []


@pytest.mark.spec("O2")
def test_the_prometheus_rule_and_the_dashboard_are_those_of_the_project(
    program: Path, tmp_path: Path
) -> None:
    objects = rendered(program, tmp_path, EVERYTHING)
    rules = yaml.safe_load(example("prometheus/rules.yaml"))
    dashboard = example("grafana/penstock.json")

    assert named(objects, "PrometheusRule", "penstock")["spec"] == rules
    found = named(objects, "ConfigMap", "penstock-dashboard")
    assert json.loads(found["data"]["penstock.json"]) == json.loads(dashboard)
    assert found["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.spec("O3")
def test_cert_manager_issues_what_the_processes_mount(program: Path, tmp_path: Path) -> None:
    objects = rendered(program, tmp_path, EVERYTHING)
    certificates = {
        each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Certificate"
    }
    mounted = {
        source["secret"]["name"]: {item["path"] for item in source["secret"].get("items", ())}
        for volume in values_of(objects, "projected")
        for source in volume["sources"]
    }

    assert {name: spec["dnsNames"] for name, spec in certificates.items()} == {
        "penstock-proxy": ["*.kafka.kafka.svc", "kafka.example.org"],
        "penstock-controller": ["*.penstock-controller.kafka.svc"],
    }
    for process in ("proxy", "controller"):
        secret = certificates[f"penstock-{process}"]["secretName"]
        assert mounted[secret] == {f"{process}.crt", f"{process}.key", "ca.crt"}


@pytest.mark.spec("O2")
def test_only_the_monitoring_namespace_reaches_the_metrics(program: Path, tmp_path: Path) -> None:
    objects = rendered(program, tmp_path, {"networkPolicy": {"monitoringNamespace": "observability"}})
    rules = [rule for each in objects if each["kind"] == "NetworkPolicy" for rule in each["spec"]["ingress"]]
    to_metrics = [rule.get("from") for rule in rules if {"port": 9190} in rule["ports"]]
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}

    assert to_metrics == [[{"namespaceSelector": namespace}]] * 2


@pytest.mark.spec("O1")
def test_audit_jobs_are_deployments_cron_jobs_or_jobs(program: Path, tmp_path: Path) -> None:
    jobs = {
        each["metadata"]["name"]: (each["kind"], next(values_of(each, "args")))
        for each in rendered(program, tmp_path, EVERYTHING)
        if each["kind"] in ("CronJob", "Job") or each["metadata"]["name"] == "penstock-service"
    }
    tables = "--tables=/var/lib/penstock-audit/tables"
    out = "/var/lib/penstock-audit/report"

    assert jobs["penstock-ingest"][0] == "CronJob"
    public_keys = "--public-keys=/etc/penstock/controllers.pub"
    assert jobs["penstock-reconcile-1"] == ("Job", ["reconcile", tables, public_keys, f"--out={out}"])
    assert jobs["penstock-page-1"] == (
        "Job",
        ["report", tables, f"--findings={out}", f"--out={out}/report.html"],
    )
    kind, arguments = jobs["penstock-service"]
    assert (kind, arguments[0]) == ("Deployment", "run")
    assert arguments[-4:] == [f"--out={out}", "--continuous", "--http=0.0.0.0:9190", "--retain-days=30"]


@pytest.mark.spec("O5")
@pytest.mark.parametrize(
    ("values", "named_in_the_error"),
    [
        ({"imag": {}}, "imag"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"brokers": {"replicas": 0}}, "replicas"),
        ({"http": {"authentication": "none"}}, "authentication"),
        ({"monitoring": {"podMonitor": True, "serviceMonitor": True}}, "monitoring"),
        ({"audit": {"jobs": [{"name": "a", "command": "drop"}]}}, "command"),
        ({"audit": {"jobs": [{"name": "a", "command": "ingest", "continuous": True}]}}, "command"),
        ({"controller": {"enabled": False}}, "proxy.config.controller"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it(
    program: Path, tmp_path: Path, values: dict[str, Any], named_in_the_error: str
) -> None:
    with pytest.raises(SetupError, match=named_in_the_error):
        rendered(program, tmp_path, values)
