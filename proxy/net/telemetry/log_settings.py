"""What log lines need of a configuration file, whatever else is wrong with it: its level, and whose it is.

Read by the entry points before the file is checked, so that the lines about its errors look like all others.
"""

from pathlib import Path
from typing import Any

import yaml

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
IDS = {"proxy.id": "proxy_id", "controller.id": "controller_id"}
"""Key of the file -> field of each line."""


def level(config_path: Path) -> str:
    """`log.level`; INFO where the file does not say."""
    try:
        found = _document(config_path)["log"]["level"]
    except (KeyError, TypeError):
        return "INFO"
    return found if found in LEVELS else "INFO"


def process(config_path: Path) -> dict[str, object]:
    """proxy_id or controller_id, if the file has one."""
    document = _document(config_path)
    return {field: str(document[key]) for key, field in IDS.items() if document.get(key) is not None}


def _document(config_path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(config_path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return document if isinstance(document, dict) else {}
