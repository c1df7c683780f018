"""The ACLs of a file of rights (docs/commands.md#rights-as-a-file), which `penstock apply` puts in effect.

proxy.commands.rights.file has the rows of its other sections. A candidate (authorizer.candidate) is its ACLs.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from proxy.config.parts import ConfigError, Part
from proxy.config.reading import content_of, parse
from proxy.config.users import Moment
from proxy.metadata.acl import Acl, Operation, PatternType, PermissionType, ResourceType, in_words
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta

DIGEST_CHARACTERS = 16
"""Of the file's digest, in records of a candidate and in the client id of `penstock apply`."""


def one_of(names: Mapping[str, object]) -> AfterValidator:
    """Return a validator of one of these names."""

    def known(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return name

    return AfterValidator(known)


class AclRow(Part):
    """An object of `acls`."""

    resource_type: Annotated[str, one_of(ResourceType.__members__)]
    resource_name: str
    pattern_type: Annotated[str, one_of(PatternType.__members__)] = "LITERAL"
    principal: str
    host: str = "*"
    operation: Annotated[str, one_of(Operation.__members__)]
    permission_type: Annotated[str, one_of(PermissionType.__members__)] = "ALLOW"
    until: Moment | None = None

    def acl(self) -> Acl:
        """Return the ACL. Its id is what it is in words: a file has no ids."""
        acl = Acl.named("", self.names, self.until)
        return replace(acl, id=in_words(acl))

    @property
    def names(self) -> tuple[str, str, str, str, str, str, str]:
        """See Acl."""
        place = self.resource_type, self.resource_name, self.pattern_type
        return (*place, self.principal, self.host, self.operation, self.permission_type)


class _CandidateFile(Part):
    """The other sections of the file are for `penstock apply`."""

    acls: tuple[AclRow, ...]
    quotas: object = None
    users: object = None
    owners: object = None


class Candidate(NamedTuple):
    """The ACLs of a file, and its SHA-256 in hex."""

    acls: AclsImage
    digest: str


def read_candidate(path: Path) -> Candidate:
    """Read a file. ConfigError names what is invalid, twice or not understood."""
    content = content_of(path)
    delta, seen = AclsDelta(AclsImage.EMPTY, compacted=False), set()
    for acl in (row.acl() for row in parse(path, content, _CandidateFile).acls):
        faults = ["the file has it twice"] if acl.binding in seen else acl.faults()
        if faults:
            raise ConfigError(f"{path}: {acl.id}: {', '.join(faults)}")
        seen.add(acl.binding)
        delta.add(acl)
    return Candidate(delta.apply(), hashlib.sha256(content).hexdigest())
