"""AlterPartitionReassignments and ElectLeaders: sent to a broker without Penstock's own topics (0108)."""

from __future__ import annotations

from collections.abc import Callable

from forwarding.controller.api import ControllerApi, ControllerOutcome, Decision, DecisionInputs, SendToBroker
from proxy.admin.rejection import TopicShape, denied_alone
from proxy.admin.replicas import ELECTIONS, REASSIGNMENTS, take_own_topics_out
from proxy.metadata.acl import ResourceType
from proxy.security.protected import protected_names
from proxy.session.apis.table import rejection
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

NAME_THE_TOPICS = "The topics have to be named: Penstock's own are not among those that clients may change."


def _decide(key: ApiKey, shape: TopicShape) -> Callable[[DecisionInputs[Message]], Decision]:
    def decide(inputs: DecisionInputs[Message]) -> Decision:
        request, authorization = inputs.request, inputs.authorization
        own = protected_names(authorization.configured_authorizer(), ResourceType.TOPIC)
        if getattr(request, shape.request_topics) is None and own:
            # Proxies name the topics. A broker would elect leaders in all partitions.
            return ControllerOutcome(
                (),
                rejection(
                    key, authorization.api_version, request, ErrorCode.INVALID_REQUEST, NAME_THE_TOPICS
                ),
            )
        merge = take_own_topics_out(authorization, request, shape)
        if merge is None:
            return SendToBroker(request, lambda response: response)
        if not shape.topics(request):
            return ControllerOutcome((), denied_alone(shape, merge))

        def merged(response: Message) -> Message:
            merge(response)
            return response

        return SendToBroker(request, merged)

    return decide


CONTROLLER_APIS = tuple(
    ControllerApi(key=key, decide=_decide(key, shape), to_broker=True)
    for key, shape in (
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, REASSIGNMENTS),
        (ApiKey.ELECT_LEADERS, ELECTIONS),
    )
)
