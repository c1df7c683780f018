"""The message classes by Kafka's names: `types.CreateAclsRequest(creations=[...])`.

A class and those of its nested structs (`types.CreateAclsRequest.AclCreation`) are built from the schema
when somebody first names it. Asked by everybody who makes or reads messages. Messages are `Any` to the type
checker: their shape is in schemas/*.schema, not in Python.
"""

from functools import cache
from typing import Any

from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.message import Message, build_classes


@cache
def classes_of(name: str) -> dict[str, type[Message]]:
    """The classes of the message by struct name. WireError when there is no such message."""
    return build_classes(catalog.by_name(name))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    try:
        message_class = classes_of(name)[name]
    except WireError as unknown:
        raise AttributeError(str(unknown)) from None
    globals()[name] = message_class
    return message_class


def __dir__() -> list[str]:
    return [*globals(), *catalog.names()]
