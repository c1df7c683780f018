"""The requests that make a cluster as a file says, and what came of them.

The order of the requests is safe at each step: limits and ACLs before the users who come under them, and what
is deleted last. After a request with an error nothing more is changed. What was done is read from the
cluster, not concluded from the responses: a response may be lost, and others may change the same.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from proxy.admin.configs import DELETE, SET, TOPIC
from proxy.commands.acl_requests import (
    CREATE_VERSIONS,
    DELETE_VERSIONS,
    WITH_TAGS,
    RequestFailed,
    creating,
    deleting,
    described_acls,
    fault_text,
    faults_of,
)
from proxy.commands.rights.changes import (
    ACLS,
    NO_END,
    OWNERS,
    QUOTAS,
    USERS,
    Credential,
    Key,
    RightChange,
    Rights,
    differences,
    end_of,
    limit_of,
)
from proxy.commands.rights.cluster import described_users, read_cluster
from proxy.error_text import text_of
from proxy.metadata.acl import tags_of_end
from proxy.metadata.image import OWNER
from proxy.metadata.quota_entity import QuotaEntity
from proxy.metadata.scram import ScramMechanism, salt_of, salted_password
from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import types
from proxy.wire.errors import WireError
from proxy.wire.message import Request
from spark_audit.proposal import ProposedAcl, Removal

MAX_CHANGES_PER_REQUEST = 5_000
"""Controllers accept 10,000 records in one request, Kafka's too."""
_LOOKS, _LOOK_INTERVAL_S = 10, 0.3
"""A broker shows a change a moment after the controller has made it."""
_SALT_BYTES = 20

Passwords = Mapping[Key, str]
"""Of each user with its mechanism."""


@dataclass(slots=True)
class Applied:
    """What came of the changes. To those that are `unknown` no response came, and the cluster shows none."""

    done: list[RightChange] = field(default_factory=list)
    not_done: list[RightChange] = field(default_factory=list)
    unknown: list[RightChange] = field(default_factory=list)
    by_others: list[RightChange] = field(default_factory=list)
    """What others have changed meanwhile."""
    faults: list[str] = field(default_factory=list)


class _Step(NamedTuple):
    request: Request[Any]
    versions: tuple[int, int]
    faults: Callable[[Any], list[str]]
    """Of the response."""


async def apply(
    endpoint: EndpointSettings, before: Rights, changes: Sequence[RightChange], passwords: Passwords
) -> Applied:
    """Make the changes. `before`: the sections as they were read."""
    steps = list(_steps(changes, passwords))  # What cannot be requested is found before the first request.
    applied = Applied()
    sent: list[RightChange] = []
    unanswered: Sequence[RightChange] = ()
    try:
        async with await Channel.open(endpoint) as channel:
            await _require_ends(channel, changes)
            for of_step, step in steps:
                sent += of_step
                unanswered = of_step
                response = await channel.send(step.request, step.versions)
                unanswered = ()
                applied.faults += step.faults(response)
                if applied.faults:
                    break
    except WireError as error:  # A name that no request can have, so this one was not sent.
        applied.faults.append(text_of(error))
        unanswered = ()
    except (ChannelError, RequestFailed) as error:
        applied.faults.append(text_of(error))
    try:
        async with await Channel.open(endpoint) as channel:
            left = await _left(applied, channel, before, changes)
    except (ChannelError, RequestFailed) as error:
        applied.faults.append(text_of(error))
        applied.unknown += sent
        applied.not_done += [each for each in changes if each not in sent]
        return applied
    applied.done += [each for each in changes if each not in left]
    # Without its response, a request may still be carried out.
    applied.unknown += [each for each in left if each in unanswered]
    applied.not_done += [each for each in left if each not in unanswered]
    return applied


async def _left(
    applied: Applied, channel: Channel, before: Rights, changes: Sequence[RightChange]
) -> list[RightChange]:
    """Return what the cluster does not show; wait a little for what it has accepted."""
    ours = {(section, key) for section, key, _, _ in changes}
    looks = 1 if applied.faults else _LOOKS
    while True:
        now = await read_cluster(channel, before)
        left = [each for each in changes if now[each.section].get(each.key) != each.new]
        looks -= 1
        if not left or not looks:
            break
        await asyncio.sleep(_LOOK_INTERVAL_S)
    applied.by_others += [each for each in differences(before, now) if (each.section, each.key) not in ours]
    return left


async def _require_ends(channel: Channel, changes: Sequence[RightChange]) -> None:
    ending = [each for each in changes if each.section in (ACLS, USERS) and end_of(each.new) != NO_END]
    if any(each.section == USERS for each in ending) and not (await described_users(channel))[1]:
        raise RequestFailed("this cluster knows no credentials with an end; nothing was changed")
    acls = [each for each in ending if each.section == ACLS]
    if acls:
        place = ProposedAcl(*acls[0].key)[:3]
        if not (await described_acls(channel, place, WITH_TAGS))[1]:
            raise RequestFailed("this cluster knows no ACLs with an end; nothing was changed")


def _steps(
    changes: Sequence[RightChange], passwords: Passwords
) -> Iterator[tuple[Sequence[RightChange], _Step]]:
    for make, of in (
        (_quotas, [each for each in changes if each.section == QUOTAS]),
        (_new_acls, [each for each in changes if each.section == ACLS and each.new is not None]),
        (_owners, [each for each in changes if each.section == OWNERS]),
        *((lambda part: _users(part, passwords), part) for part in _rounds(changes)),
        (_old_acls, [each for each in changes if each.section == ACLS and each.new is None]),
    ):
        for begin in range(0, len(of), MAX_CHANGES_PER_REQUEST):
            part = of[begin : begin + MAX_CHANGES_PER_REQUEST]
            yield part, make(part)


def _rounds(changes: Sequence[RightChange]) -> list[list[RightChange]]:
    """Return the changes of users by mechanism: a request may name a user only once."""
    of_users = [each for each in changes if each.section == USERS]
    mechanisms = sorted({each.key[1] for each in of_users})
    return [[each for each in of_users if each.key[1] == mechanism] for mechanism in mechanisms]


def _quotas(changes: Sequence[RightChange]) -> _Step:
    request = types.AlterClientQuotasRequest
    entries = [
        request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[
                request.OpData(
                    key=each.key[1],
                    value=0.0 if each.new is None else limit_of(each.new),
                    remove=each.new is None,
                )
                for each in of_entity
            ],
        )
        for entity, of_entity in groupby(changes, key=lambda each: each.key[0])
    ]

    def faults(response: types.AlterClientQuotasResponse) -> list[str]:
        return [
            f"quotas of {QuotaEntity.of((e.entity_type, e.entity_name) for e in entry.entity).path}:"
            f" {fault_text(entry)}"
            for entry in response.entries
            if entry.error_code
        ]

    return _Step(request(entries=entries, validate_only=False), (0, 1), faults)


def _new_acls(changes: Sequence[RightChange]) -> _Step:
    # A DENY before any ALLOW, should the controller not make all of them at once.
    ends = {
        ProposedAcl(*each.key): end_of(each.new) or None
        for each in sorted(changes, key=lambda each: each.key[-1] != "DENY")
    }
    versions = WITH_TAGS if any(until_ms is not None for until_ms in ends.values()) else CREATE_VERSIONS
    return _Step(creating(ends), versions, lambda response: faults_of(list(ends), response.results))


def _old_acls(changes: Sequence[RightChange]) -> _Step:
    acls = [ProposedAcl(*each.key) for each in changes]
    removals = [Removal(acl.resource_type, acl.resource_name, acl.pattern_type, acl[3:]) for acl in acls]
    return _Step(
        deleting(removals), DELETE_VERSIONS, lambda response: faults_of(removals, response.filter_results)
    )


def _owners(changes: Sequence[RightChange]) -> _Step:
    request = types.IncrementalAlterConfigsRequest
    resources = [
        request.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=each.key[0],
            configs=[
                request.AlterableConfig(
                    name=OWNER,
                    config_operation=DELETE if each.new is None else SET,
                    value=None if each.new is None else str(each.new),
                )
            ],
        )
        for each in changes
    ]

    def faults(response: types.IncrementalAlterConfigsResponse) -> list[str]:
        return [
            f"owner of {each.resource_name}: {fault_text(each)}"
            for each in response.responses
            if each.error_code
        ]

    return _Step(request(resources=resources, validate_only=False), (0, 1), faults)


def _users(changes: Sequence[RightChange], passwords: Passwords) -> _Step:
    request = types.AlterUserScramCredentialsRequest
    deletions, upsertions = [], []
    for each in changes:
        name, mechanism = each.key[0], ScramMechanism.named(each.key[1])
        if not isinstance(each.new, Credential):
            deletions.append(request.ScramCredentialDeletion(name=name, mechanism=mechanism))
            continue
        salt = salt_of(secrets.token_bytes(_SALT_BYTES))
        upsertions.append(
            request.ScramCredentialUpsertion(
                name=name,
                mechanism=mechanism,
                iterations=each.new.iterations,
                salt=salt,
                salted_password=salted_password(mechanism, passwords[each.key], salt, each.new.iterations),
                unknown_tags=tags_of_end(each.new.until_ms or None),
            )
        )

    def faults(response: types.AlterUserScramCredentialsResponse) -> list[str]:
        return [f"user {each.user}: {fault_text(each)}" for each in response.results if each.error_code]

    return _Step(request(deletions=deletions, upsertions=upsertions), (0, 0), faults)
