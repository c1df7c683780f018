"""Opens connections to the broker for clients: plain or TLS, logged in as the proxy or the user.

proxy.net.clients.listener opens one when a session first has bytes for the broker. proxy.net.kafka.channel
logs in; then the transport gets another protocol, the relay's.
"""

import asyncio

from proxy.net.clients.connection import Connection, Upstream
from proxy.net.kafka.channel import (
    OWN_SOFTWARE,
    SASL_AUTHENTICATE_VERSION,
    Channel,
    EndpointSettings,
    SaslLogin,
    connect_to,
    not_in_time,
    sasl_client,
)
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.wire.api_keys import ApiKey


async def connect(
    endpoint: EndpointSettings, software: tuple[str, str] | None, connection: Connection, upstream: Upstream
) -> None:
    """Connect, name the client's software and log in, then call `connection.upstream_ready`. ChannelError.

    Without a login, and without the name of any software, nothing is sent before the client's requests.
    """
    if endpoint.sasl is not None or software is not None:
        channel = await Channel.open(endpoint, software or OWN_SOFTWARE)
        upstream.session_lifetime_ms = channel.session_lifetime_ms
        if endpoint.sasl is not None:
            upstream.authenticate_version = channel.version(
                ApiKey.SASL_AUTHENTICATE, (0, SASL_AUTHENTICATE_VERSION)
            )
        transport = channel.detach()
        # The loop chooses how to read when reading starts: a BufferedProtocol is set while it is paused.
        transport.pause_reading()
        transport.set_protocol(upstream)
        upstream.connection_made(transport)
        transport.resume_reading()
    else:
        limit_ms = endpoint.request_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await connect_to(endpoint, lambda: upstream)
        except TimeoutError:
            raise not_in_time(endpoint, limit_ms) from None
    connection.upstream_ready(upstream)


async def next_login(login: SaslLogin, upstream: Upstream) -> UpstreamLogin:
    """Return the login that renews an open connection's session. ChannelError without a credential."""
    return UpstreamLogin(login.mechanism, await sasl_client(login), upstream.authenticate_version)
