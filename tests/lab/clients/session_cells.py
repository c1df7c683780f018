"""The matrix of authentication as data: who logs in by what, under which limit, with what credential.

A cell is one user with one topic: a producer and a consumer at work. Read by tests.lab.clients.session_stage.
"""

from dataclasses import dataclass

CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka")
RENEWING = ("java", "librdkafka", "kafka-python")
"""Those that know KIP-368; the others are cut at the end of a session and come back."""

LASTING = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""Mechanisms whose credentials have no end."""
TOKEN = "TOKEN"
"""A delegation token over SCRAM-SHA-256."""
ENDING = ("OAUTHBEARER", TOKEN)
CERTIFICATE = "CERTIFICATE"
"""A client certificate on a listener without SASL: nobody is ever asked again."""

OFF, ON, LONG = "OFF", "ON", "LONG"
"""connections.max.reauth.ms: not set, less than the longer credentials' life, more than the shorter ones'."""
NO_END, SHORTER, LONGER = "none", "shorter", "longer"
"""How long the credential is good, beside the limit; SHORTER without a limit is as short as with one."""


@dataclass(frozen=True, slots=True)
class Cell:
    client: str
    mechanism: str
    limit: str
    life: str = NO_END

    @property
    def name(self) -> str:
        """Also its user's, its topic's and its group's."""
        return f"{self.client}-{self.mechanism}-{self.limit}-{self.life}".lower()

    @property
    def listener(self) -> str:
        """One for each client and limit, so that metrics tell them apart."""
        return f"{self.client}-{self.limit}{'-tls' if self.mechanism == CERTIFICATE else ''}"

    @property
    def ends(self) -> bool:
        """Whether its sessions end while it is looked at."""
        return self.mechanism != CERTIFICATE and (self.limit == ON or self.life == SHORTER)

    @property
    def renews(self) -> bool:
        return self.client in RENEWING


def _of(client: str) -> list[Cell]:
    # librdkafka and the Python clients have no way to say tokenauth=true.
    ending = ENDING if client == "java" else ENDING[:1]
    lasting = [Cell(client, mechanism, limit) for mechanism in LASTING for limit in (OFF, ON)]
    limited = [
        Cell(client, mechanism, limit, life)
        for mechanism in ending
        for limit, life in ((OFF, SHORTER), (OFF, LONGER), (LONG, SHORTER), (ON, LONGER))
    ]
    return lasting + limited + [Cell(client, CERTIFICATE, limit) for limit in (OFF, ON)]


ALL = tuple(cell for client in CLIENTS for cell in _of(client))
SHORT = (
    Cell("java", "SCRAM-SHA-512", ON),
    Cell("librdkafka", "SCRAM-SHA-256", ON),
    Cell("kafka-python", "SCRAM-SHA-512", ON),
    Cell("aiokafka", "SCRAM-SHA-256", ON),
)
