"""The keys of the audit trail in a configuration file, and the witness that gets what they sign."""

from pathlib import Path

import pytest

from proxy.config import ConfigError, ProxyConfig, load
from tests.support.signing import key_file, signing_key
from tests.unit.config.test_proxy_config import document, written

pytestmark = pytest.mark.spec("D14")


def configured(directory: Path, **audit: object) -> ProxyConfig:
    keys = {name.replace("__", "."): value for name, value in audit.items()}
    return load(written(directory, document(audit={"spool.dir": "spool", **keys})), ProxyConfig)


def test_the_signing_key_and_the_witness_are_those_of_the_file(tmp_path: Path) -> None:
    key_file(tmp_path, "proxy-1")
    (tmp_path / "outside").mkdir()

    config = configured(tmp_path, signing__key__file="proxy-1.key", witness="outside")

    policy = config.audit.policy()
    assert policy.signing_key is not None
    assert policy.signing_key.id == signing_key("proxy-1").id
    # Relative to the file, like other paths.
    assert policy.witness == str(tmp_path / "outside")
    of_url = configured(tmp_path, signing__key__file="proxy-1.key", witness="https://witness.example/add")
    assert of_url.audit.policy().witness == "https://witness.example/add"
    topic = {"topic": "ends", "bootstrap": "far-1:9092, far-2:9092"}
    of_topic = configured(tmp_path, signing__key__file="proxy-1.key", witness__cluster=topic).audit.policy()
    assert str(of_topic.witness) == "topic ends at far-1:9092,far-2:9092"


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (
            {"signing__key__file": "proxy-1.key", "chain__key__file": "chain.secret"},
            "chain.key.file: with signing.key.file the chain needs no secret; remove it",
        ),
        (
            {"witness": "https://witness.example/add"},
            "witness: it gets signed checkpoints; set signing.key.file",
        ),
        (
            {"witness__cluster": {"topic": "ends", "bootstrap": "far:9092"}},
            "witness: it gets signed checkpoints; set signing.key.file",
        ),
        (
            {
                "witness": "https://witness.example",
                "witness__cluster": {"topic": "ends", "bootstrap": "far:9092"},
            },
            "witness and witness.cluster are both set; a process has one witness",
        ),
        (
            {"witness__cluster": {"topic": "ends", "bootstrap": "far:9092", "security.protocol": "SASL_SSL"}},
            "security.protocol SASL_SSL needs a login",
        ),
        (
            {"signing__key__file": "proxy-1.key", "witness": "gone"},
            "gone is no directory; create it, or write",
        ),
        ({"signing__key__file": "chain.secret"}, "chain.secret: "),
    ],
)
def test_keys_that_do_not_go_together_are_named(tmp_path: Path, audit: dict[str, object], said: str) -> None:
    key_file(tmp_path, "proxy-1")
    (tmp_path / "chain.secret").write_text("s" * 40)
    (tmp_path / "chain.secret").chmod(0o600)

    with pytest.raises(ConfigError) as raised:
        configured(tmp_path, **audit)

    assert said in str(raised.value)
