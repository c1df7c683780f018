"""Generates the Python source of the function that encodes a message in one version.

proxy.wire.codecs calls it on first use of that version. The source collects chunks of bytes in a list and
joins them once, so that records are copied a single time; runs of fixed-size fields, with the length that
follows, are packed by one struct call. It calls functions of proxy.wire.primitives.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from struct import Struct as PackedStruct
from struct import error as StructError

from proxy.wire import primitives, work
from proxy.wire.schema import FIXED_FORMATS, Field, Layout, MessageSchema, Struct
from proxy.wire.source import Generated, Source

ENCODING_FAULTS = (StructError, ValueError, TypeError, AttributeError, OverflowError)
"""The exceptions of generated source if a message does not fit its schema."""

_RUNTIME: dict[str, object] = {
    "FAULTS": ENCODING_FAULTS,
    "join": b"".join,
    "uvarints": primitives.UVARINTS,
    "string_lengths": primitives.STRING_LENGTHS,
    "check_uuids": primitives.check_uuids,
    "bad_uuid": primitives.bad_uuid,
    "absent_field": primitives.absent_field,
    "absent_tags": primitives.absent_tags,
    "copy_unknown_tags": primitives.copy_unknown_tags,
    "write_tags": primitives.write_tags,
    "encoding": work.encoding,
    **{
        f"write_{'compact_' if flexible else ''}{name}_array": primitives.array_writers(name, flexible)
        for name in FIXED_FORMATS
        for flexible in (False, True)
    },
}

_NULL_COUNT = {True: r"b'\x00'", False: r"b'\xff\xff\xff\xff'"}
"""A null array or null bytes, by whether it is compact."""


def write_encoder(
    schema: MessageSchema, version: int, raw: Collection[str]
) -> tuple[Source, Callable[[Callable[..., Exception]], Generated]]:
    """Return the source, and a function that compiles it. That one takes a function fault -> error."""
    writer = _EncoderWriter(schema, version, raw)
    source = writer.write()
    namespace = {**_RUNTIME, **writer.structs}

    def compiled(explain: Callable[..., Exception]) -> Generated:
        return source.compiled("encode", {**namespace, "explain": explain})

    return source, compiled


class _EncoderWriter:
    """Writes one function. `value` is the expression for the value to encode."""

    def __init__(self, schema: MessageSchema, version: int, raw: Collection[str]) -> None:
        self._schema = schema
        self._version = version
        self._raw = raw
        self._layout = Layout(schema, version)
        self._source = Source(f"<encode {schema.name} v{version}>")
        self._run: list[tuple[str, str, str]] = []
        self._chunks: list[tuple[str, str]] = []
        self._parts = "parts"
        self._names = 0
        self.structs: dict[str, object] = {}

    def write(self) -> Source:
        line, block = self._source.line, self._source.block
        with block("def encode(m0):"):
            line("parts = []")
            with block("try:"):
                self._struct_body(self._schema.root, "m0")
                self._flush()
                line("return join(parts)")
            with block("except FAULTS as fault:"):
                line("raise explain(fault) from None")
        return self._source

    # Chunks: expressions of bytes, written together as late as possible

    def _chunk(self, expression: str) -> None:
        self._end_run()
        self._chunks.append((expression, self._source.path))

    def _fixed(self, expression: str, code: str) -> None:
        self._run.append((expression, code, self._source.path))

    def _end_run(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        codes = "".join(code for _, code, _ in run)
        name = f"pack_{codes.replace('?', 'f')}"
        self.structs[name] = PackedStruct(f">{codes}").pack
        # One call packs the whole run, so its error names every field of it.
        paths = ", ".join(dict.fromkeys(path for _, _, path in run))
        self._chunks.append((f"{name}({', '.join(expression for expression, _, _ in run)})", paths))

    def _flush(self) -> None:
        self._end_run()
        chunks, self._chunks = self._chunks, []
        if len(chunks) == 1:
            self._source.line(f"{self._parts}.append({chunks[0][0]})", chunks[0][1])
        elif chunks:
            self._source.line(f"{self._parts} += (")
            for expression, path in chunks:
                self._source.line(f"    {expression},", path)
            self._source.line(")")

    @contextmanager
    def _flushed_block(self, opening: str) -> Iterator[None]:
        """A block with chunks of its own."""
        self._flush()
        with self._source.block(opening):
            yield
            self._flush()

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # Structs

    def _struct_body(self, struct: Struct, owner: str) -> None:
        for field in struct.absent(self._version):
            self._reject_if_set(field, owner)
        for field in struct.present(self._version):
            self._field(field, owner)
        self._tags(struct, owner)

    def _reject_if_set(self, field: Field, owner: str) -> None:
        if field.ignorable:
            return
        with self._source.field(field.attribute):
            is_set = _differs_from_default(field, f"{owner}.{field.attribute}")
            self._source.line(f"if {is_set}: raise absent_field({self._version})")

    def _field(self, field: Field, owner: str) -> None:
        value = f"{owner}.{field.attribute}"
        with self._source.field(field.attribute):
            if self._source.path in self._raw:
                self._chunk(value)
            elif field.is_array:
                self._array(field, value)
            elif field.struct is not None:
                self._struct_value(field, field.struct, value)
            elif field.type in FIXED_FORMATS:
                self._fixed_value(field, value)
            else:
                self._sliced(field, value)

    def _fixed_value(self, field: Field, value: str) -> None:
        if field.type == "uuid":
            self._source.line(f"if len({value}) != 16: raise bad_uuid({value})")
        self._fixed(value, FIXED_FORMATS[field.type])

    def _struct_value(self, field: Field, struct: Struct, value: str) -> None:
        variable = self._name("m")
        self._source.line(f"{variable} = {value}")
        if self._version not in field.nullable:
            self._struct_body(struct, variable)
            return
        with self._flushed_block(f"if {variable} is not None:"):
            self._fixed("1", "b")
            self._struct_body(struct, variable)
        self._source.line(rf"else: {self._parts}.append(b'\xff')")

    # Strings, bytes, records

    def _sliced(self, field: Field, value: str) -> None:
        compact = self._layout.is_compact(field)
        nullable = self._version in field.nullable
        chunk = self._name("s")
        converted = f"{value}.encode()" if field.type == "string" else value
        length = f"len({chunk})"
        if nullable:
            length = self._name("n")
            size = f"len({chunk}) + 1" if compact else f"len({chunk})"
            with self._source.block(f"if {value} is None:"):
                self._source.line(f"{chunk} = b''; {length} = {0 if compact else -1}")
            with self._source.block("else:"):
                self._source.line(f"{chunk} = {converted}; {length} = {size}")
        else:
            self._source.line(f"{chunk} = {converted}")
            length += " + 1" if compact else ""
        self._write_length(field, length)
        self._chunk(chunk)

    def _write_length(self, field: Field, length: str) -> None:
        is_string = field.type == "string" and not field.is_array
        if self._layout.is_compact(field):
            self._chunk(f"{'string_lengths' if is_string else 'uvarints'}[{length}]")
        else:
            self._fixed(length, "h" if is_string else "i")

    # Arrays

    def _array(self, field: Field, value: str) -> None:
        if field.type in FIXED_FORMATS:
            self._fixed_array(field, value)
            return
        elements, count = self._name("a"), self._name("n")
        compact = self._layout.is_compact(field)
        self._source.line(f"{elements} = {value}")
        size = f"len({elements}) + 1" if compact else f"len({elements})"
        if self._version in field.nullable:
            self._source.line(f"if {elements} is None: {elements} = (); {count} = {0 if compact else -1}")
            self._source.line(f"else: {count} = {size}")
        else:
            self._source.line(f"{count} = {size}")
        self._write_length(field, count)
        self._element_loop(field, elements)

    def _fixed_array(self, field: Field, value: str) -> None:
        compact = self._layout.is_compact(field)
        checked = f"check_uuids({value})" if field.type == "uuid" else value
        written = f"write_{'compact_' if compact else ''}{field.type}_array({checked})"
        if self._version in field.nullable:
            written = f"({_NULL_COUNT[compact]} if {value} is None else {written})"
        self._chunk(written)

    def _element_loop(self, field: Field, elements: str) -> None:
        element = self._name("m")
        with self._flushed_block(f"for {element} in encoding({elements}, {self._parts}):"):
            if field.struct is None:
                self._sliced(self._layout.element(field), element)
            else:
                self._struct_body(field.struct, element)

    # Tagged fields

    def _tags(self, struct: Struct, owner: str) -> None:
        unknown = f"{owner}.unknown_tags"
        known = list(struct.tagged(self._version))
        if not self._layout.flexible:
            self._source.line(f"if {unknown}: raise absent_tags({self._version})")
        elif known:
            self._known_tags(known, owner)
        else:
            self._chunk(rf"(write_tags({unknown}) if {unknown} else b'\x00')")

    def _known_tags(self, known: list[Field], owner: str) -> None:
        self._flush()
        tags = self._name("t")
        numbers = {field.tag for field in known}
        unknown = f"{owner}.unknown_tags"
        self._source.line(f"{tags} = copy_unknown_tags({unknown}, {numbers}) if {unknown} else {{}}")
        for field in known:
            value = f"{owner}.{field.attribute}"
            with self._source.field(field.attribute):
                is_raw = self._source.path in self._raw
                is_set = f"{value} is not None" if is_raw else _differs_from_default(field, value)
                self._source.line(f"if {is_set}:")
            with self._source.indented():
                self._tag_value(field, owner, f"{tags}[{field.tag}]")
        self._chunk(rf"(write_tags({tags}) if {tags} else b'\x00')")

    def _tag_value(self, field: Field, owner: str, target: str) -> None:
        outer, self._parts = self._parts, self._name("parts")
        self._source.line(f"{self._parts} = []")
        self._field(field, owner)
        self._flush()
        self._source.line(f"{target} = join({self._parts})")
        self._parts = outer


def _differs_from_default(field: Field, value: str) -> str:
    """Return an expression that is true if the field has to be written."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        return f"{value} != []"
    if field.struct is not None:
        nested = [_differs_from_default(f, f"{value}.{f.attribute}") for f in field.struct.fields]
        return f"({' or '.join([*nested, f'{value}.unknown_tags'])})"
    return f"{value} != {field.default!r}"
