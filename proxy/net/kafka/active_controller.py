"""The broker that carries out administrative requests.

With KRaft every broker passes them to the quorum. With ZooKeeper only the active controller carries them out,
and the others respond NOT_CONTROLLER. Called before requests that Penstock sends with its own identity.
"""

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings
from proxy.wire import types

LEADER_AND_ISR = 4
"""The key of an API that only brokers with ZooKeeper offer."""
METADATA_VERSIONS = (1, 12)


async def active_controller(channel: Channel) -> EndpointSettings:
    """Return the endpoint for administrative requests. ChannelError if there is no active controller."""
    if LEADER_AND_ISR not in channel.api_versions:
        return channel.endpoint
    response = await channel.send(types.MetadataRequest(topics=[]), METADATA_VERSIONS)
    for node in response.brokers:
        if node.node_id == response.controller_id:
            return channel.endpoint.at(node.host, node.port)
    raise ChannelError(f"{channel.endpoint.address}: the cluster has no active controller")
