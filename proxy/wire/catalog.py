"""Where a message's schema is found: by kind and api key, or by name.

Reads the tables in schemas/ once each, and a message's block only when somebody asks for it. Fed by nobody
but the files that proxy.wire.import_schemas wrote; asked by proxy.wire.codecs and proxy.wire.types.
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
    """The schema of the message of this name (`CreateAclsRequest`); WireError when Kafka has none."""
    for file_name in _FILES_IN_ORDER:
        if name in _blocks(file_name):
            return parse_message(_blocks(file_name)[name])
    raise WireError(f"Kafka has no message named {name}")


def request(api_key: int) -> MessageSchema:
    """WireError when no live API has this key."""
    return _by_key("requests.schema", "request", api_key)


def response(api_key: int) -> MessageSchema:
    """WireError when no live API has this key."""
    return _by_key("responses.schema", "response", api_key)


def record(api_key: int) -> MessageSchema:
    """A record of the metadata log; WireError when none has this key."""
    return _by_key("metadata.schema", "metadata record", api_key)


def record_key(name: str) -> int:
    """The api key of a record of the metadata log; KeyError when there is none of this name."""
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
    """For each live API that has one: the version from which on its requests and responses are flexible."""
    flexible = {
        int(options["key"]): versions(options["flexible"])
        for _, _, options in (headline_options(block[0]) for block in _blocks("requests.schema").values())
    }
    return {api_key: span.first for api_key, span in flexible.items() if span != NO_VERSIONS}


def names() -> tuple[str, ...]:
    """Every message there is, in the order of the files."""
    return tuple(name for file_name in _FILES_IN_ORDER for name in _blocks(file_name))
