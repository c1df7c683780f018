"""Python source, line by line, that remembers the message field of each line.

proxy.wire.decoder and proxy.wire.encoder write it. `compiled` makes the functions, and `field_at` finds the
field when one of them fails: generated code needs no names, and an error still names the field.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

Generated = Callable[..., Any]
"""A generated function; its writer knows its parameters and its result."""

_INDENT = "    "


class Source:
    """The lines of one generated module."""

    def __init__(self, label: str) -> None:
        """`label` names the module in tracebacks: `<decode MetadataRequest v12>`."""
        self.label = label
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._depth = 0
        self._path: list[str] = []

    def line(self, text: str, path: str | None = None) -> None:
        """Add one line, about the field of `path` or the current one."""
        self._lines.append(_INDENT * self._depth + text)
        self._fields.append(self.path if path is None else path)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Indent the lines inside, under `opening`."""
        self.line(opening)
        with self.indented():
            yield

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """The lines inside are about this field."""
        self._path.append(name)
        yield
        self._path.pop()

    @property
    def path(self) -> str:
        """The dotted path of the current field."""
        return ".".join(self._path)

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compiled(self, name: str, namespace: Mapping[str, object]) -> Generated:
        """Run the module over a copy of `namespace`; return the function of that name."""
        defined: dict[str, Generated] = {}
        # The source is made from the project's schema files, never from bytes of a peer.
        exec(compile(self.text, self.label, "exec"), dict(namespace), defined)  # noqa: S102
        return defined[name]

    def field_at(self, traceback: TracebackType | None) -> str:
        """Return the dotted path of the field whose line failed, or an empty string."""
        found = ""
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.label:
                found = self._fields[traceback.tb_lineno - 1]
            traceback = traceback.tb_next
        return found
