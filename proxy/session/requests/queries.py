"""Requests of the proxy's own to the broker, on the client's connection; the client never sees the responses.

While the broker has one, no further request of the client is taken, so it is the last in flight, and whatever
waits for its response continues before anything else happens.
"""

from collections.abc import Callable
from typing import Any

from proxy.session.effects import ToBroker
from proxy.session.in_flight import BrokerQuery
from proxy.session.plan import Plan
from proxy.wire import codecs
from proxy.wire.header import encode_request

CORRELATION_ID = -590
"""The correlation id of all queries. Clients may use it too: responses are matched by order alone."""
CLIENT_ID = "penstock"


def broker_query(api_key: int, version: int, request: Any, then: Callable[[Any], Plan]) -> Plan:
    """Send a request behind those in flight; `then` gets the decoded response, and returns what happens
    next."""
    body = codecs.request(api_key, version).encode(request)
    return [
        BrokerQuery(api_key, version, CORRELATION_ID, then=then),
        ToBroker(encode_request(api_key, version, CORRELATION_ID, CLIENT_ID, body)),
    ]
