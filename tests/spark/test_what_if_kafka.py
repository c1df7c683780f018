"""Random proposals: what-if's evaluator against Kafka's own StandardAuthorizer, decision by decision.

Each world has ACLs, recorded questions and proposals in the words of kafka-acls. The evaluator decides the
questions of all proposals in one pass; Kafka's class gets the ACLs that each proposal leaves.
PENSTOCK_PROPOSALS=200 is the long form.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from spark_audit import schema as S
from spark_audit.least_privilege.commands import acl_command
from spark_audit.policy.acl_history import EPOCH
from spark_audit.policy.evaluation import EXPECTED
from spark_audit.proposal import SUPPORTED, Proposal, ProposedAcl, constant, parse_proposal, resolve
from spark_audit.what_if.access import decide
from spark_audit.what_if.proposed_log import LogRecord, ProposedState, acl_record, acl_records, with_records
from tests.contract.test_standard_authorizer_kafka import hexed, kafka_decides
from tests.spark.audit_trail import STANDARD_AUTHORIZER
from tests.spark.frames import log_frame

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.spec("D10")]

PROPOSALS = int(os.environ.get("PENSTOCK_PROPOSALS", "20"))
OF_A_WORLD = 10
Question = tuple[str, str, str, str | None, str]
"""Principal, host, resource type, name (None: any), operation."""
_POLICY = "proxy_id STRING, super_users ARRAY<STRING>, allow_everyone BOOLEAN, authorizer STRING"
_ASKED = (
    "number INT, proxy_id STRING, principal STRING, host STRING, resource_type STRING,"
    " resource_name STRING, operation STRING, rule STRING, epoch BIGINT"
)


@dataclass(frozen=True, slots=True)
class Change:
    removed: frozenset[int]
    """Places in the list of ACLs."""
    added: tuple[ProposedAcl, ...]
    super_users: tuple[str, ...]
    everyone: bool


@dataclass(frozen=True, slots=True)
class World:
    acls: tuple[ProposedAcl, ...]
    questions: tuple[Question, ...]
    changes: tuple[Change, ...]


principals, hosts = st.sampled_from(["User:a", "User:b"]), st.sampled_from(["10.0.0.1", "10.0.0.2"])
names = st.sampled_from(["a", "ab", "abc", "b", "hardcode"])
types = st.sampled_from(["TOPIC", "TOPIC", "GROUP", "TRANSACTIONAL_ID"])


def operations(resource_type: str) -> st.SearchStrategy[str]:
    return st.sampled_from([constant(name) for name in SUPPORTED[resource_type].split()])


@st.composite
def an_acl(draw: st.DrawFn) -> ProposedAcl:
    resource_type, pattern = draw(types), draw(st.sampled_from(["LITERAL", "PREFIXED"]))
    return ProposedAcl(
        resource_type,
        draw(names if pattern == "PREFIXED" else names | st.just("*")),
        pattern,
        draw(principals | st.just("User:*")),
        draw(hosts | st.just("*")),
        draw(operations(resource_type) | st.just("ALL")),
        draw(st.sampled_from(["ALLOW", "ALLOW", "DENY"])),
    )


@st.composite
def a_question(draw: st.DrawFn) -> Question:
    resource_type = draw(types)
    name = draw(names | names | st.none())
    return draw(principals), draw(hosts), resource_type, name, draw(operations(resource_type))


@st.composite
def a_change(draw: st.DrawFn, acls: Sequence[ProposedAcl]) -> Change:
    removed = frozenset(draw(st.sets(st.integers(0, len(acls) - 1), max_size=len(acls))))
    added = draw(st.lists(an_acl(), max_size=4, unique=True))
    users = draw(st.lists(principals, max_size=1))
    return Change(removed, tuple(acl for acl in added if acl not in acls), tuple(users), draw(st.booleans()))


@st.composite
def a_world(draw: st.DrawFn) -> World:
    acls = draw(st.lists(an_acl(), min_size=8, max_size=20, unique=True))
    questions = draw(st.lists(a_question(), min_size=20, max_size=30, unique=True))
    changes = draw(st.lists(a_change(acls), min_size=OF_A_WORLD, max_size=OF_A_WORLD))
    return World(tuple(acls), tuple(questions), tuple(changes))


def evaluated(spark: SparkSession, world: World) -> list[bool]:
    """Decide each question under each proposal, by one log in which they are in effect in turn."""
    acls = {f"acl-{place}": acl for place, acl in enumerate(world.acls)}
    records: list[LogRecord] = [acl_record(acl_id, acl) for acl_id, acl in acls.items()]
    policies: list[tuple[object, ...]] = []
    asked: list[tuple[object, ...]] = []
    for number, change in enumerate(world.changes):
        commands = [acl_command("remove", world.acls[place]) for place in sorted(change.removed)]
        commands += [acl_command("add", acl) for acl in change.added]
        proposal = parse_proposal("\n".join(commands) or "super.users=", "p")
        resolved = resolve(proposal, acls, {}, ())
        assert resolved.problems == []
        records += acl_records(resolved.added, resolved.removed)
        epoch, proxy = len(records) - 1, f"proxy-{number}"
        policies.append((proxy, list(change.super_users), change.everyone, STANDARD_AUTHORIZER))
        asked += [
            (len(asked) + place, proxy, who, host, kind, name, operation, None, epoch)
            for place, (who, host, kind, name, operation) in enumerate(world.questions)
        ]
        # And back again, for the next one.
        gone = [f"proposed-{place}" for place in range(len(resolved.added))]
        records += acl_records((), gone) + [acl_record(*each) for each in resolved.removed.items()]
    log = with_records(
        log_frame(spark, []).select(*S.LOG.names), ProposedState(-1, {}, {}), records
    ).persist()
    questions = spark.createDataFrame(asked, _ASKED).withColumn(EPOCH, F.col("epoch"))
    decided = decide(questions, spark.createDataFrame(policies, _POLICY), log, 2**62, Proposal())
    rows = decided.select("number", f"{EXPECTED}.granted").collect()
    return [bool(granted) for _, granted in sorted(rows)]


def lines(world: World) -> list[str]:
    """Return the same questions for Kafka's class."""
    found = []
    for change in world.changes:
        found.append(f"new {hexed(';'.join(change.super_users))} {str(change.everyone).lower()}")
        left = [acl for place, acl in enumerate(world.acls) if place not in change.removed]
        for number, acl in enumerate([*left, *change.added], 1):
            kind, pattern = ResourceType[acl.resource_type].value, PatternType[acl.pattern_type].value
            can, effect = Operation[acl.operation].value, PermissionType[acl.permission_type].value
            where = f"{kind} {hexed(acl.resource_name)} {pattern}"
            found.append(f"add {number} {where} {hexed(acl.principal)} {hexed(acl.host)} {can} {effect}")
        found += map(_line, world.questions)
    return found


def _line(question: Question) -> str:
    who, host, kind, name, operation = question
    address = bytes(map(int, host.split("."))).hex()
    words = f"{hexed(who)} {address} {Operation[operation].value} {ResourceType[kind].value}"
    return f"by_type {words}" if name is None else f"ask {words} {hexed(name)}"


@pytest.mark.long
def test_each_decision_under_a_proposal_is_kafkas_own(kafka_libs: Path, spark: SparkSession) -> None:
    seen: list[bool] = []

    @settings(
        max_examples=-(-PROPOSALS // OF_A_WORLD),
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(a_world())
    def agree(world: World) -> None:
        ours, kafkas = evaluated(spark, world), list(kafka_decides(kafka_libs, lines(world)))
        numbered = enumerate(zip(ours, kafkas, strict=True))
        wrong = [divmod(place, len(world.questions)) for place, (a, b) in numbered if a != b]
        assert wrong == [], [(world.changes[c], world.questions[q]) for c, q in wrong[:3]]
        seen.extend(kafkas)

    agree()
    assert len(seen) >= PROPOSALS * 20
    assert 0.15 < sum(seen) / len(seen) < 0.85, "the proposals no longer try both outcomes"
