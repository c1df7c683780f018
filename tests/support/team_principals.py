"""A principal with a state of its own, and the serde that takes it along in an Envelope."""

import json
from dataclasses import dataclass

from proxy.security.principal import Principal
from proxy.security.principal_serde import PrincipalSerde


@dataclass(frozen=True, slots=True)
class TeamPrincipal(Principal):
    team: str = ""


class TeamSerde(PrincipalSerde):
    def serialize(self, principal: Principal) -> bytes:
        team = principal.team if isinstance(principal, TeamPrincipal) else ""
        return json.dumps([principal.principal_type, principal.name, team]).encode()

    def deserialize(self, raw: bytes) -> Principal:
        kind, name, team = json.loads(raw)
        return TeamPrincipal(kind, name, team=team)


class BrokenSerde(PrincipalSerde):
    """Neither writes nor reads."""

    def serialize(self, principal: Principal) -> bytes:
        raise KeyError(principal.name)

    def deserialize(self, raw: bytes) -> Principal:
        return raw.decode()  # type: ignore[return-value] # what a careless one might give
