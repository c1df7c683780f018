"""DescribeTransactions and ListTransactions (KIP-664): DESCRIBE on each transactional id.

Asked for by id, denied ones are TRANSACTIONAL_ID_AUTHORIZATION_FAILED; in a list they are left out, and so
are, in the description of a transaction, topics that the client may not DESCRIBE.
"""

from typing import Any

from proxy.metadata.acl import Operation, ResourceType
from proxy.session.apis.api import Api
from proxy.session.apis.order import in_request_order
from proxy.session.call import Answer, Call, Forward, Verdict
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def decide_describe(call: Call, request: Any) -> Verdict:
    """DescribeTransactions."""
    asked = request.transactional_ids
    allowed = call.allowed_names(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, asked)
    state = types.DescribeTransactionsResponse.TransactionState
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    refused = [state(transactional_id=name, error_code=code) for name in asked if name not in allowed]
    if refused and not allowed:
        return Answer(types.DescribeTransactionsResponse(transaction_states=refused))

    def on_reply(response: Any) -> None:
        _hide_topics(call, response.transaction_states)
        parts = [*response.transaction_states, *refused]
        response.transaction_states = in_request_order(asked, parts, lambda part: part.transactional_id)

    if not refused:
        return Forward(None, on_reply)
    left = [name for name in asked if name in allowed]
    return Forward(types.DescribeTransactionsRequest(transactional_ids=left), on_reply)


def decide_list(call: Call, request: Any) -> Verdict:
    """ListTransactions."""

    def on_reply(response: Any) -> None:
        states = response.transaction_states
        ids = [state.transactional_id for state in states]
        shown = call.shows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids)
        response.transaction_states = [state for state in states if state.transactional_id in shown]

    return Forward(None, on_reply)


def _hide_topics(call: Call, states: list[Any]) -> None:
    names = [topic.topic for state in states for topic in state.topics]
    shown = call.shows(Operation.DESCRIBE, ResourceType.TOPIC, names)
    for state in states:
        state.topics = [topic for topic in state.topics if topic.topic in shown]


APIS = (
    Api(ApiKey.DESCRIBE_TRANSACTIONS, decide_describe),
    Api(ApiKey.LIST_TRANSACTIONS, decide_list),
)
