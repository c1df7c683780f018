"""`penstock acl`: adds, removes and lists ACLs with the options of kafka-acls, and with ends (SPEC A11).

It is a client of a proxy. An end is only sent to a cluster that says, in a tagged field of DescribeAcls, that
its controller knows ends: any other would make the ACL without one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from proxy.commands.acl_requests import (
    CREATE_VERSIONS,
    DELETE_VERSIONS,
    EVERY,
    WITH_TAGS,
    Ends,
    Pattern,
    RequestFailed,
    creating,
    deleting,
    described_acls,
    faults_of,
)
from proxy.commands.plain import plain
from proxy.commands.properties import SettingError, cluster_at
from proxy.error_text import text_of
from proxy.metadata.acl import end_text
from proxy.net.files.tls import TlsError
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from spark_audit.proposal import ACL_OPTIONS, ProposedAcl, Removal, acl_command, acl_resources

USAGE = """usage: penstock acl --bootstrap-server HOST:PORT[,...] [--command-config FILE]
                    --add | --remove | --list ...

Add, remove or list ACLs. The options are those of kafka-acls; --until is Penstock's own.

  --add --allow-principal User:NAME ... [--until TIME]
        TIME is when the ACL ends, such as 2027-01-31T18:00Z or 2027-01-31T19:00+01:00
  --add --deny-principal User:NAME ...
  --remove [--allow-principal User:NAME ...] [--force]
        --force removes without a question
  --list [--topic NAME ...]
        also shows when ACLs end

  --topic --group --transactional-id --delegation-token --user-principal NAME, --cluster, --producer,
  --consumer, --idempotent, --operation, --allow-host, --deny-host, --resource-pattern-type: as in kafka-acls
  --command-config FILE
        a .properties file of a Kafka client: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, and TLS with PEM files

Exit code 0: success; 1: the cluster has rejected something, or does not respond; 2: invalid arguments."""


def run_acl(words: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    if not words or "--help" in words:
        print(USAGE)
        return 0
    try:
        options = ACL_OPTIONS.parse([word for word in words if word != "--list"])
        if len(options.bootstrap_server) != 1 or len(options.command_config) > 1:
            raise ValueError("write --bootstrap-server HOST:PORT, and --command-config at most once")
        file = Path(options.command_config[0]) if options.command_config else None
        endpoint = cluster_at(options.bootstrap_server[0], file)
        if "--list" in words:
            work = _list(endpoint, list(_patterns(words)))
        else:
            command = acl_command(words)
            if command.removed and not options.force and not _confirmed(command.removed):
                return 0
            work = _change(endpoint, command.added, command.removed, command.until_ms)
    except (ValueError, SettingError, TlsError) as error:
        print(f"penstock acl: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(work)
    except (ChannelError, RequestFailed, OSError) as error:
        print(f"penstock acl: {text_of(error)}", file=sys.stderr)
        return 1
    return 0


def _patterns(words: Sequence[str]) -> Iterable[Pattern]:
    options = ACL_OPTIONS.parse([word for word in words if word != "--list"])
    if options.add or options.remove or options.until:
        raise ValueError("--list goes without --add, --remove and --until")
    kind = (options.resource_pattern_type or ["LITERAL"])[0].upper()
    if kind not in ("LITERAL", "PREFIXED", "ANY", "MATCH"):
        raise ValueError("--resource-pattern-type is literal, prefixed, any or match")
    named = options.topic + options.group + options.transactional_id + options.delegation_token
    if not named and not options.user_principal and not options.cluster:
        return [EVERY]
    return [(kind_of, name, kind) for (kind_of, name), _ in acl_resources(options, kind)]


def _confirmed(removed: Sequence[Removal]) -> bool:
    print("Are you sure you want to remove these ACLs?")
    for each in removed:
        print(f" \t{each}")
    print("(y/n) ", end="", flush=True)
    return sys.stdin.readline().strip().lower() == "y"


async def _list(endpoint: EndpointSettings, patterns: Sequence[Pattern]) -> None:
    async with await Channel.open(endpoint) as channel:
        await _print_current(channel, patterns)


async def _change(
    endpoint: EndpointSettings,
    added: Sequence[ProposedAcl],
    removed: Sequence[Removal],
    until_ms: int | None,
) -> None:
    async with await Channel.open(endpoint) as channel:
        if added:
            await _add(channel, added, until_ms)
        else:
            await _remove(channel, removed)
        of_added = [(acl.resource_type, acl.resource_name, acl.pattern_type) for acl in added]
        of_removed = [(each.resource_type, each.resource_name, each.pattern_type) for each in removed]
        found = await _print_current(channel, list(dict.fromkeys((*of_added, *of_removed))))
    without = [acl for acl in added if until_ms is not None and found.get(acl, 0) != until_ms]
    if without:
        listed = "; ".join(map(str, without))
        raise RequestFailed(
            f"the end was not made: {listed}. Is the controller of an older release? Remove these ACLs"
        )


async def _add(channel: Channel, added: Sequence[ProposedAcl], until_ms: int | None) -> None:
    versions = CREATE_VERSIONS
    if until_ms is not None:
        versions = WITH_TAGS
        if not (await described_acls(channel, (added[0][0], added[0][1], added[0][2]), WITH_TAGS))[1]:
            raise RequestFailed(
                f"{channel.endpoint.address}: this cluster knows no ACLs with an end; nothing was added"
            )
    acls = dict.fromkeys(added, until_ms)
    response = await channel.send(creating(acls), versions)
    _require_all(faults_of(list(acls), response.results))


async def _remove(channel: Channel, removed: Sequence[Removal]) -> None:
    response = await channel.send(deleting(removed), DELETE_VERSIONS)
    _require_all(faults_of(removed, response.filter_results))


def _require_all(faults: Sequence[str]) -> None:
    if faults:
        raise RequestFailed("\n".join(faults))


async def _print_current(channel: Channel, patterns: Sequence[Pattern]) -> Ends:
    found: dict[ProposedAcl, int | None] = {}
    for pattern in patterns:
        found |= (await described_acls(channel, pattern))[0]
    by_resource: dict[Pattern, list[str]] = {}
    for acl, until_ms in found.items():
        end = "" if until_ms is None else f", until={end_text(until_ms)}"
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(
            f"(principal={acl.principal}, host={acl.host}, operation={acl.operation},"
            f" permissionType={acl.permission_type}{end})"
        )
    for (resource_type, name, pattern_type), entries in sorted(by_resource.items()):
        resource = f"resourceType={resource_type}, name={name}, patternType={pattern_type}"
        print(f"Current ACLs for resource `ResourcePattern({plain(resource)})`: ")
        print("".join(f" \t{plain(entry)}\n" for entry in sorted(entries)))
    return found
