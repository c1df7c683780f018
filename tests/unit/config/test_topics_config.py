"""What the controller's file says of topics."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from forwarding.config import ControllerConfig
from proxy.config import ConfigError, load

STANDARD = "proxy.security.standard.StandardAuthorizer"


def loaded(directory: Path, topics: dict[str, Any], authorizer: str = STANDARD) -> ControllerConfig:
    document = {
        "controller.id": "c",
        "listener": {"name": "CONTROLLER", "bind": "127.0.0.1:0", "security.protocol": "PLAINTEXT"},
        "broker": {"bootstrap": "broker:9092"},
        "authorizer": {"class.name": authorizer},
        "audit": {"spool.dir": "spool"},
        "topics": topics,
    }
    path = directory / "controller.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path, ControllerConfig)


@pytest.mark.spec("A6", "O5")
def test_creators_own_nothing_unless_the_file_says_so(tmp_path: Path) -> None:
    default = loaded(tmp_path, {}).topics
    said = loaded(tmp_path, {"owner.creator": True, "owner.check.interval.ms": 500}).topics

    assert (default.topic_owner_creator, default.topic_owner_check_interval_ms) == (False, 30_000)
    assert (said.topic_owner_creator, said.topic_owner_check_interval_ms) == (True, 500)


@pytest.mark.spec("A6", "O5")
@pytest.mark.parametrize("authorizer", ["", "proxy.security.simple.SimpleAclAuthorizer"])
def test_creators_cannot_own_where_nobody_looks_at_owners(tmp_path: Path, authorizer: str) -> None:
    with pytest.raises(ConfigError, match=r"topic\.owner\.creator"):
        loaded(tmp_path, {"owner.creator": True}, authorizer)
