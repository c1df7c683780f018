"""The metadata log as it would be if a proposal were carried out at its end.

The changes are appended as the records that a controller would write. So the functions that find the ACLs,
owners and quotas of an offset find the current ones at `now` and the proposed ones at `proposed`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.policy.acl_history import (
    ADDED,
    ENDED,
    NEVER,
    REMOVED,
    acl_intervals,
    ended_by_the_end,
)
from spark_audit.policy.acl_matches import not_ended
from spark_audit.policy.quota_limits import CLIENT_TAG, DEFAULT, UNSET, USER_TAG, VALUE, quota_intervals
from spark_audit.proposal import Entity, Proposal, ProposedAcl, Quota, Resolved, principal_of, resolve
from spark_audit.tables.delta import frame_of
from spark_audit.tables.files import AuditError
from spark_audit.trail.metadata_log import HOLE_LAST, any_hole, holes, of_kafka

NO_ENDS: Mapping[Any, int] = MappingProxyType({})

LogRecord = tuple[int, str, dict[str, object]]
"""API key, name and body of a record."""


@dataclass(frozen=True, slots=True)
class ProposedState:
    """The ACLs and quotas at the end of a log, whose last record has the offset `now`."""

    now: int
    acls: dict[str, ProposedAcl]
    """By id."""
    quotas: dict[Quota, float]
    """Limit of each quota."""
    ends: dict[str, int] = field(default_factory=dict)
    """When an ACL ends, by its id, in ms since the epoch, if it does."""

    @property
    def principals(self) -> set[str]:
        users = {user for entity, _ in self.quotas if (user := principal_of(entity)) is not None}
        return {acl.principal for acl in self.acls.values()} | users


def state_of(log: DataFrame) -> ProposedState:
    """Read the end of a log. AuditError if records before it are missing, so that it is not known."""
    if any_hole(log):
        snapshots = log.where(S.FROM_SNAPSHOT).agg(F.max(S.LOG_OFFSET)).collect()[0][0]
        last = holes(log).agg(F.max(HOLE_LAST)).collect()[0][0]
        if snapshots is None or last > snapshots:
            raise AuditError(
                f"the current ACLs are not known: the metadata log has no record up to offset {last};"
                " import the log of another node, or a snapshot"
            )
    end = log.agg(F.max(S.LOG_OFFSET)).collect()[0][0]
    in_effect = acl_intervals(log).where(F.col(REMOVED) == NEVER).withColumn(ENDED, ended_by_the_end(log))
    rows = in_effect.where(not_ended(F.col(S.UNTIL_MS))).drop(ADDED, REMOVED, ENDED).collect()
    acls = {acl_id: ProposedAcl(*fields) for acl_id, *fields, _ in rows}
    ends = {acl_id: until_ms for acl_id, *_, until_ms in rows if until_ms is not None}
    limits = quota_intervals(log).where(F.col(UNSET) == NEVER)
    quotas = {
        (entity_of(row[USER_TAG], row[CLIENT_TAG]), row[S.QUOTA_KEY]): row[VALUE] for row in limits.collect()
    }
    return ProposedState(-1 if end is None else int(end), acls, quotas, ends)


def acl_records(
    added: Iterable[ProposedAcl], removed: Iterable[str], ends: Mapping[ProposedAcl, int] = NO_ENDS
) -> list[LogRecord]:
    """Return the records that add ACLs and remove others by id. Ids of added ACLs are `proposed-<n>`.

    `ends`: of added ACLs, in ms since the epoch.
    """
    records: list[LogRecord] = [
        (S.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, "RemoveAccessControlEntryRecord", {S.ID: acl_id})
        for acl_id in removed
    ]
    return records + [
        acl_record(f"proposed-{number}", acl, ends.get(acl)) for number, acl in enumerate(added)
    ]


def acl_record(acl_id: str, acl: ProposedAcl, until_ms: int | None = None) -> LogRecord:
    end = {} if until_ms is None else {S.UNTIL_MS: until_ms}
    return (
        S.ACCESS_CONTROL_ENTRY_RECORD,
        "AccessControlEntryRecord",
        {S.ID: acl_id, **acl._asdict(), **end},
    )


def quota_records(proposal: Proposal) -> list[LogRecord]:
    return [
        (
            S.CLIENT_QUOTA_RECORD,
            "ClientQuotaRecord",
            {"entity": dict(entity), "key": key, "value": limit or 0.0, "remove": limit is None},
        )
        for (entity, key), (limit, _) in proposal.quotas.items()
    ]


def with_records(log: DataFrame, state: ProposedState, records: Sequence[LogRecord]) -> DataFrame:
    """Return the log with records after its end: the first one at offset `now + 1`."""
    kafkas = not of_kafka(log).isEmpty()
    rows = [
        (None, offset, None, api_key, name, 0, json.dumps(body), None, False if kafkas else None)
        for offset, (api_key, name, body) in enumerate(records, state.now + 1)
    ]
    if not rows:
        return log
    return log.unionByName(frame_of(log.sparkSession, rows, S.LOG))


def resolved(proposal: Proposal, state: ProposedState, principals: Iterable[str]) -> Resolved:
    """Compare the proposal with the state; `principals` are those that the trail has seen."""
    return resolve(proposal, state.acls, state.quotas, state.principals | set(principals))


def entity_of(user_tag: str, client_tag: str) -> Entity:
    """Return the entity of two tags (policy.quota_limits)."""
    parts = (("client-id", client_tag), ("user", user_tag))
    return tuple((kind, None if tag == DEFAULT else unquote(tag)) for kind, tag in parts if tag)
