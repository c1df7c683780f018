"""The tables of docs/configuration.md and the comments of the examples, made from the configuration's fields.

    .venv/bin/python -m tests.support.configuration_page

writes them anew: after a key was added or changed, or after a merge. A test of the documentation compares the
files with what this would write. The text below a field is the meaning of its key.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent, fill, wrap

from pydantic.fields import FieldInfo

from forwarding.config import ControllerConfig
from proxy.config import (
    AuthorizerConfig,
    Http,
    ListenerConfig,
    LoginBackoffConfig,
    PeerConfig,
    ProxyConfig,
    QuotaConfig,
    effects,
)
from proxy.config.listener import Gssapi, OAuthBearer
from proxy.config.parts import Effect, Part, Unset, section_of
from proxy.config.proxy import DelegationTokens, ProxyAudit, ProxyLimits, WitnessClusterConfig
from proxy.config.telemetry import Otlp

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
HEADER = "| key | default | change | meaning |"
TABLES: dict[str, tuple[type[Part], str]] = {
    "proxy.yaml": (ProxyConfig, ""),
    "A listener": (ListenerConfig, ""),
    "Tokens": (OAuthBearer, ""),
    "Kerberos": (Gssapi, ""),
    "Logins that fail": (LoginBackoffConfig, "login.backoff."),
    "A peer": (PeerConfig, ""),
    "The authorizer": (AuthorizerConfig, "authorizer."),
    "Delegation tokens": (DelegationTokens, "delegation.token."),
    "Quotas": (QuotaConfig, "quota."),
    "Audit": (ProxyAudit, "audit."),
    "The cluster of a witness": (WitnessClusterConfig, "audit.witness.cluster."),
    "Limits": (ProxyLimits, "limits."),
    "The HTTP port": (Http, "http."),
    "Traces": (Otlp, "telemetry.otlp."),
    "controller.yaml": (ControllerConfig, ""),
}
"""Heading of each section with a table -> whose keys the table has, and what they begin with."""
EXAMPLES: dict[str, type[Part]] = {"proxy.yaml": ProxyConfig, "controller.yaml": ControllerConfig}
"""The files that `penstock init` writes -> what each is."""
KEY = re.compile(r"(?P<indent> *)(?:- )?(?P<key>[a-z.]+):(?: \{(?P<only>[a-z.]+): [^,]*\})?")
LIVE_AT_CONTROLLERS = re.compile(r"(?<=<!-- live at a controller -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """The page, with the tables as they have to be."""
    lines, heading, in_table = [], "", False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        in_table = line.startswith("|") and (in_table or line == HEADER)
        if not in_table:
            lines.append(line)
        elif line == HEADER:
            part, prefix = TABLES[heading]
            lines += [HEADER, "|---|---|---|---|", *_rows(part, part, prefix)]
    live = [f"`{key}`" for key, effect in _effects(ControllerConfig) if effect is not Effect.RESTART]
    listed = fill(", ".join(live), 140, break_long_words=False, break_on_hyphens=False)
    return LIVE_AT_CONTROLLERS.sub(f"{listed}.\n", "\n".join([*lines, ""]))


def _rows(part: type[Part], table: type[Part], prefix: str) -> Iterator[str]:
    """The rows of a part's keys, except those of a section with a table of its own."""
    for name, field in part.model_fields.items():
        owner = _owner(part, name)
        if _table_of(owner) not in (None, table):
            continue
        key, meaning, section = f"{prefix}{field.alias}", _meaning(part, name), section_of(field)
        if meaning is not None:
            yield re.sub(r" +(?=\|)", " ", f"| `{key}` | {_default(field)} | {_effect(field)} | {meaning} |")
        elif section is None:
            raise AssertionError(f"{owner.__name__}.{name} has no text below it")
        if section is not None and _table_of(section) is None:
            yield from _rows(section, table, f"{key}.")


@cache
def _table_of(owner: type[Part]) -> type[Part] | None:
    """The part whose table has the keys of this one."""
    tables = [part for part, _ in TABLES.values()]
    return owner if owner in tables else next((part for part in tables if issubclass(part, owner)), None)


def _default(field: FieldInfo) -> str:
    for mark in field.metadata:
        if isinstance(mark, Unset):
            return mark.text
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Part):
        return ""
    if value in (None, "", (), {}):
        return "none"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def _effect(field: FieldInfo) -> str:
    return next((str(mark) for mark in field.metadata if isinstance(mark, Effect)), "")


def _owner(part: type[Part], name: str) -> type[Part]:
    """The class that has the field."""
    return next(each for each in part.__mro__ if name in vars(each).get("__annotations__", {}))


def _meaning(part: type[Part], name: str) -> str | None:
    return _meanings(_owner(part, name)).get(name)


@cache
def _meanings(part: type[Part]) -> dict[str, str]:
    """The texts below the fields of a class, each in one line without the full stop at its end."""
    (definition,) = ast.parse(dedent(inspect.getsource(part))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split()).removesuffix(
                "."
            )
    return found


def _effects(part: type[Part]) -> Iterator[tuple[str, Effect]]:
    """The path of each key in the file, and its effect."""
    paths = dict(_paths(part))
    for fields, effect in effects.of(part).items():
        yield paths[fields], effect


def _paths(part: type[Part], fields: str = "", keys: str = "") -> Iterator[tuple[str, str]]:
    for name, field in part.model_fields.items():
        section = section_of(field)
        if section is None:
            yield f"{fields}{name}", f"{keys}{field.alias}"
        else:
            yield from _paths(section, f"{fields}{name}.", f"{keys}{field.alias}.")


def with_comments(text: str, file: type[Part]) -> str:
    """The example of a file: a comment above a key is the first sentence of its meaning, or says CHANGE."""
    lines: list[str] = []
    above: list[str] = []
    sections: list[tuple[int, type[Part]]] = [(-1, file)]
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            above.append(line)
            continue
        if (found := KEY.match(line)) and found["key"]:
            depth = len(found["indent"])
            sections = [each for each in sections if each[0] < depth]
            keys = [found["key"], *filter(None, [found["only"]])]
            meaning, section = _found(sections[-1][1], keys)
            if above and meaning is not None and "CHANGE" not in "".join(above):
                indent = f"{found['indent']}# "
                above = wrap(f"{meaning}.", 110, initial_indent=indent, subsequent_indent=indent)
            sections += [] if section is None else [(depth, section)]
        lines += [*above, line]
        above = []
    return "\n".join([*lines, *above, ""])


def _found(part: type[Part], keys: list[str]) -> tuple[str | None, type[Part] | None]:
    """The first sentence of the meaning of a key below a part, and the part below it."""
    for name, field in part.model_fields.items():
        if field.alias != keys[0]:
            continue
        section, meaning = section_of(field), _meaning(part, name)
        if meaning is not None:
            return re.split(r"\. |; see ", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning))[0], section
        return _found(section, keys[1:]) if section is not None and keys[1:] else (None, section)
    return None, None


if __name__ == "__main__":
    for example, kind in EXAMPLES.items():
        path = ROOT / "proxy" / "examples" / example
        path.write_text(with_comments(path.read_text(encoding="utf-8"), kind), encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
