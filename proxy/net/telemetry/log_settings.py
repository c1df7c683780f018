"""The settings of log lines in a configuration file: the level, and the process's id.

The entry points read them before the file is validated, so that the lines about its errors look like all
others.
"""

from pathlib import Path
from typing import Any

import yaml

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
IDS = {"proxy.id": "proxy_id", "controller.id": "controller_id"}
"""Key of the file -> field of each line."""


def level(config_path: Path) -> str:
    """Return `log.level`; INFO if the file has none."""
    try:
        found = _document(config_path)["log"]["level"]
    except (KeyError, TypeError):
        return "INFO"
    return found if found in LEVELS else "INFO"


def process(config_path: Path) -> dict[str, object]:
    """Return proxy_id or controller_id, if the file has one."""
    document = _document(config_path)
    return {field: str(document[key]) for key, field in IDS.items() if document.get(key) is not None}


def _document(config_path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}
