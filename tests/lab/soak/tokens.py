"""What librdkafka has no API for, over plain requests: client quotas and delegation tokens.

Quotas are set and removed for users who are not here and for one who is; tokens are made, renewed, logged in
with, expired by hand and left to expire.
"""

import asyncio
from base64 import b64encode
from random import Random
from threading import Event
from typing import Any

from proxy.net.kafka.channel import Channel
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.lab.cluster.users import User
from tests.lab.soak.place import Place, Side
from tests.lab.soak.working import quiet

LIFE_MS = 8_000


def use_tokens(place: Place, over: Event) -> None:
    """Both, in turn, at both proxies."""
    random = Random(f"{place.seed}/tokens")
    while not over.wait(random.uniform(4, 10)):
        side = random.choice(place.sides)
        with quiet():
            asyncio.run(_token(side, random) if random.random() < 0.4 else _quota(side, random))


async def _quota(side: Side, random: Random) -> None:
    request = types.AlterClientQuotasRequest
    user = random.choice(("alice", "soak-absent-1", "soak-absent-2"))
    key = random.choice(("producer_byte_rate", "consumer_byte_rate", "request_percentage"))
    value = float(random.choice((50_000, 5_000_000))) if key != "request_percentage" else 200.0
    entity = [request.EntityData(entity_type="user", entity_name=user)]
    if random.random() < 0.3:
        entity.append(request.EntityData(entity_type="client-id", entity_name="orders-1"))
    wanted = request.OpData(key=key, value=value, remove=random.random() < 0.5)
    async with await _open(side, side.users["admin"]) as channel:
        await _ask(
            channel,
            ApiKey.ALTER_CLIENT_QUOTAS,
            request(entries=[request.EntryData(entity=entity, ops=[wanted])]),
        )


async def _token(side: Side, random: Random) -> None:
    async with await _open(side, side.users["alice"]) as channel:
        made = await _ask(
            channel,
            ApiKey.CREATE_DELEGATION_TOKEN,
            types.CreateDelegationTokenRequest(max_lifetime_ms=LIFE_MS * 2),
        )
        assert made.error_code == 0, made
        secret = bytes(made.hmac)
        renew = types.RenewDelegationTokenRequest(hmac=secret, renew_period_ms=LIFE_MS)
        await _ask(channel, ApiKey.RENEW_DELEGATION_TOKEN, renew)
        await _log_in_with(side, made.token_id, secret)
        if random.random() < 0.5:
            expire = types.ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1)
            await _ask(channel, ApiKey.EXPIRE_DELEGATION_TOKEN, expire)


async def _log_in_with(side: Side, token_id: str, secret: bytes) -> None:
    bearer = User(token_id, "SCRAM-SHA-256", b64encode(secret).decode(), by_token=True)
    async with await _open(side, bearer) as channel:
        await _ask(channel, ApiKey.METADATA, types.MetadataRequest(topics=[]))


async def _open(side: Side, user: User) -> Channel:
    return await Channel.open(side.endpoint(user))


async def _ask(channel: Channel, api_key: int, request: Any) -> Any:
    return await channel.request(api_key, channel.api_versions[api_key][1], request)
