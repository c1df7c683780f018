"""deploy/: every file can be read by what it is for, and names only what exists."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import promql_parser
import pytest
import trustme
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509 import DNSName, IPAddress, SubjectAlternativeName, load_pem_x509_certificate

from forwarding.config import ControllerConfig
from proxy.commands.check import check, checked
from proxy.config import ProxyConfig, UsersFile, load
from tests.support import alert_descriptions

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES_VERSIONS = ("1.29", "1.37")
MANIFESTS = [
    document
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) + sorted((DEPLOY / "spark").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
SECRET_FILE = re.compile(r"secrets/[\w.-]+")


def text(path: str) -> str:
    return (DEPLOY / path).read_text(encoding="utf-8")


def example_file(path: str) -> str:
    return (ROOT / "proxy" / "examples" / path).read_text(encoding="utf-8")


def with_secrets(directory: Path, files: dict[str, str]) -> Path:
    """The files as a container sees them: side by side, with every secret that they name."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    signing = Ed25519PrivateKey.generate()
    contents = {
        "signing.key": signing.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ".pub": signing.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "ca.crt": authority.cert_pem.bytes(),
        ".crt": b"".join(pem.bytes() for pem in issued.cert_chain_pems),
        ".key": issued.private_key_pem.bytes(),
        ".password": b"secret\n",
        ".token": b"0123456789abcdef\n",
    }
    for name, text in files.items():
        content = re.sub(r"/etc/penstock(-users)?/", f"{directory}/", text)
        (directory / name).write_text(content, encoding="utf-8")
        for secret in SECRET_FILE.findall(content):
            (directory / secret).parent.mkdir(exist_ok=True)
            kind = next(ending for ending in contents if secret.endswith(ending))
            (directory / secret).write_bytes(contents[kind])
    return directory


def config_map(name: str) -> dict[str, str]:
    data = next(
        manifest["data"]
        for manifest in MANIFESTS
        if manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == name
    )
    return dict(data)


def values_of(document: Any, key: str) -> Iterator[Any]:
    """Every value that stands under `key`, at any depth."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key:
                yield value
            yield from values_of(value, key)
    elif isinstance(document, list):
        for element in document:
            yield from values_of(element, key)


def expressions() -> list[str]:
    """Every PromQL expression of the alerts and of the dashboard, with Grafana's variables filled in."""
    rules = yaml.safe_load(example_file("prometheus/rules.yaml"))
    dashboard = json.loads(example_file("grafana/penstock.json"))
    compat = yaml.safe_load(example_file("prometheus/kafka-compat.yaml"))
    found = [each for file in (rules, compat, dashboard) for each in values_of(file, "expr")]
    return [expression.replace("$__rate_interval", "1m") for expression in found]


def example(source: str, process: str, *users: str) -> dict[str, str]:
    """The configuration of a process with its users file, as compose or as Kubernetes mounts it."""
    if source == "kubernetes":
        files = config_map(f"penstock-{process}")
        pod = {"proxy": "kafka-2", "controller": "penstock-controller-0"}[process]
        return files | {f"{process}.yaml": files[f"{pod}.yaml"]}
    return {name: text(f"config/{name}") for name in (f"{process}.yaml", *users)}


@pytest.mark.spec("O5")
@pytest.mark.parametrize("source", ["compose", "kubernetes"])
def test_penstock_check_finds_nothing_wrong_with_the_examples(source: str, tmp_path: Path) -> None:
    files = example(source, "proxy") | example(source, "controller", "controller-users.yaml")
    directory = with_secrets(tmp_path, {"users.yaml": text("config/users.yaml")} | files)

    assert check(directory / "proxy.yaml") == []
    assert check(directory / "controller.yaml") == []
    for name in ("proxy.yaml", "controller.yaml"):
        assert [told for told in checked(directory / name).warnings if "http.bind" in told] == []


@pytest.mark.spec("O2")
def test_prometheus_scrapes_with_the_token_that_the_examples_ask_for() -> None:
    services = yaml.safe_load(text("compose.yaml"))["services"]
    *jobs, audit = yaml.safe_load(text("prometheus/scrape.yaml"))["scrape_configs"]
    # The audit service shows counts and times only.
    assert audit.keys() == {"job_name", "static_configs"}
    for job in jobs:
        files = {Path(job["authorization"]["credentials_file"]), Path(job["tls_config"]["ca_file"])}
        assert (job["scheme"], job["authorization"]["type"]) == ("https", "Bearer")
        assert {path.name for path in files} <= set(services["prometheus"]["secrets"])
        service = services[job["job_name"].removeprefix("penstock-")]
        assert "/etc/penstock/secrets/http.token" in {each["target"] for each in service["secrets"]}


@pytest.mark.spec("O2", "O3")
def test_prometheus_scrapes_pods_by_the_name_in_their_certificate() -> None:
    names = {}
    *jobs, audit = yaml.safe_load(text("prometheus/kubernetes.yaml"))["scrape_configs"]
    assert "authorization" not in audit
    for job in jobs:
        assert (job["scheme"], job["authorization"]["type"]) == ("https", "Bearer")
        names[job["job_name"]] = job["tls_config"]["server_name"]

    sets = {each["metadata"]["name"]: each for each in MANIFESTS if each["kind"] == "StatefulSet"}
    assert names == {
        f"penstock-{process}": f"{name}-0.{sets[name]['spec']['serviceName']}.kafka.svc"
        for process, name in (("proxy", "kafka"), ("controller", "penstock-controller"))
    }


@pytest.mark.spec("O2")
def test_probes_ask_over_tls_for_what_needs_no_credential() -> None:
    probes = [
        probe["httpGet"]
        for each in MANIFESTS
        for kind in PROBES
        for probe in values_of(each, kind)
        if "httpGet" in probe
    ]

    # Without a scheme: the audit service.
    assert Counter(probe.get("scheme") for probe in probes)[None] == 2
    assert {probe.get("scheme") for probe in probes} == {"HTTPS", None}
    assert {probe["path"] for probe in probes} == {"/livez", "/readyz"}


@pytest.mark.spec("O5", "E4")
@pytest.mark.parametrize("source", ["compose", "kubernetes"])
def test_the_example_controller_knows_the_example_proxies(source: str, tmp_path: Path) -> None:
    files = example(source, "proxy") | example(source, "controller", "controller-users.yaml")
    directory = with_secrets(tmp_path, files | {"users.yaml": text("config/users.yaml")})

    controller = load(directory / "controller.yaml", ControllerConfig)
    proxy = load(directory / "proxy.yaml", ProxyConfig)

    assert controller.users_file is not None
    assert proxy.controller.sasl is not None
    assert proxy.controller.sasl.username in load(controller.users_file, UsersFile).users
    assert f"User:{proxy.controller.sasl.username}" in controller.authorizer.super_users.split(";")
    assert controller.metadata.topic == proxy.metadata.topic


@pytest.mark.spec("O1")
def test_the_example_proxies_name_one_another_where_each_says_that_it_is(tmp_path: Path) -> None:
    directory = with_secrets(tmp_path, config_map("penstock-proxy"))

    proxy = load(directory / "kafka-2.yaml", ProxyConfig)

    (listener,) = proxy.listeners
    assert sorted(proxy.upstream.advertised_brokers) == [0, 1, 2]
    assert proxy.upstream.node_id == 2
    assert proxy.upstream.advertised_brokers[2] == {listener.name: listener.advertised}


@pytest.mark.spec("O1")
@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_manifest_is_what_kubernetes_takes(version: str) -> None:
    for manifest in MANIFESTS:
        kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.spec("O1", "O4")
def test_the_sidecar_starts_before_the_broker_and_drains_before_it() -> None:
    pod = next(m for m in MANIFESTS if m["metadata"]["name"] == "kafka" and m["kind"] == "StatefulSet")
    spec = pod["spec"]["template"]["spec"]
    sidecar = next(container for container in spec["initContainers"] if container["name"] == "penstock")
    [broker] = spec["containers"]

    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["lifecycle"]["preStop"]["exec"]["command"][-1] == "kill -TERM 1"
    assert "9190" in broker["lifecycle"]["preStop"]["exec"]["command"][-1]


@pytest.mark.spec("O1")
def test_manifests_mount_only_configuration_and_secrets_that_exist() -> None:
    config_maps = {m["metadata"]["name"]: set(m["data"]) for m in MANIFESTS if m["kind"] == "ConfigMap"}
    used = {volume["name"] for volume in values_of(MANIFESTS, "configMap") if "name" in volume}
    secret_keys = {
        item["key"] for secret in values_of(MANIFESTS, "secret") for item in secret.get("items", [])
    }

    assert used <= set(config_maps)
    assert {f"secrets/{key}" for key in secret_keys} >= set(SECRET_FILE.findall(str(MANIFESTS)))


@pytest.mark.spec("S14")
def test_only_controllers_mount_the_key_that_signs_the_metadata_log() -> None:
    compose = yaml.safe_load(text("compose.yaml"))["services"]
    in_compose = {
        name
        for name, service in compose.items()
        if "signing.key" in str(service.get("secrets")) or "config/secrets" in str(service.get("volumes"))
    }
    with_key = {m["metadata"]["name"] for m in MANIFESTS if "signing.key" in set(values_of(m, "key"))}
    with_public = {m["metadata"]["name"] for m in MANIFESTS if "controllers.pub" in set(values_of(m, "key"))}
    secrets = {
        source["secret"]["name"]
        for sources in values_of(MANIFESTS, "sources")
        for source in sources
        if "signing.key" in values_of(source, "key")
    }

    assert (in_compose, with_key) == ({"controller"}, {"penstock-controller"})
    assert with_public == {"kafka", "penstock-controller", "penstock-audit"}
    # In no Secret that a proxy mounts, and in no manifest: each upgrade would bring a new key.
    assert secrets == {"penstock-signing"}
    assert [m for m in MANIFESTS if m["kind"] == "Secret"] == []
    assert "--public-keys=/run/secrets/controllers.pub" in compose["audit"]["command"]


@pytest.mark.spec("O1")
def test_compose_mounts_only_files_that_exist_or_are_made_by_the_script() -> None:
    compose = yaml.safe_load(text("compose.yaml"))
    binds = [
        volume.split(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
        if volume.startswith(("./", "../"))
    ]
    secrets = {Path(secret["file"]).name for secret in compose["secrets"].values()}

    assert [bind for bind in binds if not (DEPLOY / bind).exists()] == []
    assert {name for name in secrets if Path(name).stem not in text("secrets.sh")} == set()


@pytest.mark.spec("O3", "O15")
def test_the_proxys_certificate_of_the_script_has_names_and_addresses(tmp_path: Path) -> None:
    names = ["*.kafka.svc", "kafka-1.example.org", "10.0.0.5", "fd00::5"]
    subprocess.run([DEPLOY / "secrets.sh", tmp_path / "secrets", *names], check=True, capture_output=True)
    certificate = load_pem_x509_certificate((tmp_path / "secrets" / "proxy.crt").read_bytes())
    found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value

    assert found.get_values_for_type(DNSName) == names[:2]
    assert [str(address) for address in found.get_values_for_type(IPAddress)] == names[2:]


@pytest.mark.spec("O2")
@pytest.mark.parametrize("expression", expressions())
def test_every_expression_is_promql(expression: str) -> None:
    filled_in = expression.replace("$instance", ".*").replace("$listener", ".*")

    assert promql_parser.parse(filled_in) is not None


@pytest.mark.spec("O2")
def test_every_alert_has_its_section_in_the_runbook() -> None:
    sections = re.findall(
        r"^## (\w+)$", (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    rules = yaml.safe_load(example_file("prometheus/rules.yaml"))
    alerts = list(values_of(rules, "alert"))

    assert sections == alerts
    assert alert_descriptions.RULES.read_text(encoding="utf-8") == alert_descriptions.made()
    annotations = list(values_of(rules, "annotations"))
    assert {frozenset(each) for each in annotations} == {frozenset(("summary", "description", "runbook"))}
    assert list(values_of(rules, "runbook")) == [f"docs/alerts.md#{alert.lower()}" for alert in alerts]


@pytest.mark.spec("O2")
def test_the_alert_rules_are_those_that_prometheus_loads() -> None:
    scrape = yaml.safe_load(text("prometheus/scrape.yaml"))
    compose = yaml.safe_load(text("compose.yaml"))
    targets = {target.split(":")[0] for targets in values_of(scrape, "targets") for target in targets}

    assert scrape["rule_files"] == ["rules.yaml"]
    assert targets == {"proxy", "controller", "audit"} <= set(compose["services"])


@pytest.mark.spec("O2")
@pytest.mark.parametrize("file", ["scrape.yaml", "kubernetes.yaml"])
def test_jobs_have_the_names_that_the_alerts_select(file: str) -> None:
    jobs = [job["job_name"] for job in yaml.safe_load(text(f"prometheus/{file}"))["scrape_configs"]]
    selected = re.findall(r'job(=~?)"([^"]+)"', example_file("prometheus/rules.yaml"))

    assert jobs == ["penstock-proxy", "penstock-controller", "penstock-audit"]
    assert selected == [("=~", "penstock-.*"), ("=", "penstock-proxy")]


@pytest.mark.spec("O2")
def test_pods_are_discovered_by_containers_and_ports_that_the_manifests_have() -> None:
    kept = [
        tuple(rule["regex"].split(";"))
        for rules in values_of(yaml.safe_load(text("prometheus/kubernetes.yaml")), "relabel_configs")
        for rule in rules
        if rule.get("action") == "keep"
    ]
    ports = {
        (container["name"], port["name"])
        for part in ("containers", "initContainers")
        for containers in values_of(MANIFESTS, part)
        for container in containers
        for port in container.get("ports", [])
    }

    assert kept == [(name, "penstock-http") for name in ("penstock", "controller", "audit")]
    assert set(kept) <= ports


@pytest.mark.spec("O2")
def test_panels_of_the_dashboard_do_not_lie_over_one_another() -> None:
    shown = json.loads(example_file("grafana/penstock.json"))["panels"]

    for together in (shown, *(panel["panels"] for panel in shown if panel["type"] == "row")):
        cells = [
            (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
            for panel in together
            for x in range(panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))


@pytest.mark.spec("O2")
def test_the_dashboard_opens_with_25_panels_and_the_other_rows_are_folded() -> None:
    """Grafana asks for nothing in a folded row until it is opened."""
    shown = json.loads(example_file("grafana/penstock.json"))["panels"]
    folded = [panel["collapsed"] for panel in shown if panel["type"] == "row"]

    assert sum(panel["type"] != "row" for panel in shown) == 25
    assert folded == [False] * 5 + [True] * 12
    assert all(panel["collapsed"] == bool(panel["panels"]) for panel in shown if panel["type"] == "row")
