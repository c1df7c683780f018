"""`penstock check --proposal`: what a proposed change of ACLs and quotas does, without the audit trail.

Takes a proposal (spark_audit.proposal), the metadata log that `penstock shell` reads, and questions: lines
`PRINCIPAL HOST OPERATION RESOURCE-TYPE NAME`. The proxy's own StandardAuthorizer decides each question on the
image and on the image with the proposal.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.commands.shell.source import LogError, UsageError, find
from proxy.error_text import text_of
from proxy.metadata.acl import Acl as ImageAcl
from proxy.metadata.acl import Operation, ResourceType, uuid_text
from proxy.metadata.acls_image import AclsImage
from proxy.metadata.delta import AclsDelta, without_ended
from proxy.metadata.image import MetadataImage
from proxy.net.runtime.clock import now_ms
from proxy.policy.policy import AccessRequest, decision_text, of_image, outcome
from proxy.security.principal import parse_principal
from spark_audit.proposal import (
    ALLOW_EVERYONE,
    GROUP,
    SUPER_USERS,
    SUPPORTED,
    Proposal,
    ProposalError,
    ProposedAcl,
    Quota,
    Resolved,
    constant,
    operation_named,
    parse_proposal,
    principal_of,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUESTION = "PRINCIPAL HOST OPERATION RESOURCE-TYPE NAME"


@dataclass(slots=True)
class CheckedProposal:
    """`lines` are the results: a summary, and one line for each question."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def check_proposal(
    path: Path,
    log: str | None = None,
    config: Path | None = None,
    settings: Mapping[str, str] | None = None,
    questions: Path | None = None,
) -> CheckedProposal:
    """Check a proposal by itself, and against the end of a log unless `log` is None.

    `log` and `config` are those of `penstock shell`; `settings` are the authorizer's, by Kafka's names.
    """
    found = CheckedProposal()
    try:
        proposal = parse_proposal(path.read_text(encoding="utf-8"), str(path))
        asked = _questions(questions)
        image = None if log is None else find(log, config, None).image
    except ProposalError as error:
        found.problems += error.problems
    except (OSError, UnicodeDecodeError) as error:
        found.problems.append(f"{path if questions is None else f'{path} or {questions}'}: {text_of(error)}")
    except (LogError, UsageError, TimeoutError) as error:
        found.problems.append(f"{path}: the metadata log cannot be read: {error or 'no response in time'}")
    else:
        if image is not None:
            _compare(found, proposal, at_present(image), dict(settings or {}), asked)
        elif asked:
            found.problems.append(f"{questions}: questions need the log; add -c FILE or --log")
    return found


def _compare(
    found: CheckedProposal,
    proposal: Proposal,
    image: MetadataImage,
    settings: dict[str, str],
    asked: list[AccessRequest],
) -> None:
    changes = _resolved(proposal, image, settings)
    found.problems += changes.problems
    found.warnings += changes.warnings
    if found.problems:
        return
    changed, proposed = _carried_out(proposal, changes, image, settings)
    found.lines.append(
        f"at offset {image.offset}: {len(changes.added)} ACLs to add, {len(changes.removed)} to remove,"
        f" {len(proposal.quotas)} quotas and {len(proposal.settings)} settings to change"
    )
    before, after = of_image(image, settings), of_image(changed, proposed)
    for question in asked:
        left, joined = (
            tuple(
                GROUP + group
                for (who, group), (joins, _) in proposal.members.items()
                if who == question.principal and joins is is_after
            )
            for is_after in (False, True)
        )
        now = before.decide(question._replace(groups=left))
        then = after.decide(question._replace(groups=joined))
        effect = "unchanged" if now.allowed == then.allowed else f"NEWLY {outcome(then).upper()}"
        found.lines.append(f"{question}: {effect}: {decision_text(now)} -> {decision_text(then)}")


@dataclass(slots=True)
class CarriedOut:
    """What a proposal leads to; as before if there are problems."""

    image: MetadataImage
    settings: dict[str, str]
    problems: list[str]
    warnings: list[str] = field(default_factory=list)


def carried_out(text: str, name: str, image: MetadataImage, settings: Mapping[str, str]) -> CarriedOut:
    """Carry out the ACLs and settings of a proposal, whose file is `name`, on an image."""
    try:
        proposal = parse_proposal(text, name)
    except ProposalError as error:
        return CarriedOut(image, dict(settings), list(error.problems))
    changes = _resolved(proposal, image, settings)
    if changes.problems:
        return CarriedOut(image, dict(settings), changes.problems)
    return CarriedOut(*_carried_out(proposal, changes, image, settings), [], changes.warnings)


def _carried_out(
    proposal: Proposal, changes: Resolved, image: MetadataImage, settings: Mapping[str, str]
) -> tuple[MetadataImage, dict[str, str]]:
    proposed = dict(settings)
    if proposal.super_users is not None:
        proposed[SUPER_USERS] = ";".join(proposal.super_users)
    if proposal.allow_everyone is not None:
        proposed[ALLOW_EVERYONE] = str(proposal.allow_everyone).lower()
    changed = MetadataImage(image.offset, _with_changes(image, changes), topics=image.topics)
    return at_present(changed), proposed


def at_present(image: MetadataImage) -> MetadataImage:
    """Return the image without the ACLs that have ended."""
    while (current := without_ended(image, now_ms())) is not image:
        image = current
    return image


def _resolved(proposal: Proposal, image: MetadataImage, settings: Mapping[str, str]) -> Resolved:
    stored = image.acls.by_id.each_value()
    acls = {acl.id: ProposedAcl(*acl.names) for acl in stored if image.acls.in_effect(acl)}
    quotas: set[Quota] = set()
    for entity in image.quotas.limits:
        limits = image.quotas.limits.get(entity) or {}
        quotas |= {(tuple(sorted(entity.parts.items())), key) for key in limits}
    principals = {acl.principal for acl in acls.values()} | {f"User:{user}" for user in image.scram.users()}
    principals |= {principal for entity, _ in quotas if (principal := principal_of(entity)) is not None}
    named = {name.strip() for name in settings.get(SUPER_USERS, "").split(";")}
    return resolve(proposal, acls, quotas, principals | named)


def _with_changes(image: MetadataImage, changes: Resolved) -> AclsImage:
    delta = AclsDelta(image.acls, compacted=False)
    for acl_id in changes.removed:
        delta.remove(acl_id)
    for number, acl in enumerate(changes.added):
        # Kafka's ids are random: none is such a small number.
        acl_id = uuid_text(number.to_bytes(16, "little"))
        delta.add(ImageAcl.named(acl_id, acl, changes.ends.get(acl)))
    return delta.apply()


def _questions(path: Path | None) -> list[AccessRequest]:
    """Read the questions. ProposalError has the errors of all lines."""
    asked, problems = [], []
    lines = [] if path is None else path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            if words := shlex.split(line, comments=True):
                asked.append(_question(words))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise ProposalError(problems)
    return asked


def _question(words: list[str]) -> AccessRequest:
    if len(words) != len(_QUESTION.split()):
        raise ValueError(f"a question has the form {_QUESTION}")
    principal, host, operation, kind, name = words
    parse_principal(principal)
    resource_type = constant(kind).replace("-", "_")
    if resource_type not in SUPPORTED:
        raise ValueError(f"{kind!r} is no resource type; there are {', '.join(SUPPORTED)}")
    operation_name = operation_named(operation)
    return AccessRequest(principal, host, Operation[operation_name], ResourceType[resource_type], name)
