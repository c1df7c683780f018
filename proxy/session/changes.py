"""A forwarded request and the controller's answer -> the records that Kafka's own controller writes for it.

Asked by proxy.session.forwarding where the controller does not tell where in its log a change is
(`controller.mode: kraft`), for the audit: reconciliation looks for these changes in the log
(spark_audit.reconcile.kraft_claims). A change is the name of a record, then what is in it in a fixed order,
as far as it is known: a shorter one stands for every record that begins so. Secrets are in none. Without an
answer it is all that was asked for.
"""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.work import paced, spend

MAX_BYTES = 262_144
"""A request that changes more is told by the kinds of its records: a topic takes no line of megabytes."""

_CHANGE_UNITS = 4
"""What one change costs here, in the units of proxy.wire.work."""

Change = tuple[str | None, ...]
SET, DELETE = 0, 1
TOPIC = "TOPIC"
CONFIG_TYPES = {2: TOPIC, 4: "BROKER", 16: "CLIENT_METRICS", 32: "GROUP"}
"""The resources whose configs are in the log; levels of loggers are not."""
SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def changes_of(api_key: int, request: Any, response: Any) -> tuple[Change, ...]:
    """In the order asked for; `response` None: nobody knows what came of it."""
    tell = _TELL.get(api_key)
    if tell is None or getattr(request, "validate_only", False):
        return ()
    changes: list[Change] = []
    kinds: dict[Change, None] = {}
    size_bytes = 0
    for change in tell(request, response):
        spend(_CHANGE_UNITS)
        kinds[change[:1]] = None
        if size_bytes <= MAX_BYTES:
            changes.append(change)
            size_bytes += len(json.dumps(change)) + len(", ")
    return tuple(changes) if size_bytes <= MAX_BYTES else tuple(kinds)


def _create_acls(request: Any, response: Any) -> Iterator[Change]:
    done = [True] * len(request.creations) if response is None else [_ok(r) for r in paced(response.results)]
    for acl, created in zip(paced(request.creations), done, strict=True):
        if created:
            yield "AccessControlEntryRecord", *_acl(acl, acl.resource_pattern_type)


def _delete_acls(request: Any, response: Any) -> Iterator[Change]:
    if response is None:
        yield ("RemoveAccessControlEntryRecord",)
        return
    # Two filters may find the same ACL, which is removed once.
    found = [
        acl for result in paced(response.filter_results) for acl in paced(result.matching_acls) if _ok(acl)
    ]
    for fields in dict.fromkeys(_acl(acl, acl.pattern_type) for acl in paced(found)):
        yield "RemoveAccessControlEntryRecord", *fields


def _acl(acl: Any, pattern_type: int) -> Change:
    return (
        ResourceType(acl.resource_type).name,
        PatternType(pattern_type).name,
        acl.resource_name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
        PermissionType(acl.permission_type).name,
    )


def _quotas(request: Any, response: Any) -> Iterator[Change]:
    refused = _refused(response, "entries", _entity)
    for entry in paced(request.entries):
        entity = _entity(entry)
        # Of a key that is named twice the last value counts.
        for key, op in {op.key: op for op in paced(entry.ops)}.items():
            if entity not in refused:
                yield "ClientQuotaRecord", key, *entity, None if op.remove else repr(float(op.value))


def _entity(entry: Any) -> tuple[str, ...]:
    """`client-id=x`, or the type alone for the default."""
    return tuple(
        sorted(
            part.entity_type if part.entity_name is None else f"{part.entity_type}={part.entity_name}"
            for part in entry.entity
        )
    )


def _scram(request: Any, response: Any) -> Iterator[Change]:
    refused = _refused(response, "results", lambda result: result.user)
    for gone in paced(request.deletions):
        if gone.name not in refused:
            yield "RemoveUserScramCredentialRecord", gone.name, SCRAM_MECHANISMS.get(gone.mechanism)
    for new in paced(request.upsertions):
        if new.name not in refused:
            mechanism = SCRAM_MECHANISMS.get(new.mechanism)
            yield "UserScramCredentialRecord", new.name, mechanism, str(new.iterations)


def _create_token(request: Any, response: Any) -> Iterator[Change]:
    if response is None:
        yield ("DelegationTokenRecord",)
    elif _ok(response):
        yield "DelegationTokenRecord", str(response.expiry_timestamp_ms), response.token_id


def _renew_token(request: Any, response: Any) -> Iterator[Change]:
    if response is None:
        yield ("DelegationTokenRecord",)
    elif _ok(response):
        yield "DelegationTokenRecord", str(response.expiry_timestamp_ms)


def _expire_token(request: Any, response: Any) -> Iterator[Change]:
    # At once, or a time given to it; which token it is the request says by its HMAC only.
    if request.expiry_time_period_ms >= 0:
        yield from _renew_token(request, response)
    elif response is None or _ok(response):
        yield ("RemoveDelegationTokenRecord",)


def _create_topics(request: Any, response: Any) -> Iterator[Change]:
    refused = _refused(response, "topics", lambda topic: topic.name)
    ids = {} if response is None else {topic.name: _uuid(topic.topic_id) for topic in paced(response.topics)}
    for topic in paced(request.topics):
        if topic.name not in refused:
            yield "TopicRecord", topic.name, *ids.get(topic.name, ())
            for config in paced(topic.configs):
                yield "ConfigRecord", TOPIC, topic.name, config.name, config.value
            yield "PartitionRecord", topic.name


def _delete_topics(request: Any, response: Any) -> Iterator[Change]:
    if response is None:
        yield from (("RemoveTopicRecord", name) for name in request.topic_names)
        yield from (("RemoveTopicRecord", topic.name)[: 1 + bool(topic.name)] for topic in request.topics)
        return
    for topic in paced(response.responses):
        if _ok(topic):
            yield ("RemoveTopicRecord", topic.name)[: 1 + bool(topic.name)]


def _create_partitions(request: Any, response: Any) -> Iterator[Change]:
    refused = _refused(response, "results", lambda result: result.name)
    yield from (
        ("PartitionRecord", topic.name) for topic in paced(request.topics) if topic.name not in refused
    )


def _incremental_alter_configs(request: Any, response: Any) -> Iterator[Change]:
    for type_name, resource in _config_resources(request, response):
        for config in paced(resource.configs):
            place = ("ConfigRecord", type_name, resource.resource_name, config.name)
            if type_name == TOPIC and config.config_operation in (SET, DELETE):
                yield *place, config.value if config.config_operation == SET else None
            else:
                # What it comes to with what was there before is not known here; others may be secrets.
                yield place


def _alter_configs(request: Any, response: Any) -> Iterator[Change]:
    for type_name, resource in _config_resources(request, response):
        # Whatever is not named is removed.
        yield "ConfigRecord", type_name, resource.resource_name


def _config_resources(request: Any, response: Any) -> Iterator[tuple[str, Any]]:
    refused = _refused(response, "responses", lambda part: (part.resource_type, part.resource_name))
    for resource in paced(request.resources):
        type_name = CONFIG_TYPES.get(resource.resource_type)
        if type_name is not None and (resource.resource_type, resource.resource_name) not in refused:
            yield type_name, resource


def _update_features(request: Any, response: Any) -> Iterator[Change]:
    if response is not None and not _ok(response):
        return
    refused = _refused(response, "results", lambda result: result.feature)
    for update in paced(request.feature_updates):
        if update.feature not in refused:
            yield "FeatureLevelRecord", update.feature, str(update.max_version_level)


def _reassign(request: Any, response: Any) -> Iterator[Change]:
    if response is not None and not _ok(response):
        return
    for topic in paced(request.topics):
        for partition in paced(topic.partitions):
            yield "PartitionChangeRecord", topic.name, str(partition.partition_index)


def _refused(response: Any, parts: str, identity: Callable[[Any], Any]) -> set[Any]:
    """Who of the parts of an answer was refused."""
    answered: Sequence[Any] = () if response is None else getattr(response, parts, ())
    return {identity(part) for part in paced(answered) if not _ok(part)}


def _ok(part: Any) -> bool:
    return bool(part.error_code == ErrorCode.NONE)


def _uuid(topic_id: Any) -> Sequence[str]:
    raw = bytes(topic_id or b"")
    return (base64.urlsafe_b64encode(raw).decode().rstrip("="),) if any(raw) else ()


_TELL: dict[int, Callable[[Any, Any], Iterator[Change]]] = {
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _scram,
    ApiKey.CREATE_DELEGATION_TOKEN: _create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: _renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _expire_token,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
}
"""All that is forwarded but ElectLeaders: leaders change without anybody's asking all the time."""
