"""`penstock policy diff`, `assert` and `useless`. They return what proxy.__main__ prints."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from proxy.commands.policy.sources import PolicyReader, SourceError
from proxy.error_text import text_of
from proxy.metadata.acl import OPERATIONS_ON, Acl, end_text, in_words
from proxy.policy.assertions import AssertionFault, Violation, parse_assertions, violations
from proxy.policy.differences import Region, differences
from proxy.policy.hosts import branches_of_hosts
from proxy.policy.names import Branch, branches_of_names
from proxy.policy.policy import AccessRequest, Policy, decision_text, session_text
from proxy.policy.useless import useless_acls
from proxy.security.standard import StandardAuthorizer

EQUAL, DIFFERENT, FAILED = 0, 1, 2


@dataclass(slots=True)
class PolicyOutcome:
    """`lines` are the results; `notes` and `problems` go to standard error."""

    exit_code: int = EQUAL
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run_policy(arguments: argparse.Namespace, settings: dict[str, str]) -> PolicyOutcome:
    """Run a subcommand. `settings`: those of the authorizer, by Kafka's names."""
    reader = PolicyReader(arguments.config, settings, arguments.bootstrap_server, arguments.command_config)
    try:
        outcome = _COMMANDS[arguments.policy_command](arguments, reader)
    except SourceError as error:
        outcome = PolicyOutcome(FAILED, problems=[str(error)])
    outcome.notes = list(dict.fromkeys(reader.notes))
    return outcome


def _diff(arguments: argparse.Namespace, reader: PolicyReader) -> PolicyOutcome:
    old = reader.read(arguments.old)
    new = reader.read(arguments.new, old)
    regions, ends = differences(old, new), _changed_ends(old, new)
    exit_code = DIFFERENT if regions or ends else EQUAL
    if arguments.json:
        found = {
            "equal": exit_code == EQUAL,
            "regions": [_region_fields(region, old, new) for region in regions],
            "ends": [{"acl": each.acl, "old": each.old, "new": each.new} for each in ends],
        }
        return PolicyOutcome(exit_code, [json.dumps(found, indent=2)])
    lines = [f"{_region_text(each)}\n    {_witness_text(each, old, new)}" for each in regions]
    allowed = sum(region.allowed for region in regions)
    if regions:
        count = "1 region" if len(regions) == 1 else f"{len(regions)} regions"
        lines.append(f"{count}: {allowed} newly allowed, {len(regions) - allowed} newly denied")
    lines += [f"OTHER END: {each.acl}: {each.old} -> {each.new}" for each in ends]
    return PolicyOutcome(exit_code, lines or ["equal: every request is decided as before"])


class _ChangedEnd(NamedTuple):
    """An ACL that is in effect in both policies, and ends at another time in each."""

    acl: str
    old: str
    new: str


def _changed_ends(old: Policy, new: Policy) -> list[_ChangedEnd]:
    """Return what `differences` does not see, since it compares the policies at one moment."""
    was, will = ({acl.binding: acl for acl in _in_effect(policy)} for policy in (old, new))
    return sorted(
        _ChangedEnd(in_words(acl, with_end=False), end_text(was[binding].until_ms), end_text(acl.until_ms))
        for binding, acl in will.items()
        if binding in was and was[binding].until_ms != acl.until_ms
    )


def _in_effect(policy: Policy) -> Iterator[Acl]:
    acls = policy.image.acls
    return (acl for acl in acls.by_id.each_value() if acls.in_effect(acl))


def _region_text(region: Region) -> str:
    effect = "NEWLY ALLOWED" if region.allowed else "NEWLY DENIED"
    named = ", ".join(region.principals)
    who = (f"any principal but {named}" if named else "any principal") if region.others else named
    who = session_text(who, region.groups)
    hosts = "; ".join(map(str, branches_of_hosts(region.hosts)))
    names = "any" if region.names is None else "; ".join(map(str, branches_of_names(region.names)))
    operations = ", ".join(each.name for each in region.operations)
    if region.operations == OPERATIONS_ON[region.resource_type] and len(region.operations) > 1:
        operations = "ALL"
    return f"{effect}: {who} from {hosts}: {operations} {region.resource_type.name} {names}"


def _witness_text(region: Region, old: Policy, new: Policy) -> str:
    was, is_now = (decision_text(policy.decide(region.witness)) for policy in (old, new))
    return f"{region.witness}: {was} -> {is_now}"


def _region_fields(region: Region, old: Policy, new: Policy) -> dict[str, object]:
    was, is_now = old.decide(region.witness), new.decide(region.witness)
    return {
        "effect": "newly_allowed" if region.allowed else "newly_denied",
        "text": _region_text(region),
        "any_principal_but" if region.others else "principals": list(region.principals),
        "groups": list(region.groups),
        "hosts": [_tree(each) for each in branches_of_hosts(region.hosts)],
        "operations": [each.name for each in region.operations],
        "resource_type": region.resource_type.name,
        "names": None if region.names is None else [_tree(each) for each in branches_of_names(region.names)],
        "witness": _request_fields(region.witness)
        | {"old_rule": was.rule, "new_rule": is_now.rule, "text": _witness_text(region, old, new)},
    }


def _tree(branch: Branch) -> dict[str, object]:
    return {"of": branch.of, "but": [_tree(each) for each in branch.but]}


def _request_fields(request: AccessRequest) -> dict[str, object]:
    return {
        "principal": request.principal,
        "groups": list(request.groups),
        "host": request.host,
        "operation": request.operation.name,
        "resource_type": request.resource_type.name,
        "resource_name": request.resource_name,
    }


def _assert(arguments: argparse.Namespace, reader: PolicyReader) -> PolicyOutcome:
    path: Path = arguments.file
    try:
        assertions = parse_assertions(path.read_text(encoding="utf-8"))
    except AssertionFault as error:
        raise SourceError(f"{path}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: {text_of(error)}") from error
    if not assertions:
        raise SourceError(f"{path}: the file asserts nothing")
    broken = violations(reader.read(arguments.policy), assertions)
    exit_code = DIFFERENT if broken else EQUAL
    if arguments.json:
        fields = {"proved": not broken, "violations": [_violation_fields(each) for each in broken]}
        return PolicyOutcome(exit_code, [json.dumps(fields, indent=2)])
    by_name = {each.assertion.name: each for each in broken}
    return PolicyOutcome(
        exit_code, [str(by_name.get(each.name) or f"{each.name}: proved") for each in assertions]
    )


def _violation_fields(found: Violation) -> dict[str, object]:
    return {
        "name": found.assertion.name,
        "assertion": found.assertion.text,
        "counterexample": _request_fields(found.counterexample),
        "allowed": found.decision.allowed,
        "rule": found.decision.rule,
    }


def _useless(arguments: argparse.Namespace, reader: PolicyReader) -> PolicyOutcome:
    policy = reader.read(arguments.policy)
    if not isinstance(policy.authorizer, StandardAuthorizer):
        raise SourceError(
            f"{arguments.policy}: useless ACLs are those of StandardAuthorizer, not of an ACL file"
        )
    found = useless_acls(policy)
    exit_code = DIFFERENT if found else EQUAL
    if arguments.json:
        fields = [
            {
                "acl": in_words(each.acl),
                "id": each.acl.id,
                "reason": each.reason,
                "because_of": None if each.because_of is None else in_words(each.because_of),
            }
            for each in found
        ]
        return PolicyOutcome(exit_code, [json.dumps({"useless": fields}, indent=2)])
    lines = [
        f"{in_words(each.acl)}\n    {each.reason}"
        + ("" if each.because_of is None else f": {in_words(each.because_of)}")
        for each in found
    ]
    return PolicyOutcome(
        exit_code, lines or ["no ACL is useless: without any of them some request is decided otherwise"]
    )


_COMMANDS: dict[str, Callable[[argparse.Namespace, PolicyReader], PolicyOutcome]] = {
    "diff": _diff,
    "assert": _assert,
    "useless": _useless,
}
