"""What a broker offers its clients in ApiVersions, and what a proxy in front of it has to offer."""

from collections.abc import Iterable

from forwarding.versions import common
from proxy.net.kafka.channel import Channel, EndpointSettings
from proxy.session.apis.table import FORWARDED
from proxy.wire import codecs
from proxy.wire import types as t
from proxy.wire.api_keys import ApiKey

Told = tuple[dict[int, tuple[int, int]], dict[str, tuple[int, int]], dict[str, tuple[int, int]]]

BROKERS_OWN = {
    4,  # LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown went with ZooKeeper.
    5,
    6,
    7,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
"""Between the brokers of a cluster; they need CLUSTER_ACTION."""

CONTROLLERS = {
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""What no broker gets: Penstock does it, whatever the broker's release."""


async def told(endpoint: EndpointSettings) -> Told:
    """APIs with their versions, supported features and finalized features."""
    async with await Channel.open(endpoint) as channel:
        request = t.ApiVersionsRequest(client_software_name="test", client_software_version="1")
        version = channel.version(ApiKey.API_VERSIONS, (0, 4))
        answer = await channel.request(ApiKey.API_VERSIONS, version, request)
        return (
            {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys},
            {each.name: (each.min_version, each.max_version) for each in answer.supported_features},
            {
                each.name: (each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
            },
        )


def expected(behind: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int] | None]:
    """The APIs and versions in front of a broker that offers these."""
    return {
        key: common(versions, own_versions(key))
        for key, versions in (behind | {key: own_versions(key) for key in CONTROLLERS}).items()
        if key not in BROKERS_OWN
    }


SENT_BY_THE_CONTROLLER = FORWARDED.difference(CONTROLLERS)
"""What Penstock's controller sends to the broker that it is connected to (docs/decisions/0079)."""


def wrongly_offered(
    offered: dict[int, tuple[int, int]],
    behind: dict[int, tuple[int, int]],
    of_all: Iterable[dict[int, tuple[int, int]]],
) -> list[str]:
    """What a proxy in front of this broker should not offer, or not so, where `of_all` are the cluster's."""
    right = {key: {versions} for key, versions in expected(behind).items()}
    for other in map(expected, of_all):
        for key in SENT_BY_THE_CONTROLLER & other.keys():
            right.setdefault(key, set()).add(other[key])
    return [
        f"{ApiKey.name_of(key)} {offered.get(key)}, not {sorted(map(str, right.get(key, ())))}"
        for key in sorted(offered.keys() | expected(behind).keys())
        if offered.get(key) not in right.get(key, ())
    ]


def own_versions(key: int) -> tuple[int, int]:
    """Those of the message definitions; Produce is advertised from v0 on (KAFKA-18659)."""
    versions = codecs.request_versions(key)
    return 0 if key == ApiKey.PRODUCE else versions[0], versions[-1]
