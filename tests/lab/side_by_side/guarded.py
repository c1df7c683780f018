"""A Kafka broker with StandardAuthorizer: what Penstock has to be like for its clients."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.cluster.broker import Broker, BrokerSettings, by_plain
from tests.lab.cluster.release import Release
from tests.lab.cluster.tools import KafkaTools
from tests.lab.cluster.users import Entrance, User, java_properties


class GuardedBroker:
    """`admin` is a super user. Has the methods of a stack that clients and their tests need."""

    def __init__(
        self, libs: Path, directory: Path, plain: Mapping[str, str] | None = None, reauth_ms: int = 0
    ) -> None:
        """`plain`: user to password, of those who log in by PLAIN; without it there is no PLAIN.

        `reauth_ms`: connections.max.reauth.ms; 0: sessions have no end.
        """
        self.users = {"admin": User("admin", "SCRAM-SHA-256", "admin-secret")}
        self._libs = libs
        self._directory = directory
        properties = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "listener.name.sasl_plaintext.connections.max.reauth.ms": str(reauth_ms),
            "delegation.token.secret.key": secrets.token_urlsafe(16),
            "delegation.token.expiry.check.interval.ms": "1000",
            **(by_plain(plain) if plain else {}),
        }
        # `admin` logs in by PLAIN then, and both sides of a comparison have the same SCRAM users: none.
        scram_users = {} if plain else {user.name: user.password for user in self.users.values()}
        self.broker = Broker(
            Release.chosen().libs,
            BrokerSettings(directory=directory, scram_users=scram_users, properties=properties),
        )

    @contextmanager
    def running(self) -> Iterator["GuardedBroker"]:
        with self.broker.running():
            yield self

    def entrance(self, listener: str = "SASL_PLAINTEXT") -> Entrance:
        if listener == "SASL_SSL":
            pytest.skip("the broker for comparison has no TLS listener")
        return Entrance(self.broker.sasl_plaintext)

    def add_user(self, name: str, mechanism: str = "SCRAM-SHA-256") -> User:
        self.users[name] = User(name, mechanism, f"{name}-secret")
        return self.users[name]

    def tools(self, user: str, listener: str = "SASL_PLAINTEXT") -> KafkaTools:
        path = self._directory / f"{user}.properties"
        path.write_text(java_properties(self.users[user], self.entrance(listener)), encoding="utf-8")
        return KafkaTools(self._libs, self.broker.sasl_plaintext, path)
