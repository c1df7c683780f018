"""Loads a class that a setting names by its dotted path: authorizers, mechanisms, builders."""

from importlib import import_module
from typing import TypeVar

Plugin = TypeVar("Plugin")


def plugin(key: str, dotted_path: str, kind: type[Plugin], what: str) -> Plugin:
    """Return an instance of `dotted_path`, package.module.Class; `what` is the name of `kind` in messages.

    ValueError names the key if there is no such class or it is of another kind.
    """
    module_name, _, class_name = dotted_path.rpartition(".")
    try:
        made = getattr(import_module(module_name), class_name)()
    except Exception as error:
        # Any exception of a foreign module's import: the process does not start without it.
        raise ValueError(f"{key}: cannot load {dotted_path!r}: {_reason(error, dotted_path)}") from error
    if not isinstance(made, kind):
        raise ValueError(f"{key}: {dotted_path!r} is not {what}")
    return made


def _reason(error: Exception, dotted_path: str) -> str:
    module_name, _, class_name = dotted_path.rpartition(".")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return f"there is no Python module {error.name!r}; install it, or name its directory in PYTHONPATH"
    if isinstance(error, AttributeError) and error.name == class_name:
        return f"module {module_name!r} has no class {class_name!r}"
    return repr(error)
