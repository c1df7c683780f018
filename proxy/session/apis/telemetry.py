"""GetTelemetrySubscriptions and PushTelemetry (KIP-714): no right is needed, at a broker neither.

They pass as they come. A broker offers them only where it has somewhere to put a client's metrics.
"""

from proxy.admin.rejection import code_only
from proxy.session.call import Api, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.message import Message


def decide(_call: Call, _request: Message) -> Verdict:
    """See the module."""
    return Forward()


APIS = (
    Api(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        decide,
        code_only("GetTelemetrySubscriptionsResponse"),
        repeatable=True,
    ),
    Api(ApiKey.PUSH_TELEMETRY, decide, code_only("PushTelemetryResponse"), repeatable=True),
)
