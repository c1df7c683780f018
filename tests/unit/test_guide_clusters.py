"""docs/guide.md: the blocks for each kind of cluster are valid, at a proxy and at a controller."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.commands.check import check
from tests.lab.cluster.certificates import write as write_certificates

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
KINDS = ("Plain brokers", "Strimzi", "Amazon MSK", "Confluent")

pytestmark = pytest.mark.spec("O15")


def upstream_of(kind: str) -> dict[str, Any]:
    section = GUIDE.partition(f"\n### {kind}\n")[2].partition("\n#")[0]
    (block,) = re.findall(r"^```yaml upstream\n(.*?)^```$", section, re.M | re.S)
    upstream: dict[str, Any] = yaml.safe_load(block)["upstream"]
    return upstream


def file_of_the_guide(name: str, directory: Path) -> dict[str, Any]:
    (text,) = re.findall(rf"^cat > {name} <<END\n(.*?)^END$", GUIDE, re.M | re.S)
    values = dict(re.findall(r"^export (\w+)=(\S+)", GUIDE, re.M))
    text = re.sub(r"\$(\w+)", lambda value: values[value[1]], text)
    (directory / name).write_text(text)
    document: dict[str, Any] = yaml.safe_load(text)
    return document


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What the guide has made before its step 3."""
    secrets = tmp_path / "secrets"
    tls = write_certificates(secrets)
    for name in ("ca.crt", "brokers-ca.crt"):
        (secrets / name).write_bytes(tls.ca.read_bytes())
    for role in ("proxy", "controller"):
        (secrets / f"{role}.crt").write_bytes(tls.certificate.read_bytes())
        (secrets / f"{role}.key").write_bytes(tls.key.read_bytes())
    for name in ("admin", "broker", "controller"):
        (secrets / f"{name}.password").write_text("secret")
    for name in ("users.yaml", "controller-users.yaml"):
        file_of_the_guide(name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_the_block_of_a_kind_of_cluster_is_valid(kind: str, directory: Path) -> None:
    upstream = upstream_of(kind)
    named = {"internal.bootstrap": "bootstrap"}
    own = ("node.id", "advertised.brokers")
    broker = {named.get(key, key): value for key, value in upstream.items() if key not in own}
    for name, part in (("proxy.yaml", {"upstream": upstream}), ("controller.yaml", {"broker": broker})):
        file = directory / name
        file.write_text(yaml.safe_dump(file_of_the_guide(name, directory) | part))
        assert check(file) == []


def test_each_kind_of_cluster_has_its_block() -> None:
    assert len(re.findall(r"^```yaml upstream$", GUIDE, re.M)) == len(KINDS)
