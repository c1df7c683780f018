"""APIs that need one operation on the cluster and no other right; a denial rejects the whole request.

The rows below name the operation, and whether the controller carries it out (KIP-590). DescribeQuorum has the
addresses of controllers, which clients only print: no proxy stands in front of a controller.
ListConfigResources (KIP-1142) omits Penstock's own topics and groups, which no right on the cluster covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proxy.admin.configs import GROUP, TOPIC
from proxy.admin.objects import Known, Object, Objects, named
from proxy.admin.rejection import code_and_message, code_only, rejected_parts, succeeded
from proxy.metadata.acl import Operation, ResourceType, uuid_text
from proxy.security.protected import protected_names
from proxy.session.call import Api, Call, Change, Forward, Verdict, deny, forward_with_cluster_right
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message


def _forward_with(operation: Operation) -> Callable[[Call, Message], Verdict]:
    def decide(call: Call, request: Message) -> Verdict:
        if not call.allows_cluster(operation):
            return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return Forward()

    return decide


def _list_config_resources(call: Call, request: types.ListConfigResourcesRequest) -> Verdict:
    if not call.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return deny(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    hidden = {
        (number, name)
        for number, kind in ((TOPIC, ResourceType.TOPIC), (GROUP, ResourceType.GROUP))
        for own in (protected_names(call.basis.authorizer, kind),)
        for name in own - call.shows(Operation.DESCRIBE, kind, own)
    }

    def on_response(response: types.ListConfigResourcesResponse) -> None:
        response.config_resources[:] = [
            each
            for each in response.config_resources
            if (each.resource_type, each.resource_name) not in hidden
        ]

    return Forward(None, on_response) if hidden else Forward()


def _updated_features(
    request: types.UpdateFeaturesRequest, response: types.UpdateFeaturesResponse | None
) -> Iterator[Change]:
    if response is not None and not succeeded(response):
        return
    rejected = rejected_parts(response, "results", lambda result: result.feature)
    for update in request.feature_updates:
        if update.feature not in rejected:
            yield "FeatureLevelRecord", update.feature, str(update.max_version_level)


def _updates(
    request: types.UpdateFeaturesRequest, response: types.UpdateFeaturesResponse | None, _known: Known
) -> Iterator[Object]:
    results = {} if response is None else {result.feature: result for result in response.results}
    for update in request.feature_updates:
        # Newer versions report errors at the top only.
        part = results.get(update.feature, response)
        level = update.max_version_level
        yield named("FEATURE", update.feature, "UPDATE", part, new_value=level, upgrade=update.upgrade_type)


def _of_node(kind: str, operation: str, node_id: str) -> Objects:
    """`node_id`: the field of the request that names the node."""

    def objects(request: Message, response: Message | None, _known: Known) -> Iterator[Object]:
        places = [f"{each.name}://{each.host}:{each.port}" for each in getattr(request, "listeners", ())]
        directory = getattr(request, "voter_directory_id", None)
        details = {
            "directory_id": None if directory is None else uuid_text(bytes(directory)),
            "listeners": ",".join(places) or None,
        }
        yield named(kind, str(getattr(request, node_id)), operation, response, **details)

    return objects


APIS = (
    Api(
        ApiKey.UPDATE_FEATURES,
        forward_with_cluster_right,
        code_and_message("UpdateFeaturesResponse"),
        admin="controller",
        cluster_right=Operation.ALTER,
        changes=_updated_features,
        objects=_updates,
    ),
    *(
        Api(key, _forward_with(Operation.ALTER), code_and_message(response), admin="broker", objects=objects)
        for key, response, objects in (
            (
                ApiKey.UNREGISTER_BROKER,
                "UnregisterBrokerResponse",
                _of_node("BROKER", "UNREGISTER", "broker_id"),
            ),
            (
                ApiKey.UNREGISTER_CONTROLLER,
                "UnregisterControllerResponse",
                _of_node("CONTROLLER", "UNREGISTER", "controller_id"),
            ),
            (ApiKey.ADD_RAFT_VOTER, "AddRaftVoterResponse", _of_node("CONTROLLER", "ADD_VOTER", "voter_id")),
            (
                ApiKey.REMOVE_RAFT_VOTER,
                "RemoveRaftVoterResponse",
                _of_node("CONTROLLER", "REMOVE_VOTER", "voter_id"),
            ),
        )
    ),
    Api(
        ApiKey.LIST_CONFIG_RESOURCES,
        _list_config_resources,
        code_only("ListConfigResourcesResponse"),
    ),
    Api(
        ApiKey.DESCRIBE_QUORUM, _forward_with(Operation.DESCRIBE), code_and_message("DescribeQuorumResponse")
    ),
)
