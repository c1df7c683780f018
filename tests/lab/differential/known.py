"""Differences that docs/differences.md explains: by the row that does, and how one is known.

A difference that no line here knows fails the run. A line is as narrow as it can be: the API, the field and
what either side says.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxy.admin.configs import BROKER, GROUP
from proxy.metadata.acl import Operation
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.release import Feature, Release
from tests.lab.differential.comparing import ABSENT, Difference

FIRST_WITH_LEADERS = 16
"""The first version of Fetch whose responses may have the address of a leader (KIP-951)."""


@dataclass(frozen=True, slots=True)
class Known:
    """One row of docs/differences.md."""

    row: str
    """What its first column has, up to its examples in brackets."""
    api: str
    is_one: Callable[[Difference, Any], bool]
    """Given the difference and the step at which it came up."""
    older: bool = False
    """Only at brokers without the consumer groups of KIP-848."""


_DENIALS = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
)


def _fault_before_right(difference: Difference, _step: Any) -> bool:
    faults = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_SERVER_ERROR)
    return any(_codes(difference, fault, denial) for fault in faults for denial in _DENIALS)


def _config_of_a_broker(difference: Difference, _step: Any) -> bool:
    at_a_broker = difference.path.startswith(f"responses.{BROKER}/")
    faults = (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
    return at_a_broker and any(_codes(difference, each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in faults)


def _disabled_protocol(difference: Difference, _step: Any) -> bool:
    return any(_codes(difference, ErrorCode.UNSUPPORTED_VERSION, denial) for denial in _DENIALS)


def _config_of_a_group(difference: Difference, step: Any) -> bool:
    """The broker rejects the resource, or all of the request."""
    named = any(resource.resource_type == GROUP for resource in step.message.resources)
    at_a_code = difference.path.endswith("error_code")
    return named and difference.broker == (ErrorCode.INVALID_REQUEST if at_a_code else ABSENT)


def _leader_in_fetch(difference: Difference, step: Any) -> bool:
    if step.version < FIRST_WITH_LEADERS:
        return False
    return "node_endpoints" in difference.path or _no_leader(difference, step)


def _invalid_acknowledgement(difference: Difference, _step: Any) -> bool:
    return _codes(difference, ErrorCode.INVALID_REQUEST, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _opens_with_unknown_topics(difference: Difference, step: Any) -> bool:
    opens = step.message.share_session_epoch == 0 and bool(step.message.topics)
    fails = difference.path == "error_code" and difference.broker == ErrorCode.UNKNOWN_SERVER_ERROR
    rest = difference.path == "acquisition_lock_timeout_ms" or difference.broker == ABSENT
    return opens and (fails or rest) and difference.proxy not in _DENIALS


def _newer_operation(difference: Difference, step: Any) -> bool:
    """An ACL that the broker does not store, or a right that its release does not have."""
    if "operations" in difference.path:
        bits = difference.broker, difference.proxy
        return all(isinstance(each, int) for each in bits) and bits[0] | _ON_CONFIGS == bits[1] | _ON_CONFIGS
    if difference.broker == ABSENT and isinstance(difference.proxy, dict):
        return all(acl["operation"] == Operation.TWO_PHASE_COMMIT for acl in difference.proxy["acls"])
    if isinstance(difference.proxy, list) and isinstance(difference.broker, list):
        newer = [acl for acl in difference.proxy if acl["operation"] == Operation.TWO_PHASE_COMMIT]
        return bool(newer) and [acl for acl in difference.proxy if acl not in newer] == difference.broker
    named = any(acl.operation == Operation.TWO_PHASE_COMMIT for acl in getattr(step.message, "creations", ()))
    return named and _codes(difference, ErrorCode.INVALID_REQUEST, ErrorCode.NONE)


_ON_CONFIGS = 1 << Operation.DESCRIBE_CONFIGS | 1 << Operation.ALTER_CONFIGS


def _lost_credential(difference: Difference, _step: Any) -> bool:
    return "credential_infos" in difference.path or _codes(
        difference, ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.NONE
    )


def _zero_id(difference: Difference, step: Any) -> bool:
    by_zero = any(not topic.topic and not any(topic.topic_id) for topic in step.message.topics)
    return by_zero and (difference.path == "error_code" or difference.broker == ABSENT)


def _for_filters(difference: Difference, step: Any) -> bool:
    return len(step.message.creations) == 1 and _codes(
        difference, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST
    )


def _id_of_a_denied_topic(difference: Difference, _step: Any) -> bool:
    return difference.path.endswith("topic_id") and difference.proxy == "no id"


def _nothing_named(difference: Difference, step: Any) -> bool:
    nameless = any(topic.name is None and not any(topic.topic_id) for topic in step.message.topics or ())
    return nameless and _codes(difference, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST)


def _among_brokers(difference: Difference, _step: Any) -> bool:
    key = difference.path.rpartition("api_keys.")[2]
    return difference.proxy == ABSENT and key in ("83", "84", "85", "86", "87")


def _own_versions(difference: Difference, _step: Any) -> bool:
    return difference.path.endswith("api_keys.18.max_version") and difference.broker < difference.proxy


def _versions_of_old_clients(difference: Difference, _step: Any) -> bool:
    return difference.path.endswith("min_version") and difference.broker < difference.proxy


def _starred(_difference: Difference, step: Any) -> bool:
    return "'*g-" in repr(step.message)


def _internal_topics(difference: Difference, _step: Any) -> bool:
    return difference.path == "error_code" and difference.proxy == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _twice(difference: Difference, step: Any) -> bool:
    named = [(resource.resource_type, resource.resource_name) for resource in step.message.resources]
    told = difference.broker == "silent" or isinstance(difference.broker, list)
    return told and len(set(named)) < len(named)


def _no_session(difference: Difference, _step: Any) -> bool:
    return difference.path == "session_id" and difference.proxy == "not set"


def _never_answered(difference: Difference, step: Any) -> bool:
    return difference.broker == "silent" and not step.message.users


def _nobody(difference: Difference, step: Any) -> bool:
    nobody = step.message.group_id is None or step.message.member_id is None
    fails = difference.broker == ErrorCode.UNKNOWN_SERVER_ERROR and difference.proxy != ErrorCode.NONE
    return nobody and fails and difference.path == "error_code"


def _no_leader(difference: Difference, _step: Any) -> bool:
    return difference.path.endswith("current_leader.leader_id") and difference.proxy == -1


def _coordinators_topics(difference: Difference, step: Any) -> bool:
    """Written to, or told that it may be."""
    if difference.path.endswith("topic_authorized_operations"):
        told = difference.broker, difference.proxy
        return all(isinstance(bits, int) for bits in told) and told[0] - told[1] == 1 << Operation.WRITE
    named = "__consumer_offsets" in repr(step.message) or "__transaction_state" in repr(step.message)
    # Partitions that do not exist are unknown there; a number of acks that is none comes first.
    codes = (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUIRED_ACKS,
    )
    return named and any(_codes(difference, code, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for code in codes)


def _all_partitions(difference: Difference, step: Any) -> bool:
    """In an Envelope; a proxy names the topics."""
    unelected = difference.proxy == ABSENT and not difference.broker["partition_result"]
    rejected = _codes(difference, ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    return step.message.topic_partitions is None and (rejected or unelected)


def _codes(difference: Difference, broker: ErrorCode, proxy: ErrorCode) -> bool:
    at_a_code = difference.path.endswith("error_code")
    return at_a_code and (difference.broker, difference.proxy) == (broker, proxy)


KNOWN = (
    Known("An ACL on `*`, and a resource whose name begins with `*`", "*", _starred),
    Known("A request that is invalid and denied", "IncrementalAlterConfigs", _fault_before_right),
    *(
        Known("A change of configs that fails as a whole at the controller", api, _config_of_a_broker)
        for api in ("AlterConfigs", "IncrementalAlterConfigs")
    ),
    Known("A request that is invalid and denied", "ShareFetch", _invalid_acknowledgement),
    Known("A request that is invalid and denied", "ShareAcknowledge", _invalid_acknowledgement),
    *(
        Known("A request that is invalid and denied", api, _disabled_protocol, older=True)
        for api in ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
    ),
    *(
        Known("A request that is invalid and denied", api, _config_of_a_group, older=True)
        for api in ("AlterConfigs", "DescribeConfigs")
    ),
    *(
        Known("Operations that came after the broker's release", api, _newer_operation, older=True)
        for api in ("CreateAcls", "DescribeAcls", "DescribeGroups", "ConsumerGroupDescribe")
    ),
    Known(
        "A SCRAM credential that is added when the only other one of its mechanism is deleted",
        "DescribeUserScramCredentials",
        _lost_credential,
        older=True,
    ),
    Known("Requests to which Kafka does not always respond", "AlterConfigs", _twice),
    Known("Requests to which Kafka does not always respond", "IncrementalAlterConfigs", _twice),
    *(
        Known("WRITE on `__consumer_offsets` and `__transaction_state`", api, _coordinators_topics)
        for api in ("Produce", "Metadata", "DescribeTopicPartitions")
    ),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "Fetch", _zero_id),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "CreateAcls", _for_filters),
    Known("Fetch with denied topics", "Fetch", _no_session),
    Known("Leader addresses in Fetch responses", "Fetch", _leader_in_fetch),
    Known(
        "Requests to which Kafka does not always respond",
        "DescribeUserScramCredentials",
        _never_answered,
    ),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "Metadata", _nothing_named),
    Known("APIs of share coordinators (keys 83 to 87)", "ApiVersions", _among_brokers),
    Known("Versions of ApiVersions", "ApiVersions", _own_versions),
    Known("Versions that Kafka 4.0 removed (KIP-896)", "ApiVersions", _versions_of_old_clients),
    Known(
        "An internal topic of a Streams group that is missing, without CREATE",
        "StreamsGroupHeartbeat",
        _internal_topics,
    ),
    Known("ElectLeaders for all partitions", "ElectLeaders", _all_partitions),
    Known("AlterShareGroupOffsets of a denied topic", "AlterShareGroupOffsets", _id_of_a_denied_topic),
    *(
        Known("The leader of a denied partition of a share group", api, _no_leader)
        for api in ("ShareFetch", "ShareAcknowledge")
    ),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "ShareFetch", _nobody),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "ShareFetch", _opens_with_unknown_topics),
    Known("Requests that fail with UNKNOWN_SERVER_ERROR", "ShareAcknowledge", _nobody),
)


BEHIND_NO_RESPONSE = "Requests sent behind a Produce with `acks=0` that fails at the broker"
"""Explains a request of a pipeline with a response through the proxy only; `Run` knows what is before it."""


def row_of(api: str, difference: Difference, step: Any) -> str | None:
    """The row that explains it; None: nothing does."""
    older = not Release.chosen().has(Feature.CONSUMER_GROUPS)
    lines = (k for k in KNOWN if k.api in (api, "*") and (older or not k.older))
    return next((k.row for k in lines if k.is_one(difference, step)), None)
