"""Administrative requests of a client that bears the principal of a proxy: rejected (KIP-590).

Asked by proxy.session.request. Such a principal may send Envelopes to the controller, which speak for any
user, so it is no client's; its other requests are decided by ACLs like everyone's.
"""

from typing import Any

from proxy.audit.record import AuditEvent
from proxy.session.call import Answer, Call, reject
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode


def answer(call: Call, request: Any) -> Answer | None:
    """The rejection of an administrative request, and its record; None when the principal is no proxy's."""
    principal = str(call.context.principal)
    if principal not in call.gate.proxy_principals:
        return None
    call.events.append(
        AuditEvent(
            event="request_refused",
            method=ApiKey.name_of(call.api_key),
            api_version=call.version,
            correlation_id=call.correlation_id,
            granted=False,
            message=(
                f"{principal} is a principal that proxies have at the controller, and no client may make"
                " administrative requests with it: give this client a user of its own, and change the"
                " proxy's credentials if they were not given to it on purpose"
            ),
        )
    )
    message = "A proxy's principal must not be used by clients for administrative requests."
    return reject(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)
