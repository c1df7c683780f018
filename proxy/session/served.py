"""Which APIs this proxy can treat, in which versions, before the broker and the controller have a say.

Asked when ApiVersions is put together. What is not here is not advertised, and refused (SPEC A7).
"""

from collections.abc import Mapping

from proxy.session.apis.table import FROM_IMAGE, TABLE
from proxy.wire import codecs
from proxy.wire.api_keys import ApiKey

_OWN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
ANSWERED_HERE = FROM_IMAGE.union(_OWN)
"""The broker is not asked for these, so it has no say in their versions."""


def versions(broker: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """API key -> lowest and highest version that we decode and have a rule for."""
    offered = {}
    for api_key in (*_OWN, ApiKey.PRODUCE, ApiKey.FETCH, *TABLE):
        ours = codecs.request_versions(api_key)
        offered[int(api_key)] = (ours.start, ours.stop - 1)
    # Kafka tells produce versions that it no longer takes, for clients that look for them (KAFKA-18659).
    told = broker.get(ApiKey.PRODUCE)
    if told is not None:
        offered[int(ApiKey.PRODUCE)] = (min(told[0], offered[0][0]), offered[0][1])
    return offered
