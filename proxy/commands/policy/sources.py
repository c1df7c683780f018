"""Reads a policy from what an argument names.

    live                  the ACLs of the cluster, by DescribeAcls at the broker of --config
    topic, kraft          the metadata log, as for `penstock shell`; with @N as of offset N
    PATH                  a segment, a snapshot or a directory of a log (also with @N), the output of
                          kafka-acls --list, an ACL file of SimpleAclAuthorizer, or a proposal

A proposal (docs/what-if.md) is a change of the policy before it, or of one without ACLs.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.commands.proposal_check import at_present, carried_out
from proxy.commands.shell.source import KRAFT, SEGMENT, SNAPSHOT, TOPIC, LogError, UsageError, broker_of, find
from proxy.config import ConfigError
from proxy.error_text import text_of
from proxy.metadata.acl import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    end_of_tags,
    end_text,
)
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage
from proxy.net.files.tls import TlsError
from proxy.net.kafka.channel import Channel, ChannelError
from proxy.policy.policy import Policy, numbered_id, of_file, of_image
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types
from proxy.wire.error_codes import ErrorCode
from spark_audit.proposal import moment_ms

LIVE = "live"
DESCRIBE_VERSIONS = (1, 3)
_LIVE_TIMEOUT_S = 60


class SourceError(Exception):
    """The policy cannot be read; the message says why."""


@dataclass(slots=True)
class PolicyReader:
    """`settings` are those of the authorizer, by Kafka's names; `notes` are for the user."""

    config: Path | None
    settings: Mapping[str, str]
    notes: list[str] = field(default_factory=list)

    def read(self, source: str, before: Policy | None = None) -> Policy:
        """Return the policy that `source` names. `before`: what a proposal changes. SourceError."""
        try:
            policy = self._read(source, before)
        except (OSError, UnicodeDecodeError, ValueError, ConfigError, TlsError) as error:
            raise SourceError(f"{source}: {text_of(error)}") from error
        except (LogError, UsageError, ChannelError, TimeoutError) as error:
            raise SourceError(f"{source}: {error or 'no response in time'}") from error
        for acl in policy.image.acls.by_id.each_value():
            self.notes += [
                f"{source}: {in_words(acl)}: {fault}" for fault in acl.faults(policy.image.acls.networks)
            ]
        return policy

    def _read(self, source: str, before: Policy | None) -> Policy:
        if source == LIVE:
            if self.config is None:
                raise UsageError(f"{LIVE} needs --config, the configuration file of a proxy or a controller")
            return of_image(_image(asyncio.run(_described(self.config))), self.settings)
        name, at, digits = source.rpartition("@")
        has_offset = bool(at) and digits.isdecimal() and not Path(source).exists()
        log, offset = (name, int(digits)) if has_offset else (source, None)
        if log in (TOPIC, KRAFT) or Path(log).is_dir() or Path(log).suffix in (SEGMENT, SNAPSHOT):
            found = find(log, self.config, offset)
            self.notes += found.notes
            return of_image(at_present(found.image), self.settings)
        content = Path(source).read_bytes()
        text = content.decode("utf-8")
        if text.lstrip().startswith("{"):
            return of_file(content, self.settings)
        if text.lstrip().startswith(_LISTED):
            return of_image(_image(listed_acls(text)), self.settings)
        return self._proposed(source, text, before)

    def _proposed(self, source: str, text: str, before: Policy | None) -> Policy:
        if before is not None and not isinstance(before.authorizer, StandardAuthorizer):
            raise UsageError("a proposal changes ACLs of the log; it does not fit an ACL file")
        image = MetadataImage.EMPTY if before is None else before.image
        proposed = carried_out(text, source, image, self.settings)
        if proposed.problems:
            raise SourceError("\n".join(proposed.problems))
        self.notes += proposed.warnings
        return of_image(proposed.image, proposed.settings)


def _image(acls: Iterator[Acl]) -> MetadataImage:
    delta = AclsDelta(AclsImage.EMPTY, compacted=False)
    for acl in acls:
        delta.add(acl)
    return at_present(MetadataImage(0, delta.apply()))


def in_words(acl: Acl) -> str:
    """Return an ACL as a proposal names it."""
    return (
        f"{acl.permission_type.name} {acl.principal} from {acl.host} {acl.operation.name}"
        f" {acl.resource_type.name} {acl.pattern_type.name} {acl.resource_name}"
        + ("" if acl.until_ms is None else f" until {end_text(acl.until_ms)}")
    )


_LISTED = "Current ACLs for resource"
_RESOURCE = re.compile(
    _LISTED + r" `ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)`:\s*"
)
_ACL = re.compile(
    r"\s*\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)(?:, until=([^ ,)]+))?\)\s*"
)


def listed_acls(text: str) -> Iterator[Acl]:
    """Yield the ACLs that kafka-acls --list has printed. ValueError names a line that is something else."""
    resource = None
    for number, line in enumerate(text.splitlines(), 1):
        if found := _RESOURCE.fullmatch(line):
            resource = found
        elif line.strip():
            acl = _ACL.fullmatch(line)
            if acl is None or resource is None:
                raise ValueError(f"line {number} is no line of kafka-acls --list: {line[:100]!r}")
            try:
                yield Acl(
                    numbered_id(number),
                    ResourceType[resource[1]],
                    resource[2],
                    PatternType[resource[3]],
                    acl[1],
                    acl[2],
                    Operation[acl[3]],
                    PermissionType[acl[4]],
                    until_ms=None if acl[5] is None else moment_ms(acl[5]),
                )
            except KeyError as error:
                raise ValueError(f"line {number}: {error.args[0]} is unknown") from error


async def _described(config: Path) -> Iterator[Acl]:
    """The ACLs that the broker of a configuration file responds with."""
    every = types.DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=PermissionType.ANY,
    )
    broker = broker_of(config)
    async with asyncio.timeout(_LIVE_TIMEOUT_S), await Channel.open(broker) as channel:
        response = await channel.send(every, DESCRIBE_VERSIONS)
    if response.error_code != ErrorCode.NONE:
        raise ChannelError(f"{broker.address}: DescribeAcls: {ErrorCode.name_of(response.error_code)}")
    pairs = ((resource, acl) for resource in response.resources for acl in resource.acls)
    return iter(
        [
            Acl(
                numbered_id(number),
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
                acl.principal,
                acl.host,
                Operation(acl.operation),
                PermissionType(acl.permission_type),
                until_ms=end_of_tags(acl.unknown_tags),
            )
            for number, (resource, acl) in enumerate(pairs, 1)
        ]
    )
