"""Whether a soak has had what it is about: clients that all fail leave a trail without a finding too."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tests.lab.chaos.measured import Row
from tests.lab.soak import place as P

Seen = Callable[[Row], bool]


def _traffic(**fields: str) -> Seen:
    """Data that went through: a summary with these fields."""
    return _event("authorization_summary", **fields)


def _event(event: str, **fields: object) -> Seen:
    return lambda row: row["event"] == event and all(row[name] == value for name, value in fields.items())


WANTED: Mapping[str, Seen] = {
    "producer by SCRAM": _traffic(method="Produce", client_id="orders-1"),
    "producer in TLS": _traffic(method="Produce", client_id="orders-2"),
    "member of the group": _traffic(method="Fetch", client_id="reader-0"),
    "re-join of the group": _traffic(method="JoinGroup", principal="User:bob"),
    "transaction": _traffic(method="EndTxn", principal="User:alice"),
    "producer with a token": _traffic(method="Produce", principal=f"User:{P.BEARER}"),
    "producer with a certificate": _traffic(method="Produce", principal=f"User:{P.MEMBER}"),
    "producer of kcat": _traffic(method="Produce", client_id="kcat"),
    "consumer of kcat": _traffic(method="Fetch", client_id="kcat"),
    "throttled producer": _event("throttled", principal=f"User:{P.HEAVY}"),
    "client over its share of time": _event("throttled", principal=f"User:{P.BUSY}"),
    "administrator over the mutation rate": _event("throttled", principal=f"User:{P.MAKER}"),
    "denied metadata": _event("authorization", principal=f"User:{P.STRANGER}", granted=False),
    "denied topic": _event("authorization", method="CreateTopics", granted=False),
    "change of the super user": _event("forwarded", principal="User:admin", method="CreateAcls"),
    "change of the operator": _event("forwarded", principal=f"User:{P.OPERATOR}", method="CreateAcls"),
    "changed quota": _event("quota_changed"),
    "changed user": _event("forwarded", method="AlterUserScramCredentials", error_code=0),
    "changed config": _event("forwarded", method="IncrementalAlterConfigs", error_code=0),
    "delegation token": _event("forwarded", method="CreateDelegationToken", error_code=0),
    "token that expired": _event("tokens_expired"),
    "login again on a live connection": _event("reauthentication"),
    "session that was cut off": _event("session_expired"),
    "wrong password": _event("authentication_failed"),
    "certificate that was renewed": _event("configuration_changed"),
}


def missing(rows: Iterable[Row]) -> Iterator[str]:
    """What of this did not happen."""
    left = dict(WANTED)
    for row in rows:
        for what in [what for what, holds in left.items() if holds(row)]:
            del left[what]
    yield from left
