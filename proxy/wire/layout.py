"""The layout of a message's fields in one version: which are compact, and the least size of an element.

The generators in proxy.wire.decoder and proxy.wire.encoder use it.
"""

from dataclasses import replace

from proxy.wire.schema import FIXED_SIZES, NO_VERSIONS, Field, MessageSchema, Struct


class Layout:
    """The layout of one version."""

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self._version = version
        self.flexible = version in schema.flexible

    def is_compact(self, field: Field) -> bool:
        return self.flexible and not field.inflexible

    def element(self, field: Field) -> Field:
        """Return the element of an array as a field of its own; it is never null."""
        return replace(field, is_array=False, nullable=NO_VERSIONS)

    def element_bytes(self, field: Field) -> int:
        """Return the least size of an element of this array in bytes."""
        size = self._least_bytes(self.element(field))
        if size == 0:
            # The remaining bytes could then not limit a count.
            raise ValueError(f"the elements of {field.name} take no bytes in version {self._version}")
        return size

    def _least_bytes(self, field: Field) -> int:
        if field.is_array:
            return 1 if self.is_compact(field) else 4
        if field.type in FIXED_SIZES:
            return FIXED_SIZES[field.type]
        if field.struct is not None:
            return 1 if self._version in field.nullable else self._least_struct_bytes(field.struct)
        if self.is_compact(field):
            return 1
        return 2 if field.type == "string" else 4

    def _least_struct_bytes(self, struct: Struct) -> int:
        tag_section = 1 if self.flexible else 0
        return tag_section + sum(self._least_bytes(f) for f in struct.present(self._version))

    def has_bytes(self, struct: Struct) -> bool:
        """Whether this version of the struct, or of one inside it, has bytes or records."""
        return any(
            f.type in ("bytes", "records") or (f.struct is not None and self.has_bytes(f.struct))
            for f in struct.fields
            if self._version in f.versions
        )
