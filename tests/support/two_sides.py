"""A cluster with two doors, the broker's own and the proxy's: a change at one is looked for at the other.

Plain requests over Channels, so that little but the two doors takes time.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from proxy.net.kafka.channel import Channel, EndpointSettings, LoginRejected
from proxy.net.runtime.clock import now_ms
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, channel_settings
from tests.support.controllers import acl_creation, endpoint_of

DEADLINE_MS = 30_000
ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    admin: EndpointSettings
    users: EndpointSettings
    """Without a login."""

    async def ask(self, api_key: int, request: Any, endpoint: EndpointSettings | None = None) -> Any:
        """As its administrator, or over that endpoint."""
        async with await Channel.open(endpoint or self.admin) as channel:
            return await channel.request(api_key, channel.api_versions[api_key][1], request)

    def as_user(self, user: str, password: str, *, token: bool = False) -> EndpointSettings:
        return channel_settings(User(user, "SCRAM-SHA-256", password, token), self.users.address)

    async def lets_in(self, endpoint: EndpointSettings) -> bool:
        try:
            async with await Channel.open(endpoint):
                return True
        except LoginRejected:
            return False

    async def shows(self, topic: str, endpoint: EndpointSettings) -> bool:
        """The topic is told to whoever that endpoint logs in."""
        wanted = types.MetadataRequest.MetadataRequestTopic(name=topic)
        told = await self.ask(ApiKey.METADATA, types.MetadataRequest(topics=[wanted]), endpoint)
        return bool(told.topics[0].error_code == 0)

    async def limit_of(self, user: str) -> float | None:
        request = types.DescribeClientQuotasRequest
        component = request.ComponentData(entity_type="user", match_type=0, match=user)
        told = await self.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, request(components=[component], strict=True))
        values: list[float] = [value.value for entry in told.entries or () for value in entry.values]
        return values[0] if values else None


def doors(stack: Stack, number: int = 1) -> tuple[Door, Door]:
    """The broker's of that node id, and its proxy's."""
    admin = stack.users["admin"]
    entrance = stack.entrance(number=number).bootstrap
    proxy = Door(
        "proxy",
        channel_settings(admin, entrance),
        endpoint_of(entrance),
    )
    broker = stack.nodes[number - 1].broker
    return Door("broker", endpoint_of(broker.plaintext), endpoint_of(broker.sasl_plaintext)), proxy


async def until(holds: Callable[[], Awaitable[bool]]) -> int:
    """How long it took until it held, asked again and again."""
    since_ms = now_ms()
    async with asyncio.timeout(DEADLINE_MS / 1000):
        while not await holds():
            pass
    return now_ms() - since_ms


def user_request(user: str, password: str) -> Any:
    request = types.AlterUserScramCredentialsRequest
    salt = b"of the test"
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    upsertion = request.ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=ITERATIONS, salt=salt, salted_password=salted
    )
    return request(upsertions=[upsertion])


def limit_request(
    name: str | None, limit: float | None, key: str = "producer_byte_rate", kind: str = "user"
) -> Any:
    """A quota of a user, or of an entity of another kind; no name: the default; no limit: it is removed."""
    request = types.AlterClientQuotasRequest
    entity = [request.EntityData(entity_type=kind, entity_name=name)]
    ops = [request.OpData(key=key, value=limit or 0.0, remove=limit is None)]
    return request(entries=[request.EntryData(entity=entity, ops=ops)])


def allow_request(topic: str, user: str) -> Any:
    return types.CreateAclsRequest(creations=[acl_creation(topic, f"User:{user}")])


def withdraw_request(topic: str | None, user: str | None = None) -> Any:
    """All ACLs of the literal topic, or of each; those of that user, or of each."""
    request = types.DeleteAclsRequest
    wanted = request.DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=topic,
        pattern_type_filter=3,
        principal_filter=user and f"User:{user}",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return request(filters=[wanted])


def token_request() -> Any:
    return types.CreateDelegationTokenRequest(
        renewers=[], max_lifetime_ms=-1, owner_principal_type=None, owner_principal_name=None
    )
