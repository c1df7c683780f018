"""All that a period did not need, as one document, with the proposal that would narrow it and its effect."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_audit import schema as S
from spark_audit.least_privilege import grants, limits, people
from spark_audit.least_privilege.grants import Plain
from spark_audit.least_privilege.narrowing import NO_NETWORKS, PrefixLengths
from spark_audit.least_privilege.unseen import COLLAPSED, LISTING, OF_ALL, SEVERAL, listing_principals, unseen
from spark_audit.policy.enforced_acls import WILDCARD_PRINCIPAL, accepts_networks
from spark_audit.proposal import Proposal, ProposedAcl, parse_proposal
from spark_audit.tables.files import AuditError
from spark_audit.trail.processes import ALLOW_EVERYONE
from spark_audit.what_if import result as what_if
from spark_audit.what_if.access import CANNOT_BE_SAID, NEWLY_DENIED, REASON
from spark_audit.what_if.recorded import RecordedDays, recorded
from spark_audit.what_if.throttling import THROTTLED

KINDS = (grants.UNUSED, grants.COVERED, grants.WIDE, people.NO_GRANT, people.NO_LOGIN, limits.UNREACHED)
"""What a pipeline may fail on."""
FILE = "least-privilege.proposal"
SHOWN = 20
_OWN_REASONS = {
    grants.UNUSED: (COLLAPSED,),
    grants.COVERED: (COLLAPSED,),
    grants.WIDE: (COLLAPSED,),
    people.NO_GRANT: (COLLAPSED,),
    limits.UNREACHED: (SEVERAL,),
}
"""Kind of a row -> the reasons of `unseen` that concern it besides OF_ALL."""


class LeastPrivilegeDocument(TypedDict):
    """The content of least-privilege.json. Times are in ms since the epoch."""

    offset: int
    """Of the last record of the metadata log."""
    days: list[str]
    """The first and the last day of the period."""
    counts: dict[str, int]
    """KINDS -> number of rows."""
    unseen: dict[str, str]
    """What the trail cannot see: short name -> sentence. Rows have the short names that concern them."""
    what_if: Plain | None
    """`requests` and `effects` of the proposal as a whole, without the rows that are held back."""
    rows: list[Plain]


def document(
    audit: DataFrame,
    metadata_log: DataFrame,
    period_days: int,
    last: date | None = None,
    *,
    expired: DataFrame | None = None,
    narrows_hosts: bool = False,
    networks: PrefixLengths = NO_NETWORKS,
) -> LeastPrivilegeDocument:
    """Return what the days up to `last`, by default the last one in the table, did not need.

    AuditError if networks are wanted, and the cluster would reject ACLs with them.
    """
    end = last or audit.agg(F.max(S.DATE)).collect()[0][0]
    if end is None:
        raise AuditError("there are no audit records")
    first = end - timedelta(days=period_days - 1)
    of = recorded(audit, metadata_log, first, end)
    if networks and not accepts_networks(of.log):
        raise AuditError(
            "networks cannot be hosts of ACLs in this cluster: Kafka's own controller accepts them from"
            " metadata.version 4.4-IV1 on"
        )
    decided = of.decided(*of.proposed_log([]), Proposal()).persist()
    named = {acl.principal for acl in of.state.acls.values() if acl.permission_type == "ALLOW"}
    rows = [
        *grants.grant_rows(
            of.state.acls, grants.uses(decided), of.state.ends, narrows_hosts=narrows_hosts, networks=networks
        ),
        *people.principals_without_grant(decided, named),
        *people.users_without_login(people.scram_users(of.log), people.seen_principals(of)),
        *limits.quota_rows(of.state.quotas, limits.peaks(of)),
    ]
    reasons, listing = unseen(audit, expired, first, end), listing_principals(of.period)
    listing |= {WILDCARD_PRINCIPAL} if listing else set()
    for row in rows:
        concerning = [*OF_ALL, *_OWN_REASONS.get(str(row["kind"]), ())]
        if row.get(S.ACL_ID) and row["principal"] in listing:
            concerning.append(LISTING)
        row["unseen"] = [reason for reason in reasons if reason in concerning]
        row["held_back"] = None
    _hold_back(rows, of)
    return {
        "offset": of.state.now,
        "days": [first.isoformat(), end.isoformat()],
        "counts": {kind: sum(row["kind"] == kind for row in rows) for kind in KINDS},
        "unseen": reasons,
        "what_if": _tried(rows, of),
        "rows": rows,
    }


def _changes(row: Plain) -> list[str]:
    """Return the commands of a row that a proposal can have: those that delete users cannot be tried."""
    commands = row["commands"]
    return list(commands) if isinstance(commands, list) and row["kind"] != people.NO_LOGIN else []


def _hold_back(rows: Iterable[Plain], of: RecordedDays) -> None:
    """Mark the rows that would open a resource to everyone, or add what another row removes."""
    candidates = [row for row in rows if row.get(S.ACL_ID)]
    removed = {str(row["subject"]) for row in candidates}
    opens = any(row[0] for row in of.policies.select(ALLOW_EVERYONE).distinct().collect())
    remaining = {_pattern(acl) for acl_id, acl in of.state.acls.items() if str(acl) not in removed}
    for row in candidates:
        adds = row["narrower"]
        if isinstance(adds, list) and removed.intersection(adds):
            row["held_back"] = "another row removes the ACL that it would add; try again after that"
        elif opens and _pattern(of.state.acls[str(row[S.ACL_ID])]) not in remaining:
            row["held_back"] = (
                "no other ACL is on this resource, so allow.everyone.if.no.acl.found would open it"
            )


def _pattern(acl: ProposedAcl) -> tuple[str, str, str]:
    return acl[:3]


def _tried(rows: Iterable[Plain], of: RecordedDays) -> Plain | None:
    """Add to each row what the proposal of all rows would do to it. Return the effect of what remains.

    A row of the proposal by itself removes less than all of them, so it denies no more than is said here.
    """
    changing = [row for row in rows if _changes(row)]
    tried = [row for row in changing if row["held_back"] is None]
    if not tried:
        return None
    found = what_if.effects(of, parse_proposal(_text(tried), FILE))
    for row in changing:
        row["what_if"] = _effect(row, found) if row in tried else None
    harmful = [row for row in tried if _harm(row)]
    for row in harmful:
        row["held_back"] = f"it would {_harm(row)}"
    if harmful:
        left = [row for row in tried if row not in harmful]
        if not left:
            return None
        found = what_if.effects(of, parse_proposal(_text(left), FILE))
    return {"requests": found["requests"], "effects": found["effects"]}


def _harm(row: Plain) -> str | None:
    effect = row["what_if"]
    if not isinstance(effect, dict):
        return None
    if effect["newly_denied"]:
        return f"newly deny {effect['newly_denied']} requests"
    return "throttle clients" if effect["newly_throttled"] else None


def _effect(row: Plain, found: what_if.WhatIfDocument) -> Plain:
    denied, unsure, reasons, throttled = 0, 0, set(), 0
    for each in found["access"]:
        if each["outcome"] == NEWLY_DENIED and _is_by(each, row):
            denied += int(str(each["requests"]))
        if each["outcome"] == CANNOT_BE_SAID and row["principal"] in (each["principal"], WILDCARD_PRINCIPAL):
            unsure += int(str(each["requests"]))
            reasons.add(str(each[REASON]))
    if row["kind"] == limits.UNREACHED:
        for each in found["throttling"]:
            if (each["quota_key"], each["quota_limit"]) == (row["quota_key"], row["proposed"]):
                throttled += each["outcome"] == THROTTLED
                reasons |= {str(each["reason"])} if each["reason"] else set()
    return {
        "newly_denied": denied,
        "newly_throttled": throttled,
        "cannot_be_said": unsure,
        "reasons": sorted(reasons),
    }


def _is_by(each: Mapping[str, object], row: Plain) -> bool:
    """Return whether the row's grant allows the request now, or may: not every record names the ACL."""
    now = each["now"]
    acls = now.get("acls") if isinstance(now, dict) else None
    if acls is None:
        return row["principal"] in (each["principal"], WILDCARD_PRINCIPAL)
    return row.get(S.ACL_ID) in acls


def _text(rows: Iterable[Plain]) -> str:
    return "".join(f"{command}\n" for row in rows for command in dict.fromkeys(_changes(row)))


def proposal_text(found: LeastPrivilegeDocument) -> str:
    """Return the file that `what-if --proposal` reads. What it cannot try is in comments."""
    written = [f"# Not needed from {found['days'][0]} to {found['days'][1]}."]
    written += [f"# The trail cannot see: {sentence}." for sentence in found["unseen"].values()]
    for row in found["rows"]:
        commands = row["commands"]
        if not isinstance(commands, list) or not commands:
            continue
        is_comment = bool(row["held_back"]) or not _changes(row)
        why = f"; held back: {row['held_back']}" if row["held_back"] else ""
        written += ["", "# " + f"{row['kind']}: {row['subject']}{why}".replace("\n", " ")]
        written += [("# " if is_comment else "") + command for command in commands]
    return "\n".join(written) + "\n"


def lines(found: LeastPrivilegeDocument) -> Iterator[str]:
    """Yield what people read: the counts, then the first rows of each kind."""
    counts = ", ".join(f"{number} {kind}" for kind, number in found["counts"].items())
    yield f"{found['days'][0]} to {found['days'][1]}, at offset {found['offset']}: {counts}"
    yield from (f"the trail cannot see: {sentence}" for sentence in found["unseen"].values())
    for kind in KINDS:
        rows = [row for row in found["rows"] if row["kind"] == kind]
        yield from (_line(row) for row in rows[:SHOWN])
        if len(rows) > SHOWN:
            yield f"... and {len(rows) - SHOWN} more of {kind}"


def _line(row: Plain) -> str:
    effect, text = row.get("what_if"), f"{row['kind']}: {row['subject']}"
    covering = row.get("covered_by")
    if row.get("until"):
        text += f" until {row['until']}"
    if isinstance(covering, list):
        text += f", covered by {', '.join(covering)}"
    if "requests" in row:
        text += f": {row['requests']} requests"
    if "peak" in row:
        peak = row["peak"]
        text += f": peak {peak:.0%}" if isinstance(peak, float) else ": nothing that it limits was seen"
    if isinstance(effect, dict):
        text += f"; newly denied {effect['newly_denied']}, cannot be said {effect['cannot_be_said']}"
    return text + (f"; held back: {row['held_back']}" if row["held_back"] else "")


def holds(found: LeastPrivilegeDocument, kinds: Iterable[str]) -> bool:
    """Return whether there is a row of one of these kinds."""
    return any(found["counts"][kind] for kind in kinds)
