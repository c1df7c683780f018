"""Delegation tokens for logins at the broker as the client's user (KIP-48, KIP-373).

proxy.net.clients.listener requests a login for each broker connection if `upstream.identity` is `user`. The
proxy's own principal creates a delegation token that the user owns. All connections of the user share it; it
is renewed while it is used, and expired when it is not. So the broker's own ACLs, quotas and logs see the
user. The proxy needs CREATE_TOKENS on the users at the broker, and the broker needs
`delegation.token.secret.key`.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import structlog

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, LoginRejected, SaslLogin
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Request

TokenResponse = TypeVar(
    "TokenResponse",
    "types.CreateDelegationTokenResponse",
    "types.RenewDelegationTokenResponse",
    "types.ExpireDelegationTokenResponse",
)

CREATE_VERSIONS = (3, 3)
"""From version 3 on, the owner may differ from the requester (KIP-373)."""
RENEW_VERSIONS = EXPIRE_VERSIONS = (1, 2)
RENEW_BEFORE = 0.5
"""Share of the lifetime that is left when a token is renewed."""
KNOWN_WITHIN_S = 10.0
"""Time limit until a new token works: it reaches the broker's credentials through the metadata log."""
KNOWN_POLL_S = 0.05

log = structlog.get_logger(__name__)


class Identity(Protocol):
    """Provides the proxy's logins at the broker on behalf of clients."""

    async def login(self, principal: Principal) -> SaslLogin | None:
        """Return the login for a connection of this client. ChannelError when there is none."""
        ...

    def replaces(self, principal: Principal, rejected: SaslLogin) -> bool:
        """Whether `login` returns another one now that the broker has rejected this one."""
        ...

    async def run(self) -> None:
        """Run upkeep until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class ProxyIdentity:
    """Logs in as the proxy for every client."""

    own: SaslLogin | None

    async def login(self, principal: Principal) -> SaslLogin | None:
        return self.own

    def replaces(self, principal: Principal, rejected: SaslLogin) -> bool:
        return False

    async def run(self) -> None:
        """Return: there is no upkeep."""


@dataclass(slots=True)
class _Token:
    """One user's token at the broker."""

    token_id: str = ""
    hmac: bytes = field(default=b"", repr=False)
    lifetime_ms: int = 0
    expires_at_ms: int = 0
    max_at_ms: int = 0
    used_at_ms: int = 0
    has_worked: bool = False
    """Whether the broker has accepted it. If not, the next token would be rejected too."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def fresh(self, now_ms: int) -> bool:
        return self.expires_at_ms - now_ms > self.lifetime_ms * RENEW_BEFORE


class UserTokens:
    """The tokens of all users of this proxy."""

    def __init__(
        self, broker: Callable[[], EndpointSettings], mechanism: str, idle_ms: int, now_ms: Callable[[], int]
    ) -> None:
        """`mechanism`: SCRAM-SHA-256 or -512. A token that is unused for `idle_ms` is expired."""
        own = broker().sasl
        if own is None:
            raise ValueError("upstream.identity user needs a login: without one a broker creates no tokens")
        self._broker = broker
        self._own = Principal("User", own.username)
        self._mechanism = mechanism
        self._idle_ms = idle_ms
        self._now_ms = now_ms
        self._tokens: dict[Principal, _Token] = {}
        self._channel: Channel | None = None
        self._channel_lock = asyncio.Lock()

    @property
    def count(self) -> int:
        """Users with a token."""
        return len(self._tokens)

    async def login(self, principal: Principal) -> SaslLogin:
        """Return a login as this user, with a token that is valid for a while."""
        if not principal.name:
            # A broker takes a request without an owner's name for one by the proxy, for itself.
            raise ChannelError(f"{principal} has no name, and so can have no delegation token at the broker")
        token = self._tokens.setdefault(principal, _Token())
        # One connection of the user requests the token, the others wait for it.
        async with token.lock:
            now_ms = token.used_at_ms = self._now_ms()
            if not token.fresh(now_ms) and not await self._renewed(token):
                await self._create(principal, token)
        return self._login_with(token)

    def replaces(self, principal: Principal, rejected: SaslLogin) -> bool:
        """One that has worked is gone at the broker: its owner has expired it, or the key is another one."""
        token = self._tokens.get(principal)
        if token is not None and token.token_id == rejected.username:
            if not token.has_worked:
                return False
            token.expires_at_ms = 0
        return True

    async def run(self) -> None:
        """Expire unused tokens until cancelled, and then all of them."""
        try:
            while True:
                await asyncio.sleep(self._idle_ms / 4_000)
                await self._expire_unused(self._now_ms() - self._idle_ms)
        finally:
            await self._expire_unused(self._now_ms() + 1)
            if self._channel is not None:
                await self._channel.close()

    async def _create(self, principal: Principal, token: _Token) -> None:
        request = types.CreateDelegationTokenRequest
        response = await self._request(
            request(
                owner_principal_type=principal.principal_type,
                owner_principal_name=principal.name,
                # Only the owner and the renewers may renew or expire a token.
                renewers=[
                    request.CreatableRenewers(
                        principal_type=self._own.principal_type, principal_name=self._own.name
                    )
                ],
                max_lifetime_ms=-1,
            ),
            CREATE_VERSIONS,
        )
        token.token_id, token.hmac = response.token_id, bytes(response.hmac)
        token.expires_at_ms, token.max_at_ms = response.expiry_timestamp_ms, response.max_timestamp_ms
        token.lifetime_ms = response.expiry_timestamp_ms - response.issue_timestamp_ms
        token.has_worked = False
        await self._wait_until_known(token)
        token.has_worked = True
        log.info("delegation token created", principal=str(principal), token_id=token.token_id)

    async def _renewed(self, token: _Token) -> bool:
        """Renew a token; return whether it is now valid for a while."""
        now_ms = self._now_ms()
        if not token.hmac or token.expires_at_ms <= now_ms:
            return False
        message = types.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1)
        try:
            response = await self._request(message, RENEW_VERSIONS)
        except ChannelError as error:
            log.warning(
                "Failed to renew delegation token; creating another one",
                token_id=token.token_id,
                error=str(error),
            )
            return False
        token.expires_at_ms = response.expiry_timestamp_ms
        token.lifetime_ms = min(token.lifetime_ms, max(1, token.expires_at_ms - now_ms))
        # Near its maximum lifetime a renewal adds nothing: then a new token is created.
        return token.fresh(now_ms) and token.expires_at_ms < token.max_at_ms

    async def _wait_until_known(self, token: _Token) -> None:
        endpoint = replace(self._broker(), sasl=self._login_with(token))
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + KNOWN_WITHIN_S
        while True:
            try:
                await (await Channel.open(endpoint)).close()
                return
            except LoginRejected:
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(KNOWN_POLL_S)

    def _login_with(self, token: _Token) -> SaslLogin:
        hmac = b64encode(token.hmac).decode()
        return SaslLogin(
            mechanism=self._mechanism, username=token.token_id, password=lambda: hmac, token_auth=True
        )

    async def _expire_unused(self, since_ms: int) -> None:
        for principal, token in list(self._tokens.items()):
            if token.used_at_ms < since_ms and not token.lock.locked():
                del self._tokens[principal]
                await self._expire(principal, token)

    async def _expire(self, principal: Principal, token: _Token) -> None:
        if not token.hmac or token.expires_at_ms <= self._now_ms():
            return
        message = types.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        try:
            await self._request(message, EXPIRE_VERSIONS)
        except ChannelError as error:
            # The token expires later by itself.
            log.warning("Failed to expire delegation token", principal=str(principal), error=str(error))

    async def _request(self, message: Request[TokenResponse], versions: tuple[int, int]) -> TokenResponse:
        async with self._channel_lock:
            if self._channel is None or self._channel.closed:
                self._channel = await Channel.open(self._broker())
            channel = self._channel
        response = await channel.send(message, versions)
        if response.error_code != ErrorCode.NONE:
            name, code = ApiKey.name_of(message.api_key), ErrorCode.name_of(response.error_code)
            raise ChannelError(f"{channel.endpoint.address}: {name} as {self._own}: {code}")
        return response
