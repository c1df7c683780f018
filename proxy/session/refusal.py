"""The answer that gives every part of a request the same error, one line for each forwardable API.

For requests denied as a whole, and for what goes wrong before anything was decided. The parts come in
the order of the request.
"""

from collections.abc import Callable
from typing import Any

from proxy.wire import types
from proxy.wire.api_keys import ApiKey


def refuse(api_key: int, request: Any, error_code: int, message: str | None = None) -> Any:
    """The response to `request` in which everything failed with `error_code`."""
    return _REFUSALS[ApiKey(api_key)](request, {"error_code": error_code, "error_message": message})


Error = dict[str, Any]


def _create_topics(request: Any, error: Error) -> Any:
    results = types.CreateTopicsResponse.CreatableTopicResult
    return types.CreateTopicsResponse(topics=[results(name=topic.name, **error) for topic in request.topics])


def _delete_topics(request: Any, error: Error) -> Any:
    result = types.DeleteTopicsResponse.DeletableTopicResult
    named = [result(name=name, **error) for name in request.topic_names]
    return types.DeleteTopicsResponse(
        responses=named
        + [result(name=topic.name, topic_id=topic.topic_id, **error) for topic in request.topics]
    )


def _create_partitions(request: Any, error: Error) -> Any:
    result = types.CreatePartitionsResponse.CreatePartitionsTopicResult
    return types.CreatePartitionsResponse(
        results=[result(name=topic.name, **error) for topic in request.topics]
    )


def _create_acls(request: Any, error: Error) -> Any:
    result = types.CreateAclsResponse.AclCreationResult
    return types.CreateAclsResponse(results=[result(**error) for _ in request.creations])


def _delete_acls(request: Any, error: Error) -> Any:
    result = types.DeleteAclsResponse.DeleteAclsFilterResult
    return types.DeleteAclsResponse(filter_results=[result(**error) for _ in request.filters])


def _alter_configs(request: Any, error: Error) -> Any:
    result = types.AlterConfigsResponse.AlterConfigsResourceResponse
    return types.AlterConfigsResponse(
        responses=[
            result(resource_type=resource.resource_type, resource_name=resource.resource_name, **error)
            for resource in request.resources
        ]
    )


def _incremental_alter_configs(request: Any, error: Error) -> Any:
    result = types.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    return types.IncrementalAlterConfigsResponse(
        responses=[
            result(resource_type=resource.resource_type, resource_name=resource.resource_name, **error)
            for resource in request.resources
        ]
    )


def _alter_client_quotas(request: Any, error: Error) -> Any:
    response = types.AlterClientQuotasResponse
    return response(
        entries=[
            response.EntryData(
                entity=[
                    response.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
                **error,
            )
            for entry in request.entries
        ]
    )


def _alter_user_scram_credentials(request: Any, error: Error) -> Any:
    response = types.AlterUserScramCredentialsResponse
    users = dict.fromkeys(alteration.name for alteration in [*request.deletions, *request.upsertions])
    return response(results=[response.AlterUserScramCredentialsResult(user=user, **error) for user in users])


def _error_code_only(name: str) -> Callable[[Any, Error], Any]:
    return lambda _request, error: getattr(types, name)(error_code=error["error_code"])


def _error_code_and_message(name: str) -> Callable[[Any, Error], Any]:
    return lambda _request, error: getattr(types, name)(**error)


_REFUSALS: dict[int, Callable[[Any, Error], Any]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _incremental_alter_configs,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.ELECT_LEADERS: _error_code_only("ElectLeadersResponse"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _error_code_and_message("AlterPartitionReassignmentsResponse"),
    ApiKey.UPDATE_FEATURES: _error_code_and_message("UpdateFeaturesResponse"),
    ApiKey.CREATE_DELEGATION_TOKEN: _error_code_only("CreateDelegationTokenResponse"),
    ApiKey.RENEW_DELEGATION_TOKEN: _error_code_only("RenewDelegationTokenResponse"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _error_code_only("ExpireDelegationTokenResponse"),
}
