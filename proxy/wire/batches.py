"""A request in batches of the elements of its arrays, and a response that is joined from those to each batch.

Requests with too many elements are rejected in this way (proxy.session.requests.too_large): what is decoded
at a time is a batch, however large the request is. An array is skipped first, which makes no object for an
element. Outside of a Work (proxy.wire.work) no elements are counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from struct import Struct

from proxy.wire import catalog, codecs, work
from proxy.wire.errors import WireError
from proxy.wire.message import Message
from proxy.wire.primitives import Buffer, read_string_length, read_uvarint, write_uvarint
from proxy.wire.schema import FIXED_FORMATS, Field, Layout, MessageSchema

_BATCH = 16
_MANY_UNITS = 1_000  # What copying some megabytes takes.
_INT16, _INT32 = Struct(">h"), Struct(">i")

ReadElement = Callable[[Buffer, int], tuple[object, int]]


def of_request(
    api_key: int, version: int, frame: memoryview, offset: int, max_elements: int | None, unread: str = ""
) -> Iterator[Message]:
    """Return the request whose body is at `offset` again and again, each time with elements of one array.

    Once without any if it has none. `max_elements` is the limit for those within one batch. `unread` is an
    array within the elements that is not decoded: it is a view. WireError if the request is malformed.
    """
    schema = catalog.request(api_key)
    layout = Layout(schema, version)
    fields = [f for f in schema.root.fields if version in f.versions and (f.is_array or f.struct is not None)]
    work.limit_elements(None)
    codec = codecs.request(api_key, version, tuple(field.attribute for field in fields))
    request, _ = codec.decode(frame, offset)
    views = [getattr(request, field.attribute) for field in fields]
    for field in fields:
        setattr(request, field.attribute, [] if field.is_array else None)
    is_empty = True
    for field, view in zip(fields, views, strict=True):
        if view is None or not field.is_array or field.type in FIXED_FORMATS:
            continue
        is_unread = field.struct is not None and any(f.attribute == unread for f in field.struct.fields)
        read = _reader(api_key, version, field.attribute, unread if is_unread else "")
        if not (is_unread or (field.struct is not None and layout.has_bytes(field.struct))):
            view = bytes(view)  # Otherwise the codec would copy it for each element.
            work.spend(_MANY_UNITS)
        for elements in _batches(view, layout.is_compact(field), read):
            work.limit_elements(None if is_unread else max_elements)
            setattr(request, field.attribute, list(elements))
            yield request
            is_empty = False
        setattr(request, field.attribute, [])
    if is_empty:
        yield request


def _batches(array: Buffer, is_compact: bool, read: ReadElement) -> Iterator[Iterator[object]]:
    if is_compact:
        count, position = read_uvarint(array, 0)
        count -= 1
    else:
        (count,), position = _INT32.unpack_from(array), _INT32.size

    def batch(size: int) -> Iterator[object]:
        nonlocal position
        for _ in work.counted(size):
            element, position = read(array, position)
            yield element

    for start in range(0, count, _BATCH):
        yield batch(min(_BATCH, count - start))


def _read_compact_string(array: Buffer, position: int) -> tuple[str, int]:
    length, position = read_string_length(array, position)
    return _string(array, position, length - 1)


def _read_string(array: Buffer, position: int) -> tuple[str, int]:
    return _string(array, position + _INT16.size, _INT16.unpack_from(array, position)[0])


def _string(array: Buffer, position: int, length: int) -> tuple[str, int]:
    # That it ends within the array was checked when the array was skipped.
    try:
        return str(array[position : position + length], "utf-8"), position + length
    except UnicodeDecodeError:
        raise WireError("an element is not UTF-8") from None


@cache
def _reader(api_key: int, version: int, attribute: str, unread: str) -> ReadElement:
    """Return the function that reads one element of this array of the request."""
    schema = catalog.request(api_key)
    field = _array(schema, attribute)
    if field.struct is None:
        return _read_compact_string if Layout(schema, version).is_compact(field) else _read_string
    return _element_codec(schema, field, version, (unread,) if unread else ()).decode


@cache
def _writer(api_key: int, version: int, attribute: str) -> Callable[[Message], bytes]:
    """Return the function that encodes one element of this array of the response."""
    schema = catalog.response(api_key)
    return _element_codec(schema, _array(schema, attribute), version).encode


def _array(schema: MessageSchema, attribute: str) -> Field:
    return next(field for field in schema.root.fields if field.attribute == attribute)


def _element_codec(
    schema: MessageSchema, field: Field, version: int, raw: tuple[str, ...] = ()
) -> codecs.AnyCodec:
    assert field.struct is not None
    return codecs.Codec(replace(schema, root=field.struct), version, raw)


class JoinedResponse:
    """The response to a whole request, from those to its batches: their elements are encoded as they come."""

    def __init__(self, api_key: int, version: int, first: Message) -> None:
        """`first`: the response to the first batch, which has the fields that all have in common."""
        self._api_key, self._version = api_key, version
        self._first = first
        self._array = next(
            (
                field
                for field in catalog.response(api_key).root.present(version)
                if field.is_array and getattr(first, field.attribute)
            ),
            None,
        )
        self._count = 0
        self._encoded = bytearray()

    @property
    def has_elements(self) -> bool:
        """Whether the errors are those of elements."""
        return self._array is not None

    @property
    def has_error(self) -> bool:
        """Whether the response has an error as a whole."""
        root = catalog.response(self._api_key).root.present(self._version)
        codes = [getattr(self._first, field.attribute) for field in root if field.attribute == "error_code"]
        return any(codes)

    @property
    def size_bytes(self) -> int:
        """The size of the elements so far."""
        return len(self._encoded)

    def add(self, response: Message) -> None:
        """Add the elements of the response to a batch."""
        assert self._array is not None
        encode = _writer(self._api_key, self._version, self._array.attribute)
        elements = getattr(response, self._array.attribute)
        for element in elements:
            self._encoded += encode(element)
        self._count += len(elements)

    def encode(self) -> bytes:
        """Return the body."""
        if self._array is None:
            return codecs.response(self._api_key, self._version).encode(self._first)
        is_compact = Layout(catalog.response(self._api_key), self._version).is_compact(self._array)
        count = write_uvarint(self._count + 1) if is_compact else _INT32.pack(self._count)
        self._encoded[:0] = count
        work.spend(_MANY_UNITS)
        setattr(self._first, self._array.attribute, self._encoded)
        body = codecs.response(self._api_key, self._version, (self._array.attribute,)).encode(self._first)
        # Each copy of megabytes in a slice of its own.
        work.spend(_MANY_UNITS)
        return body
