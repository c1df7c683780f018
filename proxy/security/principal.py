"""An authenticated identity: its text in ACLs and logs, its bytes in an Envelope (KIP-590).

SASL exchanges, TLS and Envelopes make principals. Tokens, certificates and the users file name groups of a
session; `Principal.groups` has the result of `group_names` (SPEC A8).
"""

import re
import struct
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, fields

from proxy.wire import codecs, types
from proxy.wire.errors import WireError

USER_TYPE = "User"
GROUP_TYPE = "Group"

MAX_NAME_CHARACTERS = 1_024
"""Each record of a session has its name, and one request may cause a thousand."""

MAX_GROUPS = 1_000
MAX_GROUP_NAME_BYTES = 249
"""As of a topic's name."""
MAX_GROUPS_BYTES = 16_384
"""All group names of a session together, in UTF-8."""
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")
"""Unicode's categories Cc and Cs."""

_VERSION = struct.Struct(">h")
_DATA_VERSION = 0
GROUPS_TAG = 10_000
"""Tagged field of DefaultPrincipalData: the session's groups, UTF-8, one a line; a name has no line breaks.
Kafka's builder reads over it (decision 0140)."""


@dataclass(frozen=True, eq=False)
class Principal:
    """Two are equal if type and name are, of whatever class; neither is how the client authenticated.

    A class derived from it may carry more. That counts only for decisions of its own session, and is no part
    of the identity, which a derived class cannot change.
    """

    # Without slots, because with them no derived class could assign attributes in its constructor.

    principal_type: str
    name: str
    token_authenticated: bool = False
    groups: tuple[str, ...] = ()
    """The groups of this session, sorted, each once: "Group:NAME" is what ACLs call them (SPEC A8)."""

    def __init_subclass__(cls) -> None:
        # The decorator of a dataclass would otherwise compare all its fields.
        cls.__eq__ = Principal.__eq__  # type: ignore[method-assign]
        cls.__hash__ = Principal.__hash__  # type: ignore[method-assign]
        cls.__str__ = Principal.__str__  # type: ignore[method-assign]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Principal):
            return NotImplemented
        return (self.principal_type, self.name) == (other.principal_type, other.name)

    def __hash__(self) -> int:
        return hash((self.principal_type, self.name))

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @property
    def principals(self) -> tuple[str, ...]:
        """The session as ACLs and lists of principals name it: "User:alice", "Group:ops"."""
        if not self.groups:
            return (str(self),)
        return (str(self), *[f"{GROUP_TYPE}:{name}" for name in self.groups])

    @property
    def is_bare(self) -> bool:
        """Whether it carries nothing that an authorizer could see besides the fields of this class."""
        return type(self) is Principal and len(vars(self)) == _FIELDS

    def decides_as(self, other: "Principal") -> bool:
        """Whether each decision for one of them holds for the other."""
        return (
            self.is_bare
            and other.is_bare
            and self == other
            and self.token_authenticated == other.token_authenticated
            and self.groups == other.groups
        )


_FIELDS = len(fields(Principal))

ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse "User:alice"; the name may contain colons. ValueError without one."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a principal in the form type:name, got {text!r}")
    return Principal(principal_type, name)


def from_plugin(make: Callable[[], object]) -> Principal:
    """Return the principal that a plug-in makes. ValueError: what it raised, or what is wrong with it."""
    try:
        principal = make()
        fault = principal_fault(principal)
    except Exception as error:
        # A single word, as of KeyError, says too little.
        raise ValueError(str(error) if " " in str(error) else repr(error)) from error
    if fault is not None:
        raise ValueError(fault)
    assert isinstance(principal, Principal)
    return principal


def principal_fault(principal: object) -> str | None:
    """Return what is wrong with what a plug-in has made as a principal, or None."""
    if not isinstance(principal, Principal):
        return f"{type(principal).__name__} is no principal"
    kind, name = principal.principal_type, principal.name
    if not isinstance(kind, str) or not isinstance(name, str):
        return f"a principal whose type or name is no text: {kind!r}, {name!r}"
    if name == "*":
        return f"a principal named *: in an ACL {kind}:* would stand for all"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"a principal whose name has {len(name)} characters, limit {MAX_NAME_CHARACTERS}"
    if not kind or ":" in kind:
        # With a colon its text would be that of another type: "User:a" + "b" is not User "a:b".
        return f"a principal of the type {kind!r}, which is empty or contains a colon"
    if not isinstance(principal.token_authenticated, bool):
        return "token_authenticated is no boolean"
    return _groups_fault(principal.groups)


def _groups_fault(groups: object) -> str | None:
    if not isinstance(groups, tuple) or not all(isinstance(name, str) for name in groups):
        return "its groups are no tuple of texts"
    try:
        valid = group_names(groups)
    except ValueError as error:
        return str(error)
    return None if valid == groups else "its groups are not sorted, or one is there twice"


def has_controls(name: str) -> bool:
    """Whether a name contains a control character, or half of a surrogate pair, which JSON can express."""
    return _CONTROLS.search(name) is not None


def group_names(names: Iterable[str], prefix: str = "") -> tuple[str, ...]:
    """Return the groups, sorted, each once and with the prefix; ValueError: a wrong name, or too many.

    What exceeds a limit is never truncated: a group that is left out might be one that an ACL denies.
    """
    named = set(names)
    if not named:
        return ()
    if "" in named:
        raise ValueError("the name of a group is empty")
    groups = tuple(sorted(prefix + name for name in named))
    if any(map(has_controls, groups)):
        raise ValueError("the name of a group contains a control character or is not text")
    if "*" in groups:
        # In an ACL it would stand for all.
        raise ValueError("a group is named *")
    if len(groups) > MAX_GROUPS:
        raise ValueError(f"{len(groups)} groups, limit {MAX_GROUPS}")
    sizes = [len(group.encode()) for group in groups]
    if max(sizes, default=0) > MAX_GROUP_NAME_BYTES:
        raise ValueError(f"the name of a group has {max(sizes)} bytes, limit {MAX_GROUP_NAME_BYTES}")
    if sum(sizes) > MAX_GROUPS_BYTES:
        raise ValueError(f"the names of the groups have {sum(sizes)} bytes, limit {MAX_GROUPS_BYTES}")
    return groups


def by_token(principal: Principal) -> Principal:
    """Return the principal, of whatever class, as one that has logged in with a delegation token."""
    if principal.token_authenticated:
        return principal
    marked = copy(principal)
    object.__setattr__(marked, "token_authenticated", True)
    return marked


def written_principal(text: str) -> Principal:
    """Parse a principal that a person has written. ValueError for one that no client can have."""
    found = parse_principal(text)
    kind = found.principal_type.strip()
    kind = {known.lower(): known for known in (USER_TYPE, GROUP_TYPE)}.get(kind.lower(), kind)
    meant = f"{kind}:{found.name.strip()}"
    if str(found) != meant:
        raise ValueError(f"no client has the principal {text!r}: case and spaces count; write {meant}")
    return found


def serialize(principal: Principal) -> bytes:
    """Encode a principal as Kafka's default serde: a big-endian int16 version, then DefaultPrincipalData.

    If the session has groups, they are a tagged field of it.
    """
    data = types.DefaultPrincipalData(
        type=principal.principal_type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    if principal.groups:
        data.unknown_tags = {GROUPS_TAG: "\n".join(principal.groups).encode()}
    body = codecs.of(types.DefaultPrincipalData, _DATA_VERSION).encode(data)
    return _VERSION.pack(_DATA_VERSION) + body


def deserialize(raw: bytes) -> Principal:
    """Decode a principal; ValueError if the bytes are malformed or of an unknown version."""
    if len(raw) < _VERSION.size:
        raise ValueError(f"principal data of {len(raw)} bytes has no version")
    (version,) = _VERSION.unpack_from(raw)
    if version != _DATA_VERSION:
        raise ValueError(f"principal data version {version}, supported: {_DATA_VERSION}")
    try:
        codec = codecs.of(types.DefaultPrincipalData, version)
        data = codec.decode_exactly(memoryview(raw)[_VERSION.size :])
    except WireError as error:
        raise ValueError(f"malformed principal data: {error}") from error
    if ":" in data.type:
        # Its text would be that of another type: "User:a" + "b" is not User "a:b".
        raise ValueError(f"principal type {data.type!r} contains a colon")
    tags = data.unknown_tags or {}
    groups = _read_groups(tags[GROUPS_TAG]) if GROUPS_TAG in tags else ()
    return Principal(data.type, data.name, data.token_authenticated, groups)


def _read_groups(raw: bytes) -> tuple[str, ...]:
    if len(raw) > MAX_GROUPS_BYTES + MAX_GROUPS:
        raise ValueError(f"the groups of a principal have {len(raw)} bytes")
    try:
        groups = tuple(raw.decode().split("\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"the groups of a principal are not UTF-8: {error}") from error
    fault = _groups_fault(groups)
    if fault is not None:
        raise ValueError(f"the groups of a principal: {fault}")
    return groups
