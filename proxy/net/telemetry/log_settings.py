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


def read(config_path: Path) -> tuple[str, dict[str, object]]:
    """Return `log.level`, INFO if the file has none; and proxy_id or controller_id, if the file has one."""
    document = _document(config_path)
    try:
        level = document["log"]["level"]
    except (KeyError, TypeError):
        level = "INFO"
    process: dict[str, object] = {
        field: str(document[key]) for key, field in IDS.items() if document.get(key) is not None
    }
    return level if level in LEVELS else "INFO", process


def _document(config_path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}
