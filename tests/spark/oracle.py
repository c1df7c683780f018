"""What StandardAuthorizer decides, in plain Python: the referee of Spark's joins and the proxy's index."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from types import MappingProxyType

Acl = Mapping[str, str]

_IMPLIED_BY = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}


@dataclass(frozen=True, slots=True)
class Question:
    principal: str
    host: str
    resource_type: str
    resource_name: str | None
    operation: str
    groups: tuple[str, ...] = ()

    @property
    def principals(self) -> tuple[str, ...]:
        return (self.principal, *(f"Group:{name}" for name in self.groups))


@dataclass(frozen=True, slots=True)
class Answer:
    granted: bool
    rule: str
    acl_id: str | None = None


def decide(
    question: Question,
    acls: Sequence[Acl],
    super_users: Collection[str] = (),
    allow_everyone: bool = False,
    owners: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    if not set(super_users).isdisjoint(question.principals):
        return Answer(True, "super.users")
    if question.resource_name is None:
        return Answer(_by_type(question, acls, allow_everyone, owners), "acl")
    on_resource = [acl for acl in acls if _stands_on(acl, question.resource_type, question.resource_name)]
    concerned = [acl for acl in on_resource if _concerns(acl, question)]
    for acl in concerned:
        if acl["permission_type"] == "DENY" and acl["operation"] in (question.operation, "ALL"):
            return Answer(False, "acl", acl["id"])
    implying = {question.operation, "ALL"} | _IMPLIED_BY.get(question.operation, set())
    for acl in concerned:
        if acl["permission_type"] == "ALLOW" and acl["operation"] in implying:
            return Answer(True, "acl", acl["id"])
    if _owns(question, owners):
        return Answer(True, "topic.owner")
    if not on_resource and allow_everyone:
        return Answer(True, "allow.everyone.if.no.acl.found")
    return Answer(False, "default.deny")


def _owns(question: Question, owners: Mapping[str, str]) -> bool:
    of_topics = {"READ", "WRITE", "CREATE", "DELETE", *_IMPLIED_BY["DESCRIBE"], *_IMPLIED_BY, "ALTER_CONFIGS"}
    return (
        question.resource_type == "TOPIC"
        and question.operation in of_topics
        and owners.get(question.resource_name or "") == question.principal
    )


def _stands_on(acl: Acl, resource_type: str, resource_name: str) -> bool:
    if acl["resource_type"] != resource_type:
        return False
    if acl["pattern_type"] == "PREFIXED":
        return resource_name.startswith(acl["resource_name"])
    return acl["resource_name"] in (resource_name, "*")


def _concerns(acl: Acl, question: Question) -> bool:
    return acl["principal"] in (*question.principals, "User:*") and _has_host(acl, question.host)


def _has_host(acl: Acl, host: str) -> bool:
    of_acl, without_zone = acl["host"], host.partition("%")[0]
    if "/" in of_acl:
        return ip_address(without_zone) in ip_network(of_acl, strict=False)
    in_every_zone = acl["permission_type"] == "DENY" and of_acl.partition("%")[0] == without_zone
    return of_acl in (host, "*") or in_every_zone


def _by_type(
    question: Question, acls: Sequence[Acl], allow_everyone: bool, owners: Mapping[str, str]
) -> bool:
    of_mine = [replace(question, resource_name=topic) for topic in owners]
    # An ACL that allows it too does not take it from the owner.
    if any(_owns(mine, owners) and decide(mine, acls, owners=owners).granted for mine in of_mine):
        return True
    probe = replace(question, resource_name="hardcode")
    if decide(probe, acls, (), allow_everyone).granted:
        return True
    matching = [
        acl
        for acl in acls
        if acl["resource_type"] == question.resource_type
        and _concerns(acl, question)
        and acl["operation"] in (question.operation, "ALL")
    ]
    denies = [acl for acl in matching if acl["permission_type"] == "DENY"]
    if any(deny["resource_name"] == "*" and deny["pattern_type"] == "LITERAL" for deny in denies):
        return False
    return any(acl["permission_type"] == "ALLOW" and not _dominated(acl, denies) for acl in matching)


def _dominated(allow: Acl, denies: Sequence[Acl]) -> bool:
    name, literal = allow["resource_name"], allow["pattern_type"] == "LITERAL"
    if literal and name == "*":
        return False
    same_name = literal and any(d["pattern_type"] == "LITERAL" and d["resource_name"] == name for d in denies)
    # Kafka looks for denied prefixes of one character and more.
    prefixes = [d["resource_name"] for d in denies if d["pattern_type"] == "PREFIXED"]
    return same_name or any(prefix and name.startswith(prefix) for prefix in prefixes)
