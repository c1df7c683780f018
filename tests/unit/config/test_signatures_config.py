"""The keys of the metadata log's signatures, in the files of controllers and proxies."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, ProxyConfig, load
from tests.unit.config.test_controller_mode import kraft
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("S14", "O5")


@pytest.fixture(autouse=True)
def keys(tmp_path: Path) -> None:
    """Two pairs, and a file with both public keys."""
    public = b""
    for name in ("one", "two"):
        key = Ed25519PrivateKey.generate()
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.key").write_bytes(private)
        (tmp_path / f"{name}.pub").write_bytes(pem)
        public += pem
    (tmp_path / "all.pub").write_bytes(public)


def controller(directory: Path, **metadata: str) -> ControllerConfig:
    content = {
        "controller.id": "c",
        "listener": {"name": "CONTROLLER", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"},
        "broker": {"bootstrap": "broker:9092"},
        "authorizer": {"class.name": "proxy.security.standard.StandardAuthorizer"},
        "audit": {"spool.dir": "spool"},
        "metadata": {name.replace("_", "."): value for name, value in metadata.items()},
    }
    path = directory / "controller.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load(path, ControllerConfig)


def test_a_controller_signs_with_its_key_and_verifies_by_all(tmp_path: Path) -> None:
    signed = controller(tmp_path, signing_key_file="one.key", public_keys_file="all.pub").metadata
    plain = controller(tmp_path).metadata
    key, public = signed.signing_key(), signed.public_keys()

    assert key is not None
    assert public is not None
    assert (key.id in public, signed.unsigned) == (True, "reject")
    assert (plain.signing_key(), plain.public_keys()) == (None, None)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"public_keys_file": "all.pub"}, r"a controller needs its signing\.key\.file, too"),
        (
            {"signing_key_file": "one.key", "public_keys_file": "two.pub"},
            r"two\.pub does not have the key of",
        ),
        ({"signing_key_file": "one.pub"}, r"one\.pub: "),
        ({"signing_key_file": "one.key", "public_keys_file": "one.key"}, r"must have Ed25519 public keys"),
        ({"signing_key_file": "one.key", "unsigned": "ignore"}, r"unsigned: expected reject or report"),
    ],
    ids=[
        "no private key",
        "another's public key",
        "a public key to sign",
        "a private key to verify",
        "unsigned",
    ],
)
def test_what_a_controller_cannot_use_is_named(
    tmp_path: Path, metadata: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        controller(tmp_path, **metadata)


def test_a_proxy_with_public_keys_rejects_what_is_not_signed_unless_it_is_to_report(tmp_path: Path) -> None:
    def verifier(**metadata: Any) -> bool | None:
        found = load(written(tmp_path, document(metadata=metadata)), ProxyConfig).metadata.verifier()
        return None if found is None else found.rejects

    keys = {"public.keys.file": "all.pub"}
    assert [verifier(), verifier(**keys), verifier(**keys, unsigned="report")] == [None, True, False]


@pytest.mark.parametrize("setting", [{"public.keys.file": "all.pub"}, {"unsigned": "report"}])
def test_kafkas_own_log_has_no_signatures(tmp_path: Path, setting: dict[str, str]) -> None:
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name}: it has no effect with controller.mode kraft"):
        load(written(tmp_path, kraft(metadata=setting)), ProxyConfig)
