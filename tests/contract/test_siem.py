"""Exported events are valid by OCSF's and ECS' own schemas, and say what the record says."""

import json
import subprocess
import sys
from base64 import b64encode
from hashlib import sha256
from itertools import product
from typing import Any

import pytest
from pyspark import cloudpickle

from proxy.audit import events
from proxy.audit.record import EVENT_FIELDS, AuditEvent, Encoder
from spark_audit import schema as S
from spark_audit.siem import export as _export  # noqa: F401 - it says how the mapping is pickled
from spark_audit.siem import mapping
from tests.support import siem_page
from tests.support.siem_events import AUTHOR, TIME_MS, exported, faults

pytestmark = pytest.mark.spec("D17")

VALUES: dict[str, Any] = {
    "host": "10.0.0.1",
    "balancer": "2001:db8::1",
    "principal": "User:alice",
    "groups": ["Group:payments", "Group:staff"],
    "method": "CreateTopics",
    "settings": {"super.users": "User:admin"},
    "changes": [["TopicRecord", "orders", "id"]],
    "objects": [
        {"type": "TOPIC", "name": "orders", "operation": "CREATE", "error": "NONE", "details": {"a": "b"}},
        {"type": "TOPIC", "operation": "CREATE", "count": 3},
    ],
}
"""Of fields whose type does not say it; a text, 7, 0.5 or true for the others."""
OF_TYPE = {"string": "a text", "bigint": 7, "int": 7, "double": 0.5, "boolean": True}
EXAMPLES = {field.name: VALUES.get(field.name, OF_TYPE.get(field.kind.simpleString())) for field in S.FIELDS}


def an_event(name: str, **fields: Any) -> AuditEvent:
    """With a value in each field that the event has."""
    has = events.FIELDS_OF.get(name, EVENT_FIELDS)
    own = {field: EXAMPLES[field] for field in EVENT_FIELDS if field in has or field in ("host", "principal")}
    return AuditEvent(**({**own, **fields} | {"event": name}))


@pytest.mark.parametrize("schema", mapping.SCHEMAS)
@pytest.mark.parametrize("name", S.EVENTS)
def test_the_records_of_an_event_are_valid_with_and_without_what_may_be_missing(
    name: str, schema: str
) -> None:
    denied = an_event(name, granted=False, error_code=29, operation="READ", host="a-name", groups=None)
    for event in (an_event(name), denied, AuditEvent(event=name)):
        assert faults(schema, exported(schema, event)) == []


@pytest.mark.spec("S7")
def test_an_address_is_exported_without_its_zone() -> None:
    """Elasticsearch rejects a document with one, and OCSF has no place for it."""
    event = an_event("authorization", host="fe80:0:0:0:0:0:0:1%2")

    assert exported("ecs", event)["source"]["ip"] == "fe80::1"
    assert exported("ocsf", event)["src_endpoint"]["ip"] == "fe80::1"


@pytest.mark.tooling
def test_the_tables_of_the_page_are_those_of_the_mapping() -> None:
    """`python -m tests.support.siem_page` writes them."""
    text = siem_page.PAGE.read_text(encoding="utf-8")
    assert siem_page.with_tables(text) == text


def test_every_event_has_a_row_and_no_other() -> None:
    assert sorted(mapping.EVENTS) == sorted(S.EVENTS)
    assert {field.name for field in mapping.FIELDS} <= set(S.DATA.names)


def test_the_class_of_a_record_is_that_of_the_process_which_wrote_it() -> None:
    methods = (
        "CreateTopics",
        "DescribeAcls",
        "InitProducerId",
        "LeaveGroup",
        "OffsetCommit",
        "TxnOffsetCommit",
        None,
    )
    for name, method, granted, error in product(S.EVENTS, methods, (True, False, None), (0, 29, None)):
        event = AuditEvent(event=name, method=method, granted=granted, error_code=error)
        data = {"event": name, "method": method, "granted": granted, "error_code": error}
        assert mapping.event_class(data) == events.class_of(event), data


def test_an_invalid_event_is_found() -> None:
    ocsf, ecs = (exported(schema, an_event("authorization")) for schema in mapping.SCHEMAS)
    del ocsf["api"]
    ocsf["actor"]["user"]["rank"] = 1
    ecs["event"] |= {"category": ["kafka"], "sequence": "0"}
    ecs["principal"] = "alice"

    assert len(faults(mapping.OCSF, ocsf)) == 2
    assert faults(mapping.ECS, ecs) == [
        "event.category: 'kafka' is no keyword of ECS",
        "event.sequence: '0' is no long of ECS",
        "principal is no field of ECS",
        "kafka expects no type info",
        "kafka expects no type allowed",
    ]


def test_a_denial_in_ocsf() -> None:
    event = an_event(
        "authorization",
        granted=False,
        rule="default.deny",
        acl_id=None,
        method="Produce",
        operation="WRITE",
        resource_type="TOPIC",
        resource_name="orders",
        error_code=29,
        objects=None,
    )
    found = exported(mapping.OCSF, event, checkpoint=12)

    assert (found["class_uid"], found["activity_id"], found["type_uid"]) == (6003, 3, 600303)
    assert (found["severity_id"], found["status_id"], found["status_code"]) == (2, 2, "29")
    assert found["time"] == 1_795_435_200_123
    assert found["metadata"]["uid"] == "proxy-1/boot-1/0/0123456789abcdef"
    assert found["actor"]["user"] == {
        "uid": "User:alice",
        "name": "alice",
        "groups": [{"name": "Group:payments"}, {"name": "Group:staff"}],
    }
    assert found["actor"]["authorizations"] == [
        {"decision": "denied", "policy": {"name": "default.deny"}},
    ]
    assert found["resources"] == [{"type": "TOPIC", "name": "orders"}]
    assert found["api"]["operation"] == "Produce"
    assert found["src_endpoint"]["ip"] == "10.0.0.1"
    assert found["unmapped"]["penstock"]["checkpoint"] == 12


def test_a_change_of_a_credential_in_both() -> None:
    objects = [{"type": "USER", "name": "bob", "operation": "UPSERT", "error": "NONE"}]
    event = an_event("forwarded", method="AlterUserScramCredentials", objects=objects, error_code=0)
    ocsf, ecs = (exported(schema, event) for schema in mapping.SCHEMAS)

    assert (ocsf["class_uid"], ocsf["activity_id"], ocsf["status_id"]) == (3001, 3, 1)
    assert (ocsf["user"], ocsf["actor"]["user"]["name"]) == ({"name": "bob"}, "alice")
    assert (ecs["event"]["category"], ecs["event"]["type"]) == (["iam"], ["change", "user"])
    assert ecs["user"]["target"]["name"] == "bob"
    assert ecs["related"] == {"user": ["alice", "bob"], "ip": ["10.0.0.1"]}
    assert ecs["event"]["outcome"] == "success"


@pytest.mark.spec("D12")
@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (["INVALID_REQUEST", "NONE"], "success"),
        (["INVALID_REQUEST", "CLUSTER_AUTHORIZATION_FAILED"], "failure"),
        (["INVALID_REQUEST", None], "unknown"),
        ([None], "unknown"),
    ],
)
def test_a_request_that_has_changed_something_is_no_failure(told: list[str | None], outcome: str) -> None:
    """A client could add an object that fails to each request, and no rule for changes would see it."""
    objects = [{"type": "ACL", "name": "pay", "operation": "CREATE", "error": each} for each in told]
    cut = [{name: value for name, value in each.items() if value} for each in objects]
    event = an_event("forwarded", method="CreateAcls", objects=cut, error_code=42)
    ocsf, ecs = (exported(schema, event) for schema in mapping.SCHEMAS)

    assert ecs["event"]["outcome"] == outcome
    assert ocsf["status_id"] == {"success": 1, "failure": 2, "unknown": 0}[outcome]


@pytest.mark.spec("D12")
def test_an_event_is_about_what_was_done_and_not_about_what_a_client_put_first() -> None:
    objects = [
        {"type": "USER", "name": "decoy", "operation": "DELETE", "error": "RESOURCE_NOT_FOUND"},
        {"type": "USER", "name": "admin", "operation": "UPSERT", "error": "NONE"},
    ]
    event = an_event("forwarded", method="AlterUserScramCredentials", objects=objects, error_code=91)
    ocsf, ecs = (exported(schema, event) for schema in mapping.SCHEMAS)

    assert (ocsf["user"], ocsf["activity_id"], ocsf["status_id"]) == ({"name": "admin"}, 3, 1)
    assert (ecs["user"]["target"]["name"], ecs["event"]["type"]) == ("admin", ["change", "user"])


@pytest.mark.spec("D12")
def test_a_dry_run_is_no_change() -> None:
    dry = {"type": "TOPIC", "name": "t", "operation": "CREATE", "error": "NONE"}
    event = an_event("forwarded", objects=[dry | {"details": {"validate_only": "true"}}], error_code=0)
    ocsf, ecs = (exported(schema, event) for schema in mapping.SCHEMAS)

    assert (ocsf["activity_id"], ecs["event"]["type"]) == (99, ["info"])


def test_an_executor_needs_no_package_of_ours() -> None:
    """What is pickled for it has the mapping in it; here nothing of ours can be imported."""
    sent: bytes = cloudpickle.dumps((mapping.exported_row, example_row()))  # type: ignore[no-untyped-call]
    pickled = b64encode(sent).decode()
    program = (
        "import sys; sys.modules['spark_audit'] = sys.modules['proxy'] = None\n"
        "import pickle; from base64 import b64decode; from pyspark import cloudpickle\n"
        f"function, row = pickle.loads(b64decode('{pickled}')); print(function(*row))"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == json.loads(str(mapping.exported_row(*example_row())))


def example_row() -> tuple[Any, ...]:
    body = Encoder(AUTHOR).body(an_event("authorization"), 0, TIME_MS).decode() + "}"
    record = json.dumps(json.loads(body)["data"])
    return mapping.OCSF, "denial,admin", body, record, "id", None, None, None, "00"


@pytest.mark.spec("D1")
@pytest.mark.parametrize("schema", mapping.SCHEMAS)
def test_the_hash_of_a_record_is_computed_again_from_its_event(schema: str) -> None:
    found = exported(schema, an_event("authentication", message='ümläut \\ "quotes" \n ,"chain":"'))
    raw = found["raw_data"] if schema == mapping.OCSF else found["event"]["original"]
    place = found["unmapped"]["penstock"] if schema == mapping.OCSF else found["penstock"]
    body, _, end = raw.rpartition(',"chain":"')

    first = sha256(AUTHOR.key).hexdigest()
    assert sha256(f"{first}{body}".encode()).hexdigest() == place["chain"] == end.removesuffix('"}')
    digest = found["raw_data_hash"]["value"] if schema == mapping.OCSF else found["event"]["hash"]
    assert sha256(raw.encode()).hexdigest() == digest
    assert json.loads(raw)["data"]["message"].startswith("ümläut")
