"""The APIs and versions that this proxy supports, before they are restricted to those of broker and
controller.

ApiVersions is made from them. An API that is not here is not advertised, and rejected (SPEC A7).
"""

from collections.abc import Mapping

from proxy.session.apis.table import FROM_IMAGE, TABLE
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey

_OWN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
HANDLED_HERE = FROM_IMAGE.union(_OWN)
"""The broker never gets these, so its versions do not matter."""


def versions(broker: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version that the proxy decodes and decides on."""
    offered = {}
    for api_key in (*_OWN, ApiKey.PRODUCE, ApiKey.FETCH, *TABLE):
        own = codecs.request_versions(api_key)
        offered[int(api_key)] = (own.start, own.stop - 1)
    # Kafka advertises Produce versions that it no longer supports, for clients that look for them
    # (KAFKA-18659).
    advertised = broker.get(ApiKey.PRODUCE)
    if advertised is not None:
        offered[int(ApiKey.PRODUCE)] = (min(advertised[0], offered[0][0]), offered[0][1])
    return offered
