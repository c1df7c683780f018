"""The parts of OCSF's and ECS' own schemas that exported events are validated by, as files of the tests.

    pip install --target DIR ocsf-json-schema==1.2.0
    git clone --branch v9.4.0 https://github.com/elastic/ecs ECS
    PYTHONPATH=.:DIR .venv/bin/python -m tests.support.siem_schemas ECS/generated/ecs/ecs_flat.yml

writes them anew. Both schemas are published under the Apache License 2.0. Of OCSF these are the JSON schemas
of the classes that the export uses; an attribute whose object is not in OBJECTS is not valid. Of ECS it is
the type of each field of FIELD_SETS, sets and fields, and the values that are allowed.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import yaml

DIRECTORY = Path(__file__).resolve().parents[1] / "contract" / "siem"
OCSF_VERSION, ECS_VERSION = "1.8.0", "9.4.0"
CLASSES = ("account_change", "api_activity", "application_lifecycle", "authentication")
OBJECTS = (
    *("actor", "api", "authorization", "fingerprint", "group", "metadata", "network_endpoint", "object"),
    *("policy", "product", "request", "resource_details", "response", "service", "session", "user"),
)
FIELD_SETS = (
    *("@timestamp", "client", "destination", "ecs", "error", "event", "message", "observer", "related"),
    *("log", "process.pid", "rule", "service", "source", "span", "trace", "user", "user_agent"),
)
OCSF_FILE, ECS_FILE = (
    DIRECTORY / f"ocsf-{OCSF_VERSION}.json",
    DIRECTORY / f"ecs-{ECS_VERSION}.json",
)


def ocsf_schemas() -> dict[str, Any]:
    """By class, from the package, which has to be there."""
    package = importlib.import_module("ocsf_json_schema")
    embedded = package.OcsfJsonSchemaEmbedded(package.get_ocsf_schema(OCSF_VERSION))
    schemas = {}
    for name in CLASSES:
        whole = embedded.get_class_schema(name)
        objects = {each: whole["$defs"][each] for each in OBJECTS if each in whole["$defs"]}
        whole["$defs"] = {each: _reduced(schema) for each, schema in objects.items()}
        schemas[name] = _reduced(whole)
    return schemas


def _reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles, and with `false` for what is no attribute of an exported event."""
    properties = {name: _attribute(each) for name, each in schema.get("properties", {}).items()}
    return {name: value for name, value in schema.items() if name != "title"} | {"properties": properties}


def _attribute(attribute: dict[str, Any]) -> Any:
    reference = attribute.get("$ref", attribute.get("items", {}).get("$ref", ""))
    if reference and reference.rpartition("/")[2] not in OBJECTS:
        return False
    kept = {name: value for name, value in attribute.items() if name != "title"}
    return kept | {"items": _attribute(kept["items"])} if "items" in kept else kept


def ecs_fields(flat: str) -> dict[str, Any]:
    """By field, from the text of ecs_flat.yml."""
    fields: dict[str, Any] = yaml.safe_load(flat)
    return {
        name: _field(each)
        for name, each in fields.items()
        if name in FIELD_SETS or name.partition(".")[0] in FIELD_SETS
    }


def _field(field: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"type": field["type"]}
    if "array" in field["normalize"]:
        kept["array"] = True
    if "allowed_values" in field:
        kept["allowed"] = {each["name"]: each.get("expected_event_types") for each in field["allowed_values"]}
    return kept


def _written(content: dict[str, Any]) -> str:
    """A line for each class or field."""
    lines = (f"{json.dumps(name)}: {json.dumps(content[name], sort_keys=True)}" for name in sorted(content))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    OCSF_FILE.write_text(_written(ocsf_schemas()), encoding="utf-8")
    ECS_FILE.write_text(_written(ecs_fields(Path(sys.argv[1]).read_text(encoding="utf-8"))), encoding="utf-8")
