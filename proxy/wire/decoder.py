"""Generates the Python source of the function that decodes a message in one version.

proxy.wire.codecs calls it on first use of that version. The source reads runs of fixed-size fields, together
with the length byte that follows, in one struct call; it returns bytes and records as views; and it skips
fields that the caller wants raw. It calls functions of proxy.wire.primitives.

The source never reads outside its buffer: positions only grow, every length is checked against the remaining
bytes before it is used, and a count is rejected if its elements cannot fit.
"""

import re
from collections.abc import Callable, Collection, Mapping
from struct import Struct as PackedStruct
from struct import calcsize
from struct import error as StructError

from proxy.wire import primitives, work
from proxy.wire.schema import FIXED_FORMATS, Field, Layout, MessageSchema, Struct
from proxy.wire.source import Generated, Source

DECODING_FAULTS = (IndexError, StructError, ValueError)
"""The exceptions of generated source on malformed bytes; UnicodeDecodeError is a ValueError."""

_SKIPPED_AT_ONCE = 65
"""Fewer elements than this are skipped by one match."""

_RUNTIME: dict[str, object] = {
    "new": object.__new__,
    "FAULTS": DECODING_FAULTS,
    "view_of": primitives.view_of,
    "read_uvarint": primitives.read_uvarint,
    "read_string_length": primitives.read_string_length,
    "read_unknown_tags": primitives.read_unknown_tags,
    "bad_length": primitives.bad_length,
    "bad_count": primitives.bad_count,
    "bad_presence": primitives.bad_presence,
    "bad_tag_size": primitives.bad_tag_size,
    "repeated_tag": primitives.repeated_tag,
    "past_end": primitives.past_end,
    "Elements": work.Elements,
    "counted": work.counted,
    "count_elements": work.count_elements,
    **{f"read_{name}_array": readers for name, readers in primitives.ARRAY_READERS.items()},
}


def write_decoder(
    schema: MessageSchema, version: int, raw: Collection[str], classes: Mapping[str, type[object]]
) -> tuple[Source, Callable[[Callable[..., Exception]], Generated]]:
    """Return the source, and a function that compiles it.

    That one takes a function (fault, buffer size) -> error.
    """
    writer = _DecoderWriter(schema, version, raw)
    source = writer.write()
    namespace = {**_RUNTIME, **classes, **writer.structs}

    def compiled(explain: Callable[..., Exception]) -> Generated:
        return source.compiled("decode", {**namespace, "explain": explain})

    return source, compiled


Match = Callable[[bytes, int], re.Match[bytes] | None]


class Repeated(dict[int, Match]):
    """Matches this many elements, and `rest` behind them; compiled when first needed."""

    def __init__(self, element: bytes, rest: bytes = b"") -> None:
        super().__init__()
        self._element = element
        self._rest = rest

    def __missing__(self, count: int) -> Match:
        match = re.compile(b"(?:%b){%d}%b" % (self._element, count, self._rest), re.DOTALL).match
        self[count] = match
        return match


class _DecoderWriter:
    """Writes one function. `target` is where a value goes (`m1.name`, `a1.append`), or None to skip it."""

    def __init__(self, schema: MessageSchema, version: int, raw: Collection[str]) -> None:
        self._schema = schema
        self._version = version
        self._raw = raw
        self._layout = Layout(schema, version)
        self._source = Source(f"<decode {schema.name} v{version}>")
        self._run: list[tuple[str | None, str]] = []
        self._names = 0
        self._returns_views = bool(raw) or self._layout.has_bytes(schema.root)
        self.structs: dict[str, object] = {}

    def write(self) -> Source:
        line, block = self._source.line, self._source.block
        with block("def decode(buffer, offset=0):"):
            # Strings are decoded faster from bytes than from a view; if slices are returned, the view has to
            # stay.
            convert = "view_of" if self._returns_views else "bytes"
            line(f"b = buffer if type(buffer) is bytes else {convert}(buffer)")
            if self._returns_views:
                line("v = memoryview(b)")
            line("end = len(b)")
            line("p = offset")
            with block("try:"):
                self._new_struct(self._schema.root, "m0")
                self._struct_body(self._schema.root, "m0")
                self._flush()
                line("return m0, p")
            with block("except FAULTS as fault:"):
                # Not in a variable: error and frame would reference each other, and with them the buffer.
                line("raise explain(fault, end) from None")
        return self._source

    # Runs of fixed-size fields

    def _flush(self) -> None:
        run, self._run = self._run, []
        targets = [target for target, _ in run if target is not None]
        size = sum(calcsize(f">{code}") for _, code in run)
        if len(targets) == 1 and run[-1] == (targets[0], "B"):
            self._source.line(f"{targets[0]} = b[p + {size - 1}]" if size > 1 else f"{targets[0]} = b[p]")
        elif targets:
            self._source.line(
                f"{', '.join(targets)}{',' * (len(targets) == 1)} = {self._unpacker(run)}(b, p)"
            )
        if size:
            self._source.line(f"p += {size}")

    def _unpacker(self, run: list[tuple[str | None, str]]) -> str:
        codes = "".join(code if target is not None else f"{calcsize('>' + code)}x" for target, code in run)
        name = f"unpack_{codes.replace('?', 'f')}"
        self.structs[name] = PackedStruct(f">{codes}").unpack_from
        return name

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _store(self, target: str, value: str) -> None:
        self._source.line(f"{target}({value})" if target.endswith(".append") else f"{target} = {value}")

    # Structs

    def _new_struct(self, struct: Struct, variable: str) -> None:
        self._source.line(f"{variable} = new({struct.name})")

    def _struct_body(self, struct: Struct, target: str | None) -> None:
        for field in struct.present(self._version):
            self._field(field, target)
        if target is not None:
            for field in struct.absent(self._version):
                self._default(field, f"{target}.{field.attribute}")
        self._tags(struct, target)

    def _field(self, field: Field, owner: str | None) -> None:
        target = None if owner is None else f"{owner}.{field.attribute}"
        with self._source.field(field.attribute):
            if target is not None and self._source.path in self._raw:
                self._raw_value(field, target)
            else:
                self._value(field, target)

    def _raw_value(self, field: Field, target: str) -> None:
        self._flush()
        start = self._name("s")
        self._source.line(f"{start} = p")
        self._value(field, None)
        self._flush()
        self._source.line("if p > end: raise past_end(p, end)")
        self._source.line(f"{target} = v[{start}:p]")

    def _value(self, field: Field, target: str | None) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.struct is not None:
            self._struct_value(field, field.struct, target)
        elif field.type in FIXED_FORMATS:
            self._run.append((target, FIXED_FORMATS[field.type]))
        else:
            self._sliced(field, target)

    def _struct_value(self, field: Field, struct: Struct, target: str | None) -> None:
        if self._version not in field.nullable:
            self._present_struct(struct, target)
            return
        mark = self._name("n")
        self._run.append((mark, "b"))
        self._flush()
        with self._source.block(f"if {mark} == 1:"):
            self._present_struct(struct, target)
            self._flush()
        self._source.line(f"elif {mark} != -1: raise bad_presence({mark})")
        self._null_otherwise(target)

    def _present_struct(self, struct: Struct, target: str | None) -> None:
        variable = None if target is None else self._name("m")
        if target is not None and variable is not None:
            self._new_struct(struct, variable)
            self._source.line(f"{target} = {variable}")
        self._struct_body(struct, variable)

    def _null_otherwise(self, target: str | None) -> None:
        if target is not None:
            self._source.line(f"else: {target} = None")

    # Strings, bytes, records: a length, then as many bytes

    def _length(self, field: Field, fixed_code: str, long_reader: str = "read_uvarint") -> str:
        """Write the code of a length; return its variable, which is the length plus one if compact."""
        length = self._name("n")
        compact = self._layout.is_compact(field)
        self._run.append((length, "B" if compact else fixed_code))
        self._flush()
        if compact:
            self._source.line(f"if {length} > 127: {length}, p = {long_reader}(b, p - 1)")
        return length

    def _sliced(self, field: Field, target: str | None) -> None:
        is_string = field.type == "string"
        length = self._length(
            field, "h" if is_string else "i", "read_string_length" if is_string else "read_uvarint"
        )
        compact = self._layout.is_compact(field)
        if self._version in field.nullable:
            with self._source.block(f"if {length}:" if compact else f"if {length} != -1:"):
                self._slice(length, compact, target, self._converted(is_string))
            self._null_otherwise(target)
        else:
            self._slice(length, compact, target, self._converted(is_string))

    def _converted(self, is_string: bool) -> str:
        if not is_string:
            return "v[p:{}]"
        return "str(b[p:{}], 'utf-8')" if self._returns_views else "b[p:{}].decode()"

    def _slice(self, length: str, compact: bool, target: str | None, converted: str) -> None:
        stop = self._name("e")
        size = f"{length} - 1" if compact else length
        impossible = f"{length} == 0" if compact else f"{length} < 0"
        self._source.line(f"{stop} = p + {size}")
        self._source.line(f"if {stop} > end or {impossible}: raise bad_length({size}, end - p)")
        if target is not None:
            self._store(target, converted.format(stop))
        self._source.line(f"p = {stop}")

    # Arrays

    def _array(self, field: Field, target: str | None) -> None:
        count = self._length(field, "i")
        if self._layout.is_compact(field):
            self._source.line(f"{count} -= 1")
        if self._version in field.nullable:
            with self._source.block(f"if {count} != -1:"):
                self._elements(field, count, target)
            self._null_otherwise(target)
        else:
            self._elements(field, count, target)

    def _elements(self, field: Field, count: str, target: str | None) -> None:
        size = self._layout.element_bytes(field)
        rejection = f"raise bad_count({count}, {size}, end - p)"
        if field.type not in FIXED_FORMATS:
            self._source.line(f"if {count} * {size} > end - p or {count} < 0: {rejection}")
            self._element_loop(field, count, target)
        elif target is not None:
            self._source.line(f"if {count} * {size} > end - p or {count} < 0: {rejection}")
            self._source.line(f"count_elements({count})")
            kind = f"(list if {count} <= {work.PIECE} else Elements)"
            self._source.line(f"{target} = {kind}(read_{field.type}_array[{count}](b, p))")
            self._source.line(f"p += {count} * {size}")
        else:
            # Skipping too far is detected at the next read, or at the end of the raw field.
            self._source.line(f"if {count} < 0: {rejection}")
            self._source.line(f"p += {count} * {size}")

    def _element_loop(self, field: Field, count: str, target: str | None) -> None:
        elements = None if target is None else self._name("a")
        if elements is not None:
            self._source.line(f"{target} = {elements} = [] if {count} <= {work.PIECE} else Elements()")
        pattern = self._layout.skipping_pattern(field) if target is None else None
        if pattern is None:
            self._each_element(field, count, elements)
            return
        # One match skips them all. What it does not match is rarer, or malformed.
        skips, found = self._name("skips"), self._name("x")
        self.structs[skips] = Repeated(pattern)
        with self._source.block(f"if {count} < {_SKIPPED_AT_ONCE} and ({found} := {skips}[{count}](b, p)):"):
            self._source.line(f"count_elements({count})")
            self._source.line(f"p = {found}.end()")
        with self._source.block("else:"):
            self._each_element(field, count, elements)

    def _each_element(self, field: Field, count: str, elements: str | None) -> None:
        with self._source.block(f"for _ in counted({count}):"):
            self._element(field, elements)
            self._flush()

    def _element(self, field: Field, elements: str | None) -> None:
        append = None if elements is None else f"{elements}.append"
        if field.struct is None:
            self._sliced(self._layout.element(field), append)
            return
        variable = None if elements is None else self._name("m")
        if variable is not None and append is not None:
            self._new_struct(field.struct, variable)
            self._source.line(f"{append}({variable})")
        self._struct_body(field.struct, variable)

    # Defaults and tagged fields

    def _default(self, field: Field, target: str) -> None:
        if field.default is None or (field.struct is None and not field.is_array):
            self._source.line(f"{target} = {field.default!r}")
        elif field.is_array or field.struct is None:
            self._source.line(f"{target} = []")
        else:
            variable = self._name("m")
            self._new_struct(field.struct, variable)
            self._source.line(f"{target} = {variable}")
            self._source.line(f"{variable}.unknown_tags = None")
            for nested in field.struct.fields:
                self._default(nested, f"{variable}.{nested.attribute}")

    def _tags(self, struct: Struct, target: str | None) -> None:
        if target is not None:
            self._source.line(f"{target}.unknown_tags = None")
        if not self._layout.flexible:
            return
        count = self._name("n")
        self._run.append((count, "B"))
        self._flush()
        known = [] if target is None else list(struct.tagged(self._version))
        for field in known:
            self._untagged(field, f"{target}.{field.attribute}")
        if known and target is not None:
            with self._source.block(f"if {count}:"):
                self._known_tags(known, count, target)
        else:
            into = "_" if target is None else f"{target}.unknown_tags"
            self._source.line(f"if {count}: {into}, p = read_unknown_tags(b, p - 1)")

    def _untagged(self, field: Field, target: str) -> None:
        """Return the expression for an absent tagged field: None for a raw one, else the default."""
        with self._source.field(field.attribute):
            if self._source.path in self._raw:
                self._source.line(f"{target} = None")
            else:
                self._default(field, target)

    def _known_tags(self, known: list[Field], count: str, owner: str) -> None:
        line, block = self._source.line, self._source.block
        tag, size, stop, unknown, seen = (self._name(letter) for letter in ("t", "n", "e", "u", "w"))
        line(f"if {count} > 127: {count}, p = read_uvarint(b, p - 1)")
        line(f"{unknown}, {seen} = {{}}, set()")
        with block(f"for _ in counted({count}):"):
            line(f"{tag}, p = read_uvarint(b, p)")
            line(f"if {tag} in {seen}: raise repeated_tag({tag})")
            line(f"{seen}.add({tag})")
            line(f"{size}, p = read_uvarint(b, p)")
            line(f"{stop} = p + {size}")
            line(f"if {stop} > end: raise bad_length({size}, end - p)")
            for at, field in enumerate(known):
                with block(f"{'elif' if at else 'if'} {tag} == {field.tag}:"):
                    self._field(field, owner)
                    self._flush()
            with block("else:"):
                line(f"{unknown}[{tag}] = bytes(b[p:{stop}])")
                line(f"p = {stop}")
            line(f"if p != {stop}: raise bad_tag_size({tag}, {stop}, p)")
        line(f"{owner}.unknown_tags = {unknown} or None")
