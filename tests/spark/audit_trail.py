"""Audit trails made up for tests: processes that write records, a controller that writes the metadata log.

A trail is whole and true when it is made; a test then spoils one thing in it (the lists are plain dicts)
and sees whether that is found. `busy_day` makes a large one with a seed, for pages and for timing.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from spark_audit import schema as S
from tests.spark.oracle import Acl, Answer, Question, decide

Record = dict[str, Any]
NOON_MS = 1_795_435_200_000  # 2026-11-23T12:00:00Z
DAY = "2026-11-23"
STANDARD_AUTHORIZER = "proxy.security.standard.StandardAuthorizer"


def acl_id(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def an_acl(number: int, text: str) -> dict[str, str]:
    """`ALLOW User:alice * WRITE TOPIC LITERAL payments` as the fields of an ACL record."""
    names = (
        "permission_type",
        "principal",
        "host",
        "operation",
        "resource_type",
        "pattern_type",
        "resource_name",
    )
    return {"id": acl_id(number), **dict(zip(names, text.split(), strict=True))}


class Clock:
    """Every reading is a bit later than the one before."""

    def __init__(self, now_ms: int = NOON_MS, step_ms: int = 100) -> None:
        self.now_ms, self.step_ms = now_ms, step_ms

    def __call__(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms


@dataclass
class Process:
    """One proxy or controller between its start and its end."""

    proxy_id: str
    clock: Clock
    role: str = "proxy"
    boot_id: str = "boot-1"
    settings: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    generation: int = 0

    def start(self) -> None:
        defaults = {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "allow.everyone.if.no.acl.found": "false",
        }
        self.settings = defaults | self.settings
        self.write("started", settings=self.settings)

    def change_settings(self, **settings: str) -> Record:
        """What a reload records; `super_users` for super.users."""
        self.generation += 1
        self.settings = self.settings | {name.replace("_", "."): text for name, text in settings.items()}
        return self.write("settings_changed", settings=self.settings, settings_generation=self.generation)

    def write(self, event: str, **fields: Any) -> Record:
        record: Record = dict.fromkeys(S.DATA.names)
        stamp = {
            # Without a chain; `sealed` writes the same trail as processes write it now.
            S.RECORD_SCHEMA_VERSION: 1,
            S.ROLE: self.role,
            S.PROXY_ID: self.proxy_id,
            S.BOOT_ID: self.boot_id,
            S.SEQUENCE: len(self.records),
            S.TIME_MS: self.clock(),
            S.EVENT: event,
        }
        unknown = fields.keys() - record.keys()
        assert not unknown, unknown
        self.records.append(record | stamp | fields)
        return self.records[-1]

    def high_water(self) -> Record:
        return self.write("high_water", count=len(self.records) + 1)

    def stop(self) -> Record:
        return self.write("stopped", count=len(self.records) + 1)

    def decided(self, question: Question, answer: Answer, offset: int, **fields: Any) -> Record:
        event = fields.pop("event", "authorization")
        shape = {
            S.PRINCIPAL: question.principal,
            S.GROUPS: list(question.groups) or None,
            S.HOST: question.host,
            S.RESOURCE_TYPE: question.resource_type,
            S.RESOURCE_NAME: question.resource_name,
            S.PATTERN_TYPE: "LITERAL",
            S.OPERATION: question.operation,
            S.GRANTED: answer.granted,
            S.RULE: answer.rule,
            S.ACL_ID: answer.acl_id,
            S.METADATA_OFFSET: offset,
            S.SETTINGS_GENERATION: self.generation or None,
        }
        return self.write(event, **(shape | fields))


@dataclass
class Trail:
    """One cluster: a controller, its log, and proxies that forward to it."""

    kind_of_process: ClassVar[type[Process]] = Process
    clock: Clock = field(default_factory=Clock)
    log: list[Record] = field(default_factory=list)
    acls: dict[str, Acl] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    """Of the names of its processes."""
    first_offset: int = 0
    """Of its part of the log, if several trails share one."""

    def __post_init__(self) -> None:
        self.controller = self.process(
            f"{self.prefix}controller-1", role="controller", boot_id=f"{self.prefix}boot-1"
        )
        self.proxy = self.process(f"{self.prefix}proxy-1", boot_id=f"{self.prefix}boot-1")
        self.forwards = 0

    def process(self, proxy_id: str, **fields: Any) -> Process:
        started = self.kind_of_process(proxy_id, self.clock, **fields)
        started.start()
        self.processes = [*getattr(self, "processes", []), started]
        return started

    @property
    def offset(self) -> int:
        """The offset of an image that has replayed everything so far."""
        return int(self.log[-1][S.LOG_OFFSET]) if self.log else self.first_offset - 1

    @property
    def audit(self) -> list[Record]:
        return [record for process in self.processes for record in process.records]

    def forward(
        self,
        method: str,
        changes: Sequence[tuple[int, str, dict[str, Any]]],
        proxy: Process | None = None,
        principal: str = "User:admin",
    ) -> tuple[Record, Record]:
        """An admin request from client to log: both audit records, and the log records it wrote."""
        proxy = proxy or self.proxy
        self.forwards += 1
        first, last = self._commit(changes) if changes else (None, None)
        shared = {
            "forward_id": f"{proxy.proxy_id}-{self.forwards}",
            "method": method,
            "principal": principal,
            "host": "10.0.0.5",
            "error_code": 0,
        }
        received = self.controller.write(
            "forwarded_received",
            forwarding_principal=f"User:{proxy.proxy_id}",
            first_offset=first,
            last_offset=last,
            **shared,
        )
        told = proxy.write("forwarded", last_offset=last, envelope_error_code=0, **shared)
        return told, received

    def add_acl(self, number: int, text: str) -> Acl:
        acl = an_acl(number, text)
        self.forward("CreateAcls", [(18, "AccessControlEntryRecord", acl)])
        self.acls[acl["id"]] = acl
        return acl

    def remove_acl(self, acl: Acl) -> None:
        self.forward("DeleteAcls", [(19, "RemoveAccessControlEntryRecord", {"id": acl["id"]})])
        del self.acls[acl["id"]]

    def set_quota(self, entity: dict[str, str | None], key: str, value: float) -> None:
        body = {"entity": entity, "key": key, "value": value, "remove": False}
        self.forward("AlterClientQuotas", [(14, "ClientQuotaRecord", body)])

    def set_owner(self, topic: str, owner: str | None) -> None:
        """The records of a topic that has an owner from now on, or none."""
        topic_id = acl_id(1_000 + self.first_offset + len(self.log))
        config = {"resource_type": "TOPIC", "resource_name": topic, "name": "owner", "value": owner}
        first: tuple[int, str, dict[str, Any]] = (9, "RemoveTopicRecord", {"topic_id": topic_id})
        if owner is not None:
            first = 2, "TopicRecord", {"name": topic, "topic_id": topic_id}
        self.forward("IncrementalAlterConfigs", [first, (4, "ConfigRecord", config)])
        self.owners.pop(topic, None)
        if owner is not None:
            self.owners[topic] = owner

    def sweep_tokens(self, *token_ids: str) -> Record:
        """The controller removes tokens that have expired, without being asked."""
        body = [(26, "RemoveDelegationTokenRecord", {"token_id": token_id}) for token_id in token_ids]
        first, last = self._commit(body)
        return self.controller.write(
            "tokens_expired",
            method="ExpireDelegationToken",
            count=len(token_ids),
            first_offset=first,
            last_offset=last,
        )

    def writes_again(self, *changes: tuple[int, str, dict[str, Any]]) -> Record:
        """The controller writes records again that change nothing."""
        first, last = self._commit(changes)
        return self.controller.write(
            "log_written_again",
            method="MetadataLog",
            count=len(changes),
            first_offset=first,
            last_offset=last,
        )

    def ask(self, text: str, proxy: Process | None = None, **fields: Any) -> Record:
        """`User:alice 10.0.0.1 WRITE TOPIC payments`, decided by the oracle and recorded."""
        principal, host, operation, resource_type, *name = text.split()
        asked = name[0] if name else None
        groups = tuple(fields.pop("groups", ()))
        question = Question(principal, host, resource_type, asked, operation, groups)
        proxy = proxy or self.proxy
        super_users = [user.strip() for user in proxy.settings["super.users"].split(";")]
        everyone = proxy.settings["allow.everyone.if.no.acl.found"] == "true"
        answer = decide(question, list(self.acls.values()), super_users, everyone, self.owners)
        return proxy.decided(question, answer, self.offset, **fields)

    def stop(self) -> "Trail":
        for process in self.processes:
            process.stop()
        return self

    def _commit(self, changes: Sequence[tuple[int, str, dict[str, Any]]]) -> tuple[int, int]:
        # A transaction ends with a marker, which takes an offset of its own.
        first = self.offset + 2 if self.log else self.first_offset
        for offset, (api_key, name, body) in enumerate(changes, first):
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            self.log.append(
                {
                    "offset": offset,
                    "time_ms": self.clock(),
                    "api_key": api_key,
                    "record": name,
                    "version": 0,
                    "body": text,
                    "entity": body.get("id", ""),
                }
            )
        return first, first + len(changes) - 1
