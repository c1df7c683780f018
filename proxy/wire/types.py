"""The message classes by Kafka's names: `types.CreateAclsRequest(creations=[...])`.

A class and those of its nested structs (`types.CreateAclsRequest.AclCreation`) are made from the schema on
first use. Type checkers read types.pyi instead, which `make schemas` writes: a misspelt field is then an
error before anything runs.
"""

from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.message import Message, classes_of


def __getattr__(name: str) -> type[Message]:
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
