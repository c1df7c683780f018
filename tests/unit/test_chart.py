"""deploy/helm/penstock: what it renders is what Kubernetes takes, and the plain manifests are made of it.

Skipped where helm is not in the cache; `make check-helm` builds it, and nothing is skipped then.
"""

import contextlib
import copy
import json
import os
import re
import shutil
import socketserver
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import trustme
import yaml
from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # no types

from proxy.commands.check import check, checked
from proxy.commands.init import example
from proxy.config import ProxyConfig, UsersFile, load
from tests.lab.cluster.errors import SetupError
from tests.support import chart
from tests.support.helm import helm, installed
from tests.unit.test_deploy import KUBERNETES_VERSIONS, values_of, with_secrets

DIGEST = "sha256:" + "0123456789abcdef" * 4
CUSTOM = ("monitoring.coreos.com/v1", "cert-manager.io/v1", "gateway.networking.k8s.io/v1alpha2")
"""Kubernetes has no schema for these: what we write of them is compared instead."""
NODE = "10.0.0.5"
BUNDLED = {"mode": "bundled"}
STANDALONE = {
    "cluster": {"brokers": [{"id": 7, "address": "b-7:9096"}, {"id": 8, "address": "b-8:9096"}]},
}
BY_CERTIFICATE = BUNDLED | {
    "http": {"authentication": "certificate"},
    "monitoring": {"serviceMonitor": True},
}
SETS = pytest.mark.parametrize("values", chart.VALUE_SETS, ids=lambda file: file.stem)


def of_set(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((chart.CHART / "ci" / f"{name}-values.yaml").read_text("utf-8"))
    return found


EVERYTHING = of_set("bundled")


@pytest.fixture(autouse=True)
def on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the downward API adds to the environment of a pod."""
    monkeypatch.setenv("NODE_IP", NODE)


@pytest.fixture(scope="module")
def program() -> Path:
    if os.environ.get("PENSTOCK_REQUIRE_HELM") == "1":
        return helm()
    found = installed()
    if found is None:
        pytest.skip("helm is not in the cache: `make check-helm` builds it")
    return found


KUBERNETES = ("--namespace", "kafka", "--kube-version", "1.29.0")
PODS = {"proxy": "kafka-1", "controller": "penstock-controller-1"}


def rendered(program: Path, directory: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    file = directory / "values.yaml"
    file.write_text(json.dumps(values), encoding="utf-8")
    return chart.objects(program, "--values", str(file))


@cache
def of_file(program: Path, values: Path) -> list[dict[str, Any]]:
    return chart.objects(program, "--values", str(values))


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
    assert len(files) == 7


@pytest.mark.spec("O15")
def test_the_page_of_the_values_and_the_keys_that_need_a_restart_were_made_of_what_is_there() -> None:
    """Needs no helm either."""
    different = [file.name for file, text in chart.made_files() if file.read_text(encoding="utf-8") != text]

    assert different == [], "run `make manifests`"


@pytest.mark.spec("O15")
def test_there_is_a_path_with_values_for_each_kind_of_cluster() -> None:
    page = (chart.DEPLOY / "README.md").read_text(encoding="utf-8")
    paths = dict(re.findall(r"^### ([^\n]+)\n(.+?)(?=^##)", page, re.MULTILINE | re.DOTALL))
    linked = {name: re.findall(r"helm/penstock/ci/(\w+)-values\.yaml", text) for name, text in paths.items()}
    guide = (chart.DEPLOY.parent / "docs" / "guide.md").read_text(encoding="utf-8")

    assert {name: files for name, files in linked.items() if files} == {
        "Strimzi": ["strimzi"],
        "Amazon MSK": ["msk"],
        "Confluent": ["confluent"],
        "Plain brokers": ["plain"],
        "As a sidecar": ["sidecar"],
    }
    for name in ("Strimzi", "Amazon MSK", "Confluent", "Plain brokers"):
        assert f"deploy/README.md#{name.lower().replace(' ', '-')})" in guide


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


@pytest.mark.spec("O1", "O15")
@SETS
def test_helm_finds_nothing_wrong_with_the_chart(program: Path, values: Path) -> None:
    kubernetes = ("--kube-version", "1.29.0")
    linted = chart.run(program, "lint", "--strict", str(chart.CHART), "--values", str(values), *kubernetes)

    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.spec("O1", "O15")
@SETS
def test_what_the_chart_renders_is_what_kubernetes_takes(program: Path, values: Path) -> None:
    objects = of_file(program, values)
    kinds = {each["kind"] for each in objects}

    assert {"ConfigMap", "ServiceAccount", "Pod"} <= kinds
    for each in objects:
        if each["apiVersion"] not in CUSTOM:
            for version in KUBERNETES_VERSIONS:
                kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.spec("O5", "O15")
@SETS
def test_penstock_check_finds_nothing_wrong_with_what_each_process_reads(
    program: Path, tmp_path: Path, values: Path
) -> None:
    objects = of_file(program, values)
    data = {
        name: text
        for each in objects
        if each["kind"] == "ConfigMap"
        for name, text in each["data"].items()
        if name.endswith(".yaml") and name != "patch.yaml"
    }
    directory = with_secrets(
        tmp_path, {"users.yaml": "users: {a: {password.file: secrets/a.password}}"} | data
    )
    processes = [name for name in data if name.endswith("-0.yaml")]

    assert [problem for name in processes for problem in check(directory / name)] == []
    assert len(processes) == 2 - (values.stem == "plain-values")


@pytest.mark.spec("O5")
def test_values_of_the_configuration_are_added_to_those_of_the_chart(program: Path, tmp_path: Path) -> None:
    data = named(rendered(program, tmp_path, EVERYTHING), "ConfigMap", "penstock-proxy")["data"]
    proxy = load(with_secrets(tmp_path, data) / "kafka-4.yaml", ProxyConfig)

    assert (proxy.workers, proxy.limits.max_connections, proxy.limits.drain_timeout_ms) == (4, 500, 30_000)
    assert sorted(proxy.upstream.advertised_brokers) == [0, 1, 2, 3, 4]


@pytest.mark.spec("O1")
def test_images_are_named_by_digest_where_one_is_given(program: Path, tmp_path: Path) -> None:
    images = set(values_of(rendered(program, tmp_path, EVERYTHING), "image"))

    assert images == {f"penstock@{DIGEST}", f"penstock-audit@{DIGEST}", "apache/kafka:4.4.0"}


RIGHTS = "acls:\n- {resource.type: TOPIC, resource.name: orders, principal: 'User:a', operation: READ}\n"
ASSERTION = "payroll: no principal but User:alice may WRITE topic prefix payroll-\n"
USERS = {"users": {"bob": {"password.hash": "scrypt$..."}}}
CHANGES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a user": ({"proxy": USERS}, set()),
    "a key of the proxies that a reload changes": (
        {"proxy": {"config": {"quota": {"producer.default": 1000}, "log": {"level": "DEBUG"}}}},
        set(),
    ),
    "a key of the controllers that a reload changes": (
        {"controller": {"config": {"authorizer": {"super.users": "User:root"}}}},
        set(),
    ),
    "another broker": (
        {"cluster": {"brokers": [*STANDALONE["cluster"]["brokers"], {"id": 9, "address": "b-9:9096"}]}},
        {"controller"},
    ),
    "a key of the controllers that needs a restart": (
        {"controller": {"config": {"metadata": {"transactional.id": "another"}}}},
        {"controller"},
    ),
    "a candidate": ({"policy": {"candidate": "acls: []"}}, set()),
    "the first assertions": ({"policy": {"assertions": ASSERTION}}, {"controller"}),
    "a key of the proxies that needs a restart": ({"proxy": {"config": {"workers": 2}}}, {"proxy"}),
}
"""What changes -> the components whose pods restart."""


def pod_templates(program: Path, directory: Path, values: dict[str, Any]) -> dict[str, Any]:
    """By component."""
    sets = (each for each in rendered(program, directory, values) if each["kind"] == "StatefulSet")
    return {
        each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]: each["spec"]["template"]
        for each in sets
    }


@pytest.mark.spec("O15", "O4")
@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("mode", ["standalone", "bundled"])
def test_only_what_needs_a_restart_restarts_pods(
    program: Path, tmp_path: Path, changed: str, mode: str
) -> None:
    extra, restarted = CHANGES[changed]
    base = STANDALONE | {"mode": mode}
    before = pod_templates(program, tmp_path, base)
    after = pod_templates(program, tmp_path, base | extra)

    component = {"bundled": "broker"}.get(mode, "proxy")
    expected = {component if each == "proxy" else each for each in restarted}
    if mode == "bundled" and "cluster" in extra:
        expected = set()
    assert set(before) == {component, "controller"}
    assert {each for each in before if before[each] != after[each]} == expected


@pytest.mark.spec("O15", "O4")
def test_another_broker_restarts_no_pod_where_proxies_ask_for_addresses(
    program: Path, tmp_path: Path
) -> None:
    def of_nodes(*node_ids: int) -> dict[str, Any]:
        brokers = [{"id": node_id} for node_id in node_ids]
        return pod_templates(program, tmp_path, {"cluster": {"bootstrap": "b:9096", "brokers": brokers}})

    assert of_nodes(7, 8) == of_nodes(7, 8, 9)


@pytest.mark.spec("O15", "O1")
def test_a_proxy_asks_for_the_address_that_the_values_do_not_have(program: Path, tmp_path: Path) -> None:
    brokers = [{"id": 7}, {"id": 8, "address": "b-8:9096"}]
    objects = rendered(program, tmp_path, {"cluster": {"bootstrap": "b-1:9096,b-2:9096", "brokers": brokers}})
    data = named(objects, "ConfigMap", "penstock-proxy")["data"]
    of_controllers = named(objects, "ConfigMap", "penstock-controller")["data"]["penstock-controller-0.yaml"]
    directory = with_secrets(tmp_path, data)
    proxies = [load(directory / f"penstock-proxy-{number}.yaml", ProxyConfig).upstream for number in (0, 1)]

    assert [(each.node_id, each.bootstrap) for each in proxies] == [(7, None), (8, ("b-8:9096",))]
    assert {each.internal_bootstrap for each in proxies} == {("b-1:9096", "b-2:9096")}
    assert yaml.safe_load(of_controllers)["broker"]["bootstrap"] == "b-1:9096,b-2:9096"


@pytest.mark.spec("O15", "D18", "D19")
@pytest.mark.parametrize("own_controllers", [True, False])
def test_the_files_of_policies_are_mounted_where_they_decide_and_change_without_a_restart(
    program: Path, tmp_path: Path, own_controllers: bool
) -> None:
    controller = yaml.safe_load((chart.CHART / "ci" / "plain-values.yaml").read_text("utf-8"))
    base = STANDALONE if own_controllers else controller

    def deployed(assertions: str) -> tuple[dict[tuple[str, str], str], list[Any]]:
        policy = {"assertions": assertions, "candidate": RIGHTS}
        objects = rendered(program, tmp_path, base | {"policy": policy})
        data = {
            (name, file): text
            for each in objects
            if each["kind"] == "ConfigMap"
            for file, text in each["data"].items()
            for name in [each["metadata"]["name"].rpartition("-")[2]]
        }
        return data, [each["spec"]["template"] for each in objects if each["kind"] == "StatefulSet"]

    data, pods = deployed(ASSERTION)
    changed, later = deployed(f"# Reviewed.\n{ASSERTION}")

    judge = "controller" if own_controllers else "proxy"
    assert [key for key in data if key[1] == "assertions.txt"] == [(judge, "assertions.txt")]
    assert (data["proxy", "candidate.yaml"], data[judge, "assertions.txt"]) == (RIGHTS, ASSERTION)
    assert (changed[judge, "assertions.txt"], later) == (f"# Reviewed.\n{ASSERTION}", pods)
    texts = {file: text for (_, file), text in data.items()}
    directory = with_secrets(tmp_path, texts)
    processes = [name for name in texts if name.endswith("-0.yaml")]
    assert [problem for name in processes for problem in check(directory / name)] == []
    (directory / "candidate.yaml").write_text("acls: nonsense\n", encoding="utf-8")
    assert [problem for name in processes for problem in check(directory / name)] != []


@pytest.mark.spec("O15")
@SETS
def test_what_a_process_reloads_is_mounted_as_a_directory(program: Path, values: Path) -> None:
    """A file mounted by `subPath` never changes."""
    objects = of_file(program, values)
    objects = [*objects, *(yaml.safe_load(text) for text in values_of(objects, "patch.yaml"))]
    mounts = [mount for each in values_of(objects, "volumeMounts") for mount in each]
    by_file = {mount["mountPath"] for mount in mounts if "subPath" in mount or "subPathExpr" in mount}

    assert "/etc/penstock" in {mount["mountPath"] for mount in mounts}
    # A broker of the demo reads its file at its start only.
    assert by_file <= {"/mnt/shared/config/server.properties"}


@pytest.mark.spec("O15", "O9")
def test_the_files_that_a_process_watches_survive_a_change_of_the_volume(
    program: Path, tmp_path: Path
) -> None:
    """A kubelet writes a new directory, turns a symbolic link to it, and deletes the old one."""
    data = named(rendered(program, tmp_path, STANDALONE), "ConfigMap", "penstock-proxy")["data"]
    mounted = tmp_path / "mounted"
    mounted.mkdir()

    def write(version: str) -> None:
        directory = mounted / version
        directory.mkdir()
        files = {name: text.replace("/etc/penstock/", f"{mounted}/") for name, text in data.items()}
        with_secrets(directory, files)
        secrets = {found for text in data.values() for found in re.findall(r"secrets/[\w.-]+", text)}
        assert {f"secrets/{file.name}" for file in (directory / "secrets").iterdir()} == secrets
        turned = mounted / "turned"
        turned.symlink_to(version)
        turned.replace(mounted / "..data")

    write("..1")
    for name in (*data, "secrets"):
        (mounted / name).symlink_to(f"..data/{name}")
    file = mounted / "penstock-proxy-0.yaml"
    before = load(file, ProxyConfig)
    [listener] = before.listeners
    assert listener.ssl is not None
    assert before.users_file is not None
    users = load(before.users_file, UsersFile)

    write("..2")
    shutil.rmtree(mounted / "..1")

    watched = [listener.ssl.certificate, listener.ssl.key, before.users_file]
    watched += [user.password_file for user in users.users.values() if user.password_file is not None]
    assert [path for path in watched if not path.exists()] == []
    assert len(watched) == 4
    assert check(file) == []
    assert load(file, ProxyConfig) == before


@pytest.mark.spec("O15")
def test_two_releases_in_one_namespace_share_nothing(program: Path) -> None:
    def of_release(name: str) -> list[dict[str, Any]]:
        values = chart.CHART / "ci" / "strimzi-values.yaml"
        done = chart.run(program, "template", name, str(chart.CHART), "--values", str(values), *KUBERNETES)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.safe_load_all(done.stdout) if each]

    one, other = of_release("penstock"), of_release("second")
    names = [{(each["kind"], each["metadata"]["name"]) for each in both} for both in (one, other)]
    labels = [
        {json.dumps(each, sort_keys=True) for each in values_of(both, "matchLabels")} for both in (one, other)
    ]

    assert names[0].isdisjoint(names[1])
    # All but that of the namespace with the monitoring.
    assert len(labels[0] & labels[1]) == 1
    assert ("StatefulSet", "second-penstock-proxy") in names[1]


@pytest.mark.spec("O15")
@SETS
def test_objects_have_the_labels_that_tools_group_by(program: Path, values: Path) -> None:
    objects = of_file(program, values)
    common = {
        f"app.kubernetes.io/{each}" for each in ("name", "instance", "version", "component", "managed-by")
    }

    for each in objects:
        assert {*common, "helm.sh/chart"} <= set(each["metadata"]["labels"]), each["metadata"]["name"]
    for each in objects:
        if each["kind"] in ("StatefulSet", "Deployment"):
            chosen = set(each["spec"]["selector"]["matchLabels"])
            assert chosen == {f"app.kubernetes.io/{key}" for key in ("name", "instance", "component")}
    images = set(values_of(objects, "image"))
    assert not any(image.endswith((":latest", ":")) for image in images)


@pytest.mark.spec("O15")
def test_brokers_that_exist_get_a_proxy_each_under_their_node_ids(program: Path, tmp_path: Path) -> None:
    objects = rendered(program, tmp_path, of_set("msk"))
    data = named(objects, "ConfigMap", "penstock-proxy")["data"]
    directory = with_secrets(tmp_path, data)
    proxies = [load(directory / f"penstock-proxy-{number}.yaml", ProxyConfig) for number in range(3)]

    assert named(objects, "StatefulSet", "penstock-proxy")["spec"]["replicas"] == 3
    assert [proxy.proxy_id for proxy in proxies] == ["proxy-1", "proxy-2", "proxy-3"]
    assert [proxy.upstream.node_id for proxy in proxies] == [1, 2, 3]
    for proxy in proxies:
        own = {listener.name: listener.advertised for listener in proxy.listeners}
        assert proxy.upstream.node_id is not None
        assert proxy.upstream.advertised_brokers[proxy.upstream.node_id] == own
        assert own["EXTERNAL"] == f"b-{proxy.upstream.node_id}.kafka.example.org:9093"
        assert {listener.name: bool(listener.proxy_protocol_networks) for listener in proxy.listeners} == {
            "SASL_SSL": False,
            "EXTERNAL": True,
        }


EXTERNAL = {
    "LoadBalancer": ("Service", [(9093, None), (9093, None), (9093, None)]),
    "NodePort": ("Service", [(9096, 32100), (9096, 32101), (9096, 32102)]),
    "TLSRoute": ("TLSRoute", [(443, None), (443, None), (443, None)]),
    "Ingress": ("Ingress", [(443, None), (443, None), (443, None)]),
}
"""Type -> the kind that has clients' names; port and node port of the Services, that of all proxies first."""


@pytest.mark.spec("O15")
@pytest.mark.parametrize("kind", EXTERNAL)
def test_clients_outside_reach_each_proxy_where_it_says_that_it_is(
    program: Path, tmp_path: Path, kind: str
) -> None:
    external: dict[str, Any] = {"type": kind, "host": "b{id}.example.org", "bootstrapHost": "all.example.org"}
    external["tlsRoute"] = {"parentRefs": [{"name": "kafka"}]}
    objects = rendered(program, tmp_path, STANDALONE | {"external": external})
    names = ["penstock-bootstrap", "penstock-7", "penstock-8"]
    services = [named(objects, "Service", name)["spec"] for name in names]
    pods = [service["selector"].get("statefulset.kubernetes.io/pod-name") for service in services]
    ports = [(port["port"], port.get("nodePort")) for each in services for port in each["ports"]]
    data = named(objects, "ConfigMap", "penstock-proxy")["data"]
    told = [yaml.safe_load(data[f"{pod}.yaml"])["listeners"][1]["advertised"] for pod in pods[1:]]

    holder, expected = EXTERNAL[kind]
    assert pods == [None, "penstock-proxy-0", "penstock-proxy-1"]
    assert services[0]["selector"]["app.kubernetes.io/component"] == "proxy"
    assert ports == expected
    reached = [node or port for port, node in ports[1:]]
    assert told == [f"b{number}.example.org:{port}" for number, port in zip((7, 8), reached, strict=True)]
    if holder != "Service":
        routes = [str(named(objects, holder, name)["spec"]) for name in names]
        hosts = ["all.example.org", "b7.example.org", "b8.example.org"]
        assert all(host in route for host, route in zip(hosts, routes, strict=True))
    assert {service["type"] for service in services} == {kind if holder == "Service" else "ClusterIP"}


@pytest.mark.spec("O15", "O1")
@pytest.mark.parametrize(("host", "node"), [("{nodeIP}", NODE), ("[{nodeIP}]", "fd00::5")])
def test_behind_a_node_port_a_proxy_may_advertise_the_address_of_its_node(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, node: str
) -> None:
    monkeypatch.setenv("NODE_IP", node)
    external = {"type": "NodePort", "host": host, "annotations": {"names": "of {host}"}}
    certificates = {"enabled": True, "ipAddresses": ["10.0.0.5", "fd00::5"]}
    objects = rendered(program, tmp_path, STANDALONE | {"external": external, "certManager": certificates})
    directory = with_secrets(tmp_path, named(objects, "ConfigMap", "penstock-proxy")["data"])
    pod = named(objects, "StatefulSet", "penstock-proxy")["spec"]["template"]["spec"]
    services = [named(objects, "Service", f"penstock-{number}") for number in (7, 8)]
    of_proxies, of_controllers = (
        named(objects, "Certificate", f"penstock-{process}")["spec"] for process in ("proxy", "controller")
    )

    at = host.replace("{nodeIP}", node)
    for number, own in enumerate(("7", "8")):
        file = directory / f"penstock-proxy-{number}.yaml"
        proxy = load(file, ProxyConfig)
        assert check(file) == []
        assert proxy.upstream.advertised_brokers[int(own)]["EXTERNAL"] == proxy.listeners[1].advertised
        # Any node passes connections on to the proxy of each broker.
        told = {key: names["EXTERNAL"] for key, names in proxy.upstream.advertised_brokers.items()}
        assert told == {7: f"{at}:32101", 8: f"{at}:32102"}
    # `penstock check` reads the same file before the proxy.
    for container in (*pod["initContainers"], *pod["containers"]):
        (source,) = (each["valueFrom"] for each in container["env"] if each["name"] == "NODE_IP")
        assert source == {"fieldRef": {"fieldPath": "status.hostIP"}}
    assert [each["spec"]["externalTrafficPolicy"] for each in services] == ["Cluster", "Cluster"]
    assert [each["spec"]["ports"][0]["nodePort"] for each in services] == [32101, 32102]
    assert of_proxies["ipAddresses"] == ["10.0.0.5", "fd00::5"]
    assert not [name for name in of_proxies["dnsNames"] if "NODE_IP" in name or name == ""]
    assert "ipAddresses" not in of_controllers
    assert "NODE_IP" not in str([each["metadata"] for each in services])


@pytest.mark.spec("O15")
def test_the_patch_adds_a_proxy_to_the_pods_of_a_statefulset(program: Path, tmp_path: Path) -> None:
    objects = rendered(program, tmp_path, of_set("sidecar"))
    patch = yaml.safe_load(named(objects, "ConfigMap", "penstock-sidecar")["data"]["patch.yaml"])
    pod = patch["spec"]["template"]["spec"]
    sidecar = next(each for each in pod["initContainers"] if each["name"] == "penstock")
    [broker] = pod["containers"]

    # A patch of a StatefulSet: with what only the StatefulSet has, it is one that Kubernetes takes.
    whole = copy.deepcopy(patch)
    whole["spec"] |= {"serviceName": "kafka-headless", "selector": {"matchLabels": {"app": "kafka"}}}
    whole["spec"]["template"]["metadata"]["labels"] = {"app": "kafka"}
    whole["spec"]["template"]["spec"]["volumes"].append({"name": "penstock-spool", "emptyDir": {}})
    for version in KUBERNETES_VERSIONS:
        kubernetes_validate.validate(whole, version, strict=True)
    assert "StatefulSet" not in [each["kind"] for each in objects if "proxy" in each["metadata"]["name"]]
    assert sidecar["restartPolicy"] == "Always"
    assert (broker["name"], "9190" in str(broker["lifecycle"])) == ("kafka", True)
    mounted = {mount["name"] for mount in sidecar["volumeMounts"]}
    assert mounted - {volume["name"] for volume in pod["volumes"]} == {"penstock-spool"}


@pytest.mark.spec("O2")
@pytest.mark.parametrize(("monitor", "port"), [("podMonitor", "penstock-http"), ("serviceMonitor", "http")])
def test_monitors_scrape_under_the_names_that_the_alerts_select(
    program: Path, tmp_path: Path, monitor: str, port: str
) -> None:
    objects = rendered(program, tmp_path, BUNDLED | {"monitoring": {monitor: True}})
    kind = monitor[0].upper() + monitor[1:]
    monitors = [each for each in objects if each["kind"] == kind]
    endpoints = [
        end for each in monitors for key in each["spec"] if "ndpoints" in key for end in each["spec"][key]
    ]
    chosen = [each["spec"]["selector"]["matchLabels"] for each in monitors]
    components = [each["app.kubernetes.io/component"] for each in chosen]
    apps = [{"broker": "kafka"}.get(each, f"penstock-{each}") for each in components]
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
@pytest.mark.parametrize("values", [BUNDLED, BY_CERTIFICATE], ids=["token", "certificate"])
def test_monitors_show_what_the_processes_ask_for_and_check_whom_they_scrape(
    program: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    objects = rendered(program, tmp_path, values | {"monitoring": {"serviceMonitor": True}})
    monitors = [each for each in objects if each["kind"] == "ServiceMonitor"]
    endpoints = {each["metadata"]["name"]: each["spec"]["endpoints"][0] for each in monitors}
    configurations = {
        f"penstock-{process}": yaml.safe_load(
            named(objects, "ConfigMap", f"penstock-{process}")["data"][f"{pod}.yaml"]
        )["http"]
        for process, pod in PODS.items()
    }
    mounted = {
        (source["secret"]["name"], item["key"], f"/etc/penstock/{item['path']}")
        for volume in values_of(objects, "projected")
        for source in volume["sources"]
        if "secret" in source
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
        if values is BY_CERTIFICATE:
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
    for process, pod in PODS.items():
        data = named(objects, "ConfigMap", f"penstock-{process}")["data"]
        file = with_secrets(tmp_path, data) / f"{pod}.yaml"
        assert check(file) == []
        assert [told for told in checked(file).warnings if "http" in told] == []


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


@pytest.mark.spec("O2", "O15")
def test_alerts_have_a_url_where_the_chart_knows_where_the_pages_are(program: Path) -> None:
    objects = of_file(program, chart.CHART / "ci" / "strimzi-values.yaml")
    rules = named(objects, "PrometheusRule", "penstock")["spec"]
    recorded = named(objects, "PrometheusRule", "penstock-kafka-compat")["spec"]
    urls = set(values_of(rules, "runbook_url"))

    assert "https://wiki.example.org/penstock/docs/alerts.md#penstockdown" in urls
    assert len(urls) == len(list(values_of(rules, "alert")))
    assert list(values_of(rules, "runbook")) == []
    assert recorded == yaml.safe_load(example("prometheus/kafka-compat.yaml"))


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
        if "secret" in source
    }

    assert {name: spec["dnsNames"] for name, spec in certificates.items()} == {
        "penstock-proxy": ["*.kafka.kafka.svc", "kafka.kafka.svc", "kafka.example.org"],
        "penstock-controller": ["*.penstock-controller.kafka.svc"],
    }
    for process in ("proxy", "controller"):
        secret = certificates[f"penstock-{process}"]["secretName"]
        assert mounted[secret] == {
            f"secrets/{each}" for each in (f"{process}.crt", f"{process}.key", "ca.crt")
        }


@pytest.mark.spec("O2")
def test_only_the_monitoring_namespace_reaches_the_metrics(program: Path, tmp_path: Path) -> None:
    objects = rendered(
        program, tmp_path, STANDALONE | {"networkPolicy": {"monitoringNamespace": "observability"}}
    )
    rules = [rule for each in objects if each["kind"] == "NetworkPolicy" for rule in each["spec"]["ingress"]]
    to_metrics = [rule.get("from") for rule in rules if {"port": 9190} in rule["ports"]]
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}

    assert to_metrics == [[{"namespaceSelector": namespace}]] * 2


@pytest.mark.spec("O5", "O15")
def test_secrets_and_classes_may_have_dots_in_their_names(program: Path, tmp_path: Path) -> None:
    name = "kafka.example.org-tls"
    values = {
        "secretName": name,
        "serviceAccount": {"create": False, "name": name},
        "proxy": {"usersSecret": name, "priorityClassName": name},
    }

    pod = pod_templates(program, tmp_path, STANDALONE | values)["proxy"]["spec"]

    assert (pod["serviceAccountName"], pod["priorityClassName"]) == (name, name)
    assert [each for each in values_of(pod["volumes"], "secretName") if each == name]


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


@pytest.fixture
def listener() -> Iterator[tuple[str, Path, list[bytes]]]:
    """Its address, its CA, and what it responds to the request of each connection."""
    authority, responses = trustme.CA(), list[bytes]()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    class ListenerOfATest(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                contextlib.suppress(ssl.SSLError),
                context.wrap_socket(self.request, server_side=True) as stream,
            ):
                stream.recv(100)
                stream.sendall(responses[0])

    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), ListenerOfATest) as server,
        authority.cert_pem.tempfile() as ca,
    ):
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"localhost:{server.server_address[1]}", Path(ca), responses
        server.shutdown()
        thread.join()


@pytest.mark.spec("O15")
@pytest.mark.parametrize(
    ("response", "exit_code", "printed"),
    [
        (struct.pack(">iihihhh", 16, 7, 0, 1, 18, 0, 4), 0, ": ok, 1 APIs"),
        (struct.pack(">iihihhh", 16, 7, 35, 0, 0, 0, 0), 1, "error 35, 0 APIs"),
        (struct.pack(">iihihhh", 16, 8, 0, 1, 18, 0, 4), 1, "correlation id 8"),
        (b"HTTP", 1, ": failed: "),
        (b"", 1, ": failed: "),
    ],
    ids=["a proxy", "an error", "another response", "another server", "nothing"],
)
def test_the_script_of_helm_test_fails_at_what_does_not_respond_as_a_proxy(
    listener: tuple[str, Path, list[bytes]], response: bytes, exit_code: int, printed: str
) -> None:
    address, ca, responses = listener
    responses.append(response)

    done = connection_test(ca, address)

    assert (done.returncode, printed in done.stdout) == (exit_code, True), done


@pytest.mark.spec("O15", "O3")
def test_the_script_of_helm_test_checks_the_certificate(
    listener: tuple[str, Path, list[bytes]], tmp_path: Path
) -> None:
    address, ca, responses = listener
    responses.append(struct.pack(">iihihhh", 16, 7, 0, 1, 18, 0, 4))
    another = tmp_path / "ca.crt"
    another.write_bytes(trustme.CA().cert_pem.bytes())

    for done in (
        connection_test(another, address),
        connection_test(ca, address.replace("localhost", "127.0.0.1")),
    ):
        assert (done.returncode, "certificate verify failed" in done.stdout) == (1, True), done


def connection_test(*arguments: object) -> "subprocess.CompletedProcess[str]":
    script = chart.CHART / "files" / "connection_test.py"
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.spec("O5", "O15")
def test_large_numbers_are_written_with_all_their_digits(program: Path, tmp_path: Path) -> None:
    """Helm reads the numbers of a file as floats, and writes a float of a million as 1e+06."""
    properties = {"log.segment.bytes": 1073741824, "a.fraction": 0.5, "a.switch": True}
    objects = rendered(program, tmp_path, BUNDLED | {"brokers": {"properties": properties}})
    lines = named(objects, "ConfigMap", "kafka")["data"]["kafka-0.properties"].splitlines()
    brokers = [{"id": 2000000, "address": "b:9096"}]
    external = {"type": "LoadBalancer", "host": "b-{id}.example.org"}
    objects = rendered(program, tmp_path, {"cluster": {"brokers": brokers}, "external": external})
    data = named(objects, "ConfigMap", "penstock-proxy")["data"]

    assert {"log.segment.bytes=1073741824", "a.fraction=0.5", "a.switch=true"} <= set(lines)
    written = yaml.safe_load(data["penstock-proxy-0.yaml"])
    assert (written["proxy.id"], written["upstream"]["node.id"]) == ("proxy-2000000", 2000000)
    assert written["listeners"][1]["advertised"] == "b-2000000.example.org:9093"
    assert list(written["upstream"]["advertised.brokers"]) == ["2000000"]
    assert named(objects, "Service", "penstock-2000000")
    assert "e+0" not in json.dumps(objects)


def audit_jobs(*names: str) -> dict[str, Any]:
    return {"audit": {"enabled": True, "jobs": [{"name": name, "command": "verify"} for name in names]}}


@pytest.mark.spec("O5")
@pytest.mark.parametrize(
    ("values", "named_in_the_error"),
    [
        ({"imag": {}}, "imag"),
        (STANDALONE | {"secretName": "a..b"}, "secretName"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"brokers": {"replicas": 0}}, "replicas"),
        ({"http": {"authentication": "none"}}, "authentication"),
        (STANDALONE | {"monitoring": {"podMonitor": True, "serviceMonitor": True}}, "both true"),
        ({"audit": {"jobs": [{"name": "a", "command": "drop"}]}}, "command"),
        ({"audit": {"jobs": [{"name": "a", "command": "ingest", "continuous": True}]}}, "command"),
        (BUNDLED | {"controller": {"enabled": False}}, "proxy.config.controller"),
        ({}, "cluster.brokers is empty"),
        (BUNDLED | {"proxy": {"check": {"connect": True}}}, "proxy.check.connect"),
        (STANDALONE | {"mode": "sidecar"}, "sidecar.podLabels"),
        (STANDALONE | {"external": {"type": "LoadBalancer"}}, "external.host"),
        (STANDALONE | {"external": {"type": "TLSRoute", "host": "a-{id}"}}, "parentRefs"),
        (STANDALONE | {"external": {"type": "LoadBalancer", "host": "{nodeIP}"}}, "with external.type LoadB"),
        (
            STANDALONE | {"external": {"type": "NodePort", "host": "{nodeIP}", "trafficPolicy": "Local"}},
            "trafficPolicy is Local",
        ),
        (STANDALONE | {"external": {"type": "NodePort", "host": "[nodeIP]"}}, "external.host"),
        (STANDALONE | {"external": {"type": "NodePort", "host": "b-{ID}.example.org"}}, "external/host"),
        (STANDALONE | {"external": {"bootstrapHost": "{nodeIP}"}}, "bootstrapHost"),
        (STANDALONE | {"fullnameOverride": "0rel"}, 'no Service can be called "0rel"'),
        ({"brokers": {"name": "k" * 53}}, "brokers/name"),
        ({"brokers": {"name": "1kafka"}}, "brokers/name"),
        ({"certManager": {"ipAddresses": ["node-1"]}}, "ipAddresses"),
        ({"mode": "operator"}, "mode"),
        ({"cluster": {"brokers": [{"address": "kafka-0:9093"}]}}, "id"),
        ({"cluster": {"brokers": [{"id": 3}]}}, "the broker 3 has no address"),
        ({"cluster": {"bootstrap": "a:1", "brokers": [{"id": 3}, {"id": 3}]}}, "the id 3"),
        ({"cluster": {"bootstrap": "kafka", "brokers": [{"id": 3}]}}, "bootstrap"),
        ({"cluster": {"bootstrap": "a:1,b", "brokers": [{"id": 3}]}}, "bootstrap"),
        ({"cluster": {"brokers": [{"id": 0, "address": "a:1"}, {"id": 0, "address": "b:1"}]}}, "the id 0"),
        ({"cluster": {"brokers": [{"id": 0, "address": "a:1"}, {"id": 1, "address": "a:1"}]}}, "address a:1"),
        (STANDALONE | {"external": {"type": "LoadBalancer", "host": "kafka.example.org"}}, "no {id}"),
        (STANDALONE | audit_jobs("a", "a"), "penstock-a is used twice"),
        (STANDALONE | audit_jobs("a" * 44), "52 characters"),
        ({"proxy": {"extraEnv": {"TZ": "UTC"}}}, "extraEnv"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_it(
    program: Path, tmp_path: Path, values: dict[str, Any], named_in_the_error: str
) -> None:
    with pytest.raises(SetupError, match=named_in_the_error):
        rendered(program, tmp_path, values)


@pytest.mark.spec("O5", "O15")
@pytest.mark.parametrize("release", ["my.rel", "0rel"])
def test_a_release_whose_name_no_service_can_have_needs_another_name(
    program: Path, tmp_path: Path, release: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(STANDALONE), encoding="utf-8")
    words = ("template", release, str(chart.CHART), "--kube-version", "1.29.0", "--values", str(file))

    refused = chart.run(program, *words)
    named_otherwise = chart.run(program, *words, "--set", "fullnameOverride=gate")

    assert f'no Service can be called "{release}-penstock": set fullnameOverride' in refused.stderr
    assert (refused.returncode, named_otherwise.returncode) == (1, 0), named_otherwise.stderr
    assert "name: gate-proxy" in named_otherwise.stdout


def keys_with_defaults(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All but those of users, resources and annotations, which are free: null takes one of them away."""
    for key, value in values.items():
        yield (*path, key)
        if isinstance(value, dict) and key not in ("users", "resources", "annotations"):
            yield from keys_with_defaults(value, (*path, key))


@pytest.mark.spec("O5")
def test_null_instead_of_a_value_is_an_error_that_names_it() -> None:
    """Helm takes the default away then, and templates would take another branch or render null."""
    validator = Draft7Validator(json.loads((chart.CHART / "values.schema.json").read_text("utf-8")))
    defaults = yaml.safe_load((chart.CHART / "values.yaml").read_text("utf-8"))
    assert list(validator.iter_errors(defaults)) == []

    for path in keys_with_defaults(defaults):
        values = copy.deepcopy(defaults)
        parent = values
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        said = [f"{'.'.join(map(str, each.path))}: {each.message}" for each in validator.iter_errors(values)]
        assert said == [f"{'.'.join(path[:-1])}: '{path[-1]}' is a required property"]
