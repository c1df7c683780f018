"""Opens connections to the broker for clients: plain or TLS, logged in as the proxy or the user.

proxy.net.clients.listener opens one when a session first has bytes for the broker. proxy.net.kafka.channel
logs in; then the transport gets another protocol, the relay's.
"""

import asyncio

from proxy.net.clients.connection import Connection, Upstream
from proxy.net.kafka.channel import (
    SASL_AUTHENTICATE_VERSION,
    Channel,
    ChannelError,
    EndpointSettings,
    SaslLogin,
    sasl_client,
)
from proxy.net.runtime.reachability import TIMED_OUT, reason_of_connecting
from proxy.session.requests.upstream_login import UpstreamLogin
from proxy.wire.api_keys import ApiKey


class UpstreamError(Exception):
    """The broker is unreachable or rejects the login. `reason`: see proxy.net.runtime.reachability."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


async def connect(endpoint: EndpointSettings, connection: Connection, upstream: Upstream) -> None:
    """Connect and log in, then call `connection.upstream_ready`. UpstreamError."""
    loop = asyncio.get_running_loop()
    try:
        if endpoint.sasl is not None:
            await _logged_in(endpoint, upstream)
        else:
            async with asyncio.timeout(endpoint.request_timeout_ms / 1000):
                await loop.create_connection(
                    lambda: upstream,
                    endpoint.host,
                    endpoint.port,
                    ssl=endpoint.ssl,
                    server_hostname=endpoint.host if endpoint.ssl else None,
                )
    except (ChannelError, OSError) as error:
        raise UpstreamError(f"broker {endpoint.address}: {error!r}", _reason(error)) from error
    connection.upstream_ready(upstream)


def _reason(error: ChannelError | OSError) -> str:
    if isinstance(error, ChannelError):
        return error.reason
    # A TimeoutError is an OSError as well.
    return TIMED_OUT if isinstance(error, TimeoutError) else reason_of_connecting(error)


async def next_login(login: SaslLogin, upstream: Upstream) -> UpstreamLogin:
    """Return the login that renews an open connection's session. ChannelError without a credential."""
    return UpstreamLogin(login.mechanism, await sasl_client(login), upstream.authenticate_version)


async def _logged_in(endpoint: EndpointSettings, upstream: Upstream) -> None:
    channel = await Channel.open(endpoint)
    upstream.session_lifetime_ms = channel.session_lifetime_ms
    upstream.authenticate_version = channel.version(ApiKey.SASL_AUTHENTICATE, (0, SASL_AUTHENTICATE_VERSION))
    transport = channel.detach()
    # The loop chooses how to read when reading starts: a BufferedProtocol has to be set while it is paused.
    transport.pause_reading()
    transport.set_protocol(upstream)
    upstream.connection_made(transport)
    transport.resume_reading()
