"""What an attack and the normal user know of the proxy: addresses, logins, names. One JSON file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.lab.cluster.users import User

TOPIC = "normal"
PLAIN_USER, BOB_BY_PLAIN = "alice by PLAIN", "bob by PLAIN"


@dataclass(frozen=True, slots=True)
class Target:
    address: str
    """The listener SASL_PLAINTEXT."""
    reauth_address: str
    """The listener whose sessions end after `reauth_ms`."""
    reauth_ms: int
    http: str
    log: str
    """Where the proxy's log lines go, where they go to a file."""
    topic: str
    """What alice may write to."""
    broker: str
    """The broker's listener without logins, past the proxy."""
    proxied: str
    """The broker's listener that the proxy connects to for clients."""
    users: dict[str, User]
    transactional_id: str = "penstock-controller"
    """Of the controller."""

    def write(self, path: Path) -> Path:
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: Path) -> Self:
        told = json.loads(path.read_text(encoding="utf-8"))
        return cls(**told | {"users": {name: User(**user) for name, user in told["users"].items()}})
