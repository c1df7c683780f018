"""Reads a policy from what an argument names.

    live                  the ACLs of the cluster, by DescribeAcls at --bootstrap-server
    topic, kraft          the metadata log, as for `penstock shell`; with @N as of offset N
    PATH                  a segment, a snapshot or a directory of a log (also with @N), the output of
                          kafka-acls --list, a file of rights, an ACL file of SimpleAclAuthorizer, or a
                          proposal

A proposal (docs/policy.md) is a change of the policy before it, or of one without ACLs.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.commands.acl_requests import RequestFailed, described_acls
from proxy.commands.properties import SettingError, cluster_at
from proxy.commands.proposal_check import at_present, carried_out
from proxy.commands.shell.source import KRAFT, SEGMENT, SNAPSHOT, TOPIC, LogError, UsageError, find
from proxy.config import ConfigError
from proxy.config.candidate import read_candidate
from proxy.error_text import text_of
from proxy.metadata.acl import Acl, in_words
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta
from proxy.metadata.image import MetadataImage, TopicsImage
from proxy.net.files.tls import TlsError
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.policy.policy import Policy, numbered_id, of_file, of_image
from proxy.security.standard import StandardAuthorizer
from spark_audit.proposal import ProposedAcl, moment_ms

LIVE = "live"
_LIVE_TIMEOUT_S = 60


class SourceError(Exception):
    """The policy cannot be read; the message says why."""


@dataclass(slots=True)
class PolicyReader:
    """`settings` are those of the authorizer, by Kafka's names; `notes` are for the user."""

    config: Path | None
    settings: Mapping[str, str]
    bootstrap_server: str | None = None
    """Of the cluster whose ACLs are `live`: HOST:PORT,..."""
    command_config: Path | None = None
    """A .properties file that says how to connect to it."""
    notes: list[str] = field(default_factory=list)

    def read(self, source: str, before: Policy | None = None) -> Policy:
        """Return the policy that `source` names. `before`: what a proposal changes. SourceError."""
        try:
            policy = self._read(source, before)
        except (OSError, UnicodeDecodeError, ValueError, ConfigError, TlsError, SettingError) as error:
            raise SourceError(f"{source}: {text_of(error)}") from error
        except (LogError, UsageError, ChannelError, RequestFailed, TimeoutError) as error:
            raise SourceError(f"{source}: {error or 'no response in time'}") from error
        for acl in policy.image.acls.by_id.each_value():
            self.notes += [
                f"{source}: {in_words(acl)}: {fault}" for fault in acl.faults(policy.image.acls.networks)
            ]
        return policy

    def _read(self, source: str, before: Policy | None) -> Policy:
        if source == LIVE:
            if self.bootstrap_server is None:
                raise UsageError(f"{LIVE} needs --bootstrap-server, the address of a proxy")
            cluster = cluster_at(self.bootstrap_server, self.command_config)
            return of_image(_image(asyncio.run(_described(cluster))), self.settings)
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
        if _RIGHTS.search(text):
            topics = TopicsImage.EMPTY if before is None else before.image.topics
            image = MetadataImage(0, read_candidate(Path(source)).acls, topics=topics)
            return of_image(at_present(image), self.settings)
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


_RIGHTS = re.compile(r"^acls:", re.MULTILINE)
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
                proposed = ProposedAcl(*resource.groups(), *acl.group(1, 2, 3, 4))
                until_ms = None if acl[5] is None else moment_ms(acl[5])
                yield Acl.named(numbered_id(number), proposed, until_ms)
            except KeyError as error:
                raise ValueError(f"line {number}: {error.args[0]} is unknown") from error


async def _described(cluster: EndpointSettings) -> Iterator[Acl]:
    """The ACLs that a proxy or a broker responds with."""
    async with asyncio.timeout(_LIVE_TIMEOUT_S), await Channel.open(cluster) as channel:
        acls, _ = await described_acls(channel)
    return (
        Acl.named(numbered_id(number), acl, until_ms)
        for number, (acl, until_ms) in enumerate(acls.items(), 1)
    )
