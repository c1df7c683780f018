"""`penstock export`, `diff` and `apply`. They print and return the exit code."""

import argparse
import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.commands.acl_requests import RequestFailed
from proxy.commands.plain import plain
from proxy.commands.properties import SettingError, cluster_at
from proxy.commands.rights.apply import Applied, apply
from proxy.commands.rights.changes import (
    ACLS,
    SECTIONS,
    USERS,
    RightChange,
    Rights,
    commands,
    differences,
    fault,
    has_ended,
    proposal,
    row,
)
from proxy.commands.rights.cluster import read_cluster
from proxy.commands.rights.file import DesiredRights, read_rights, written
from proxy.config import ConfigError
from proxy.config.candidate import DIGEST_CHARACTERS
from proxy.error_text import text_of
from proxy.net.files.tls import TlsError
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.net.runtime.clock import now_ms
from spark_audit.proposal import ProposedAcl

EQUAL, DIFFERENT, FAILED = 0, 1, 2
NOT_ALL_DONE = 1


@dataclass(slots=True)
class _Plan:
    before: Rights
    changes: list[RightChange]
    kept: list[RightChange]
    """What --prune would delete."""
    ended: list[str]
    """ACLs of the file that have ended, and are as if they were not in it."""

    @property
    def state(self) -> str:
        """A digest of the sections as they were read, which `apply --expect-state` compares."""
        return hashlib.sha256("\n".join(written(self.before)).encode()).hexdigest()[:16]


def run_rights(arguments: argparse.Namespace) -> int:
    """Run a command and return the exit code."""
    try:
        endpoint = cluster_at(arguments.bootstrap_server, arguments.command_config)
        return {"export": _export, "diff": _diff, "apply": _apply}[arguments.command](arguments, endpoint)
    except (ConfigError, SettingError, TlsError, ValueError, RequestFailed, ChannelError, OSError) as error:
        print(f"penstock {arguments.command}: {text_of(error)}", file=sys.stderr)
        return FAILED


def _export(arguments: argparse.Namespace, endpoint: EndpointSettings) -> int:
    rights = asyncio.run(_read(endpoint, arguments.only or SECTIONS))
    nothing: Rights = {section: {} for section in rights}
    as_commands = arguments.form == "commands"
    for line in commands(differences(nothing, rights)) if as_commands else written(rights):
        print(line)
    return 0


def _diff(arguments: argparse.Namespace, endpoint: EndpointSettings) -> int:
    plan = _planned(arguments, endpoint, read_rights(arguments.file))
    _print_plan(arguments, plan)
    return DIFFERENT if plan.changes else EQUAL


def _apply(arguments: argparse.Namespace, endpoint: EndpointSettings) -> int:
    desired = read_rights(arguments.file)
    plan = _planned(arguments, endpoint, desired)
    if arguments.expect_state not in (None, plan.state):
        raise ConfigError(
            f"the cluster was changed since that diff: its state is {plan.state}, not"
            f" {arguments.expect_state}; nothing was changed"
        )
    passwords = {
        each.key: desired.passwords[each.key]()
        for each in plan.changes
        if each.section == USERS and each.new is not None
    }
    if arguments.dry_run or not plan.changes:
        _print_plan(arguments, plan)
        return 0
    # Each audit record of the change has the client id, and with it which file was put in effect.
    client_id = f"{endpoint.client_id}-{desired.digest[:DIGEST_CHARACTERS]}"
    endpoint = replace(endpoint, client_id=client_id)
    try:
        applied = asyncio.run(apply(endpoint, plan.before, plan.changes, passwords))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("a part may be done; penstock diff says what is left") from None
    if arguments.json:
        print(json.dumps(_applied_fields(applied), indent=2))
    else:
        _print_applied(applied)
    return NOT_ALL_DONE if applied.faults or applied.not_done else 0


async def _read(endpoint: EndpointSettings, sections: Sequence[str]) -> Rights:
    async with await Channel.open(endpoint) as channel:
        return await read_cluster(channel, sections)


def _planned(arguments: argparse.Namespace, endpoint: EndpointSettings, desired: DesiredRights) -> _Plan:
    """Compare the cluster with the file, and write the proposal. ConfigError for what cannot be created."""
    before = asyncio.run(_read(endpoint, list(desired.rights)))
    acls = desired.rights.get(ACLS, {})
    ended = [acl for acl, until in acls.items() if has_ended(until, now_ms())]
    wanted = {
        section: {key: value for key, value in items.items() if key not in ended}
        for section, items in desired.rights.items()
    }
    found = differences(before, wanted)
    extra = [] if arguments.prune else [each for each in found if each.new is None]
    changes = [each for each in found if each not in extra]
    if faults := [text for each in changes if (text := fault(each))]:
        raise ConfigError(f"{arguments.file}: " + "; ".join(faults))
    if arguments.proposal is not None:
        lines = [f"{line}\n" for line in proposal(changes)]
        Path(arguments.proposal).write_text("".join(lines), encoding="utf-8")
    return _Plan(before, changes, extra, [str(ProposedAcl(*acl)) for acl in ended])


def _print_plan(arguments: argparse.Namespace, plan: _Plan) -> None:
    if arguments.json:
        print(
            json.dumps(
                {
                    "equal": not plan.changes,
                    "state": plan.state,
                    "changes": _fields(plan.changes),
                    "kept": _fields(plan.kept),
                    "ended": plan.ended,
                },
                indent=2,
            )
        )
        return
    for each in plan.changes:
        print(plain(str(each)))
    print(f"state {plan.state}: {_count(plan.changes)}" + (" to make" if plan.changes else ""))
    for acl in plan.ended:
        print(f"note: has ended: {plain(acl)}", file=sys.stderr)
    if plan.kept:
        print(f"note: {len(plan.kept)} more are not in the file; --prune deletes them", file=sys.stderr)


def _print_applied(applied: Applied) -> None:
    for each in applied.done:
        print(plain(str(each)))
    for words, changes in (
        ("NOT DONE", applied.not_done),
        ("UNKNOWN", applied.unknown),
        ("changed by others meanwhile", applied.by_others),
    ):
        for each in changes:
            print(f"{words}: {plain(str(each))}", file=sys.stderr)
    for text in applied.faults:
        print(f"penstock apply: {text}", file=sys.stderr)
    print(f"{_count(applied.done)} made")


def _applied_fields(applied: Applied) -> dict[str, object]:
    names = ("done", "not_done", "unknown", "by_others")
    return {name: _fields(getattr(applied, name)) for name in names} | {"faults": applied.faults}


def _fields(changes: Sequence[RightChange]) -> list[dict[str, object]]:
    return [
        {
            "section": section,
            "old": None if old is None else row(section, key, old),
            "new": None if new is None else row(section, key, new),
        }
        for section, key, old, new in changes
    ]


def _count(changes: Sequence[RightChange]) -> str:
    return f"{len(changes) or 'no'} change{'' if len(changes) == 1 else 's'}"
