"""A day of two people who join a group, work, leave it and are denied, and the report about it (SPEC A8).

As members they have the quota of the group, which Kafka's own tool has set.

One logs in with tokens of an identity provider and stays connected, the other one with certificates that are
valid for seconds.
"""

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException, Producer

from proxy.net.runtime.clock import now_ms
from tests.lab.cluster.ports import free_addresses
from tests.lab.cluster.stack import Stack, StackSettings
from tests.lab.what_if.playing import Record, proxy_records, spark_job
from tests.support.cluster_admin import ClusterAdmin
from tests.support.identity_provider import AUDIENCE, ISSUER, rsa, token
from tests.support.office_certificates import OfficeCertificates
from tests.support.running_provider import RunningProvider
from tests.support.waiting import until

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.long),
    pytest.mark.spec("A8", "A9", "R11", "D10", "Q2", "Q12"),
]

TOPIC = "orders"
SESSION_MS, TOKEN_S, CERTIFICATE_S = 3_000, 12, 6
AT_WORK = 10
"""Records that each of them writes as a member."""
TIMEOUT_S = 20
BY_TOKEN, BY_CERTIFICATE = "User:person", "User:robot"
STAFF, MEMBERS = ["staff"], ["payments", "staff"]
PERCENT, OF_OTHERS = 700.0, 900.0
"""request_percentage of members and of all others: more than they use."""
GROUP_RULES = r"RULE:^OU=(payments)$/$1/,RULE:^SAN:EMAIL:[^@]*@([a-z]*)\.acme\.org$/$1/"


def writes(client: Producer) -> bool:
    """Whether a record was written; False if that was denied, AssertionError after any other error."""
    told: list[KafkaError | None] = []
    try:
        client.produce(TOPIC, b"an order", on_delivery=lambda error, _: told.append(error))
    except KafkaException as refused:
        # librdkafka remembers the denial until it reads the metadata again.
        told.append(refused.args[0])
    client.flush(TIMEOUT_S)
    (error,) = told
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
    return error is None


@dataclass
class Office:
    stack: Stack
    certificates: OfficeCertificates
    mutual: str
    tokens: str
    groups: list[str] = field(default_factory=lambda: STAFF)
    """What the identity provider knows of the person."""

    def person(self) -> Producer:
        def another(_config: object) -> tuple[str, float]:
            claims: dict[str, Any] = {"sub": "person", "realm_access": {"roles": self.groups}}
            return token(lifetime_s=TOKEN_S, **claims), now_ms() / 1000 + TOKEN_S

        login = {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT", "oauth_cb": another}
        often = {"topic.metadata.refresh.interval.ms": 500}
        return Producer({"bootstrap.servers": self.tokens, **often, **login})

    def robot(self, unit: str, lasts_s: float = 3_600) -> Producer:
        """A client with a new certificate."""
        not_after = datetime.now(UTC) + timedelta(seconds=lasts_s)
        issued = self.certificates.issue("robot", "robot", ("robot@staff.acme.org",), not_after, unit)
        # The files are read here, and written over for the next client.
        return Producer(
            {
                "bootstrap.servers": self.mutual,
                "security.protocol": "SSL",
                "ssl.ca.location": str(self.certificates.ca),
                "ssl.certificate.location": str(issued.certificate),
                "ssl.key.location": str(issued.key),
                "message.timeout.ms": 2_000,
            }
        )


@pytest.fixture
def office(kafka_libs: Path, tmp_path: Path) -> Iterator[Office]:
    certificates, provider = OfficeCertificates(tmp_path / "certificates"), RunningProvider(TOKEN_S)
    mutual, tokens = free_addresses(2)
    server = certificates.issue("listener")
    stack = Stack(StackSettings(directory=tmp_path / "stack", libs=kafka_libs))
    with provider.running():
        by_certificate = {
            "name": "MUTUAL",
            "bind": mutual,
            "security.protocol": "SSL",
            "ssl": {
                "certificate": str(server.certificate),
                "key": str(server.key),
                "client.auth": "required",
                "client.certificate.expiry.enforced": True,
                "ca": str(certificates.ca),
                "principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/",
                "principal.groups.from": ["OU", "SAN:EMAIL"],
                "principal.groups.mapping.rules": GROUP_RULES,
            },
        }
        by_token = {
            "name": "TOKENS",
            "bind": tokens,
            "security.protocol": "SASL_PLAINTEXT",
            "connections.max.reauth.ms": SESSION_MS,
            "sasl.enabled.mechanisms": ["OAUTHBEARER"],
            "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/certs",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": [AUDIENCE],
            "sasl.oauthbearer.groups.claim": "/realm_access/roles",
        }
        document = yaml.safe_load(stack.proxy_file.read_text())
        document["listeners"] += [by_certificate, by_token]
        stack.proxy_file.write_text(yaml.safe_dump(document))
        assert provider.published == (rsa(),)
        with stack.running():
            yield Office(stack, certificates, mutual, tokens)


def day_by_token(office: Office) -> tuple[int, int]:
    """Return how many records were written, and when the person left the group in ms."""
    client = office.person()
    assert not writes(client)
    office.groups = MEMBERS
    until(lambda: writes(client), "a member", every_s=0.5)
    assert all(writes(client) for _ in range(AT_WORK))
    office.groups, left_ms = STAFF, now_ms()
    written = 1 + AT_WORK + _written_until_denied(client)
    assert now_ms() - left_ms < TOKEN_S * 1_000 + SESSION_MS
    return written, left_ms


def day_by_certificate(office: Office) -> int:
    """Return how many records were written."""
    assert not writes(office.robot("office"))
    member = office.robot("payments", CERTIFICATE_S)
    ends_ms = now_ms() + (CERTIFICATE_S - 1) * 1_000
    assert all(writes(member) for _ in range(AT_WORK))
    # It has left: there is no certificate of the group any more, and the old one is good for seconds.
    written = AT_WORK
    while now_ms() < ends_ms:
        assert writes(member)
        written += 1
    until(lambda: now_ms() > ends_ms + 1_000)
    with pytest.raises(AssertionError, match="_MSG_TIMED_OUT"):
        writes(member)
    assert not writes(office.robot("office"))
    return written


def _written_until_denied(client: Producer) -> int:
    return next(count for count in itertools.count() if not writes(client))


def test_who_leaves_a_group_is_denied_within_a_session_and_the_report_tells_it(
    office: Office, tmp_path: Path
) -> None:
    stack = office.stack
    ClusterAdmin(stack).topic(TOPIC)
    for group, operation in (("staff", "Describe"), ("payments", "Write")):
        rights = ["--allow-principal", f"Group:{group}", "--operation", operation, "--topic", TOPIC]
        assert stack.tools("admin").run("kafka-acls", "--add", *rights).returncode == 0

    for percent, entity in (
        (PERCENT, ["--entity-name", "Group:payments"]),
        (OF_OTHERS, ["--entity-default"]),
    ):
        limit = ["--entity-type", "users", *entity, "--add-config", f"request_percentage={percent}"]
        assert stack.tools("admin").run("kafka-configs", "--alter", *limit).returncode == 0

    by_certificate = day_by_certificate(office)
    by_token, left_ms = day_by_token(office)
    for process in (stack.proxy, stack.controller):
        process.stop()

    records = sorted(proxy_records(stack), key=lambda each: each["sequence"])
    _judge_trail(records, {BY_TOKEN: by_token, BY_CERTIFICATE: by_certificate}, left_ms)
    out, tables = tmp_path / "out", str(tmp_path / "tables")
    bootstrap = "--bootstrap", stack.broker.plaintext
    # Its exit code is not 0 if there is a finding.
    spark_job(stack, "run", *bootstrap, "--tables", tables, "--out", str(out))
    _judge_page((out / "report.html").read_text(encoding="utf-8"))
    proposal = tmp_path / "proposal.txt"
    proposal.write_text(f"member {BY_TOKEN} leaves Group:payments\n", encoding="utf-8")
    wanted = ["--proposal", str(proposal), "--out", str(out)]
    spark_job(stack, "what-if", "--tables", tables, *wanted)
    predicted = json.loads((out / "what-if.json").read_text(encoding="utf-8"))["access"]
    changes = {_right(row) for row in predicted if row["outcome"] != "unchanged"}
    then = {_right(each) for each in _told(records, BY_TOKEN, "authorization") if each["time_ms"] >= left_ms}
    assert changes == then == {(BY_TOKEN, "rdkafka", "Produce", "WRITE", TOPIC)}
    (change,) = (row for row in predicted if row["outcome"] == "newly_denied")
    assert change["requests"] == by_token


def _judge_trail(records: list[Record], written: dict[str, int], left_ms: int) -> None:
    for principal, count in written.items():
        denials = _told(records, principal, "authorization")
        assert {(each["granted"], each["rule"], *each["groups"]) for each in denials} == {
            (False, "default.deny", "staff")
        }
        granted = [
            each
            for each in _told(records, principal, "authorization_summary")
            if each["operation"] == "WRITE"
        ]
        assert {(each["granted"], *each["groups"]) for each in granted} == {(True, *MEMBERS)}
        assert sum(each["count"] for each in granted) == count
        name = principal.removeprefix("User:")
        used = _told(records, principal, "quota_used")
        assert {(each["quota_id"], each["quota_limit"], *each["groups"]) for each in used} == {
            (f"{name}@payments:", PERCENT, *MEMBERS),
            (f"{name}:", OF_OTHERS, *STAFF),
        }
    logins = [each["groups"] for each in _told(records, BY_TOKEN, "authentication", "reauthentication")]
    assert [groups for groups, _ in itertools.groupby(logins)][-3:] == [STAFF, MEMBERS, STAFF]
    assert left_ms < _told(records, BY_TOKEN, "authorization")[-1]["time_ms"]
    certified = [each["groups"] for each in _told(records, BY_CERTIFICATE, "authentication")]
    assert [groups for groups, _ in itertools.groupby(certified)] == [STAFF, MEMBERS, STAFF]


def _told(records: list[Record], principal: str, *events: str) -> list[Record]:
    return [each for each in records if each["principal"] == principal and each["event"] in events]


def _right(row: Record) -> tuple[str, ...]:
    return tuple(row[name] for name in ("principal", "client_id", "method", "operation", "resource_name"))


def _judge_page(page: str) -> None:
    """The story of each: logged in with groups, allowed by the group's ACL, denied without it."""
    found = re.search(r'<script type="application/json" class="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    rows: list[list[Any]] = json.loads(found[1])["rows"]
    for principal, login in ((BY_TOKEN, "TOKENS, OAUTHBEARER"), (BY_CERTIFICATE, "MUTUAL, SSL")):
        of_person = sorted(row for row in rows if row[5] == principal)
        told = [(row[3], re.sub(r"^\d+ times, |(?<=by acl) [^ ,]+", "", row[-2])) for row in of_person]
        steps = [
            ("login", f"{login}, groups: staff"),
            ("denied", "denied by default.deny, groups: staff, error 29"),
            ("login", f"{login}, groups: payments staff"),
            ("allowed", "allowed by acl, groups: payments staff"),
            ("login", f"{login}, groups: staff"),
            ("denied", "denied by default.deny, groups: staff, error 29"),
        ]
        story = iter(told)
        for number, step in enumerate(steps):
            assert step in story, (number, told)
