"""Finds the schema of a message: by kind and API key, or by name.

Each table in schemas/ is read once, and the block of a message is parsed on first use.
`make schemas` writes the tables.
"""

from functools import cache
from importlib.resources import files

from proxy.wire.errors import WireError
from proxy.wire.notation import headline_options, parse_message, split_messages
from proxy.wire.schema import NO_VERSIONS, MessageSchema, versions

_FILES_IN_ORDER = ("requests.schema", "responses.schema", "data.schema", "metadata.schema")


@cache
def _blocks(file_name: str) -> dict[str, list[str]]:
    text = files("proxy.wire").joinpath("schemas", file_name).read_text("utf-8")
    return {headline_options(block[0])[1]: block for block in split_messages(text)}


@cache
def _names_by_key(file_name: str) -> dict[int, str]:
    options = {name: headline_options(block[0])[2] for name, block in _blocks(file_name).items()}
    return {int(o["key"]): name for name, o in options.items() if "key" in o}


@cache
def by_name(name: str) -> MessageSchema:
    """Return the schema of a message (`CreateAclsRequest`); WireError if Kafka has none of that name."""
    for file_name in _FILES_IN_ORDER:
        if name in _blocks(file_name):
            return parse_message(_blocks(file_name)[name])
    raise WireError(f"Kafka has no message named {name}")


def request(api_key: int) -> MessageSchema:
    """Return the schema of a request; WireError if no live API has this key."""
    return _by_key("requests.schema", "request", api_key)


def response(api_key: int) -> MessageSchema:
    """Return the schema of a response; WireError if no live API has this key."""
    return _by_key("responses.schema", "response", api_key)


def record(api_key: int) -> MessageSchema:
    """Return the schema of a record of the metadata log; WireError for an unknown key."""
    return _by_key("metadata.schema", "metadata record", api_key)


def record_key(name: str) -> int:
    """Return the API key of a record of the metadata log; KeyError if there is none of this name."""
    return int(headline_options(_blocks("metadata.schema")[name][0])[2]["key"])


def _by_key(file_name: str, kind: str, api_key: int) -> MessageSchema:
    name = _names_by_key(file_name).get(api_key)
    if name is None:
        raise WireError(f"no {kind} has the api key {api_key}")
    return by_name(name)


def live_api_keys() -> tuple[int, ...]:
    return tuple(sorted(_names_by_key("requests.schema")))


@cache
def first_flexible_versions() -> dict[int, int]:
    """API key -> the first version whose requests and responses are flexible, for APIs that have one."""
    flexible = {
        int(options["key"]): versions(options["flexible"])
        for _, _, options in (headline_options(block[0]) for block in _blocks("requests.schema").values())
    }
    return {api_key: span.first for api_key, span in flexible.items() if span != NO_VERSIONS}


def names() -> tuple[str, ...]:
    """Return the names of all messages, in the order of the files."""
    return tuple(name for file_name in _FILES_IN_ORDER for name in _blocks(file_name))
