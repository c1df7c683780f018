"""Exported events for tests: records of the real encoder and chain, and what is wrong with an event.

An event is validated by OCSF's or ECS' own schema (tests.support.siem_schemas).
"""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no types

from proxy.audit.chain import Chain
from proxy.audit.record import AuditEvent, Author, Encoder
from spark_audit.siem import mapping
from tests.support.siem_schemas import ECS_FILE, OCSF_FILE

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="boot-1")
TIME_MS = 1_795_435_200_123
CLASS_FILES = {
    mapping.ACCOUNT_CHANGE: "account_change",
    mapping.AUTHENTICATION: "authentication",
    mapping.APPLICATION: "application_lifecycle",
    mapping.API: "api_activity",
}


def exported(schema: str, event: AuditEvent, checkpoint: int | None = None) -> dict[str, Any]:
    """An event as the first record of a boot, exported."""
    body = Encoder(AUTHOR).body(event, 0, TIME_MS)
    link = Chain(AUTHOR.key, None).after(body)
    line = body + b',"chain":"%s"}' % link.encode()
    proof = mapping.ChainPlace("proxy-1/boot-1/0/0123456789abcdef", link, None, checkpoint, _hash(line))
    text = f"{body.decode()}}}"
    made = mapping.exported(schema, (), text, json.loads(text)["data"], proof)
    assert made is not None
    document: dict[str, Any] = json.loads(made)
    return document


def _hash(line: bytes) -> str:
    return sha256(line).hexdigest()


def faults(schema: str, document: Mapping[str, Any]) -> list[str]:
    """Why an event is not valid."""
    return list(_ocsf_faults(document) if schema == mapping.OCSF else _ecs_faults(document))


@cache
def _ocsf_validator(class_uid: int) -> Draft202012Validator:
    schemas = json.loads(OCSF_FILE.read_text(encoding="utf-8"))
    return Draft202012Validator(schemas[CLASS_FILES[class_uid]])


def _ocsf_faults(document: Mapping[str, Any]) -> Iterator[str]:
    for error in _ocsf_validator(document["class_uid"]).iter_errors(document):
        yield f"{error.json_path}: {error.message}"


@cache
def _ecs_fields() -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(ECS_FILE.read_text(encoding="utf-8"))
    return fields


def ecs_field_faults(document: Mapping[str, Any]) -> Iterator[str]:
    """What is no field of ECS, or not of its type; `penstock` is ours."""
    own = {name: value for name, value in document.items() if name != "penstock"}
    for path, value in _flat("", own):
        field = _ecs_fields().get(path)
        if field is None:
            yield f"{path} is no field of ECS"
            continue
        if field.get("array", False) and not isinstance(value, list):
            yield f"{path} has to be an array"
        for each in value if isinstance(value, list) else [value]:
            if not _IS[field["type"]](each) or each not in field.get("allowed", [each]):
                yield f"{path}: {each!r} is no {field['type']} of ECS"


def _ecs_faults(document: Mapping[str, Any]) -> Iterator[str]:
    yield from ecs_field_faults(document)
    types = document["event"]["type"]
    for category in document["event"]["category"]:
        expected = _ecs_fields()["event.category"]["allowed"].get(category, ())
        yield from (f"{category} expects no type {each}" for each in types if each not in expected)


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _flat(f"{prefix}{name}.", each)
        else:
            yield f"{prefix}{name}", each


def _is_address(value: object) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True


def _is_date(value: object) -> bool:
    return re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(value)) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_IS = {
    "keyword": _is_text,
    "match_only_text": _is_text,
    "wildcard": _is_text,
    "long": lambda value: type(value) is int,
    "ip": _is_address,
    "date": _is_date,
}
