"""GetTelemetrySubscriptions and PushTelemetry (KIP-714): no right is needed, as at a broker.

They are forwarded unchanged. A broker advertises them only if it has a receiver for clients' metrics.
"""

from proxy.admin.rejection import code_only
from proxy.session.call import Api, Call, Forward, Verdict
from proxy.wire.api_keys import ApiKey
from proxy.wire.message import Message


def decide(_call: Call, _request: Message) -> Verdict:
    """Decide a telemetry request: forward it."""
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
