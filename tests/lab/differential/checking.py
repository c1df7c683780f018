"""What admin asks after a case, to see whether both sides have changed the same."""

from collections.abc import Iterable, Iterator
from typing import Any

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.differential.naming import Names
from tests.support.acl_filters import describe_acls


def checks(keys: Iterable[ApiKey], names: Names) -> Iterator[tuple[ApiKey, int, Any]]:
    """Api key, version and request of each."""
    for key in keys:
        version, make = _CHECKS[key]
        yield key, version, make(names)


def _metadata(names: Names) -> Any:
    request = types.MetadataRequest
    topics = [request.MetadataRequestTopic(name=name) for name in (*names.own_topics, *names.new_topics)]
    return request(topics=topics, allow_auto_topic_creation=False)


def _configs(names: Names) -> Any:
    request = types.DescribeConfigsRequest
    resource = request.DescribeConfigsResource
    topics = [
        resource(resource_type=2, resource_name=name) for name in (*names.own_topics, *names.new_topics)
    ]
    groups = [resource(resource_type=32, resource_name=name) for name in names.own_groups]
    metrics = [resource(resource_type=16, resource_name=name) for name in names.new_groups]
    resources = [*topics, *groups, *metrics]
    for each in resources:
        each.configuration_keys = None
    return request(resources=resources)


def _offsets(names: Names) -> Any:
    request = types.OffsetFetchRequest
    groups = [
        request.OffsetFetchRequestGroup(group_id=name, topics=None)
        for name in (*names.own_groups, *names.new_groups)
    ]
    return request(groups=groups)


def _groups(_names: Names) -> Any:
    return types.ListGroupsRequest()


def _acls(_names: Names) -> Any:
    return describe_acls()


def _quotas(_names: Names) -> Any:
    component = types.DescribeClientQuotasRequest.ComponentData
    return types.DescribeClientQuotasRequest(
        components=[component(entity_type="user", match_type=2, match=None)], strict=False
    )


def _credentials(names: Names) -> Any:
    user = types.DescribeUserScramCredentialsRequest.UserName
    return types.DescribeUserScramCredentialsRequest(
        users=[user(name=name) for name in (*names.users, "alice")]
    )


_CHECKS = {
    ApiKey.METADATA: (12, _metadata),
    ApiKey.DESCRIBE_CONFIGS: (4, _configs),
    ApiKey.OFFSET_FETCH: (9, _offsets),
    ApiKey.LIST_GROUPS: (4, _groups),
    ApiKey.DESCRIBE_ACLS: (3, _acls),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (1, _quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, _credentials),
}
