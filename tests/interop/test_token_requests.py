"""Delegation tokens at the gate, request by request: errors, versions, logins; as at a Kafka broker."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, LoginRejected
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.stack import Stack
from tests.lab.cluster.users import User, channel_settings
from tests.support.cluster_admin import ClusterAdmin
from tests.support.gates import Gate

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN


def login(gate: Gate, user: User) -> EndpointSettings:
    return channel_settings(user, gate.entrance().bootstrap)


def by_token(gate: Gate, token: Any, mechanism: str = "SCRAM-SHA-512") -> EndpointSettings:
    user = User(token.token_id, mechanism, b64encode(bytes(token.hmac)).decode(), by_token=True)
    return channel_settings(user, gate.entrance().bootstrap)


async def learnt(gate: Gate) -> None:
    """Kafka learns a moment later what its controller has decided; Penstock answers when it counts."""
    if not isinstance(gate, Stack) or gate.kraft:
        await asyncio.sleep(1)


async def create(channel: Channel, version: int = 3, lifetime_ms: int = -1, **fields: Any) -> Any:
    request = types.CreateDelegationTokenRequest
    renewers = [
        request.CreatableRenewers(principal_type=kind, principal_name=name)
        for kind, name in fields.pop("renewers", ())
    ]
    return await channel.request(
        CREATE, version, request(renewers=renewers, max_lifetime_ms=lifetime_ms, **fields)
    )


async def renew(channel: Channel, hmac: bytes, period_ms: int = -1, version: int = 2) -> Any:
    return await channel.request(
        RENEW, version, types.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    )


async def expire(channel: Channel, hmac: bytes, period_ms: int, version: int = 2) -> Any:
    return await channel.request(
        EXPIRE, version, types.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    )


async def describe(channel: Channel, *owners: str, version: int = 3) -> Any:
    request = types.DescribeDelegationTokenRequest
    wanted = [request.DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners]
    return await channel.request(DESCRIBE, version, request(owners=wanted or None))


@pytest.mark.spec("R9", "E2")
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_token_has_the_same_life_in_every_version(gate: Gate, alice: User, version: int) -> None:
    older = min(version, 2)
    await learnt(gate)
    async with await Channel.open(login(gate, alice)) as channel:
        made = await create(channel, version, renewers=[("User", "bob")])
        hmac = bytes(made.hmac)
        await learnt(gate)
        renewed = await renew(channel, hmac, 60_000, older)
        await learnt(gate)
        (seen,) = (await describe(channel, alice.name, version=version)).tokens
        cut = await expire(channel, hmac, 30_000, older)
        gone = await expire(channel, hmac, -1, older)
        await learnt(gate)
        left = await describe(channel, alice.name, version=version)
        unknown = await renew(channel, hmac, -1, older)

    lives = [
        (at - made.issue_timestamp_ms) // 1_000 for at in (made.expiry_timestamp_ms, made.max_timestamp_ms)
    ]
    assert (made.error_code, made.principal_name, lives) == (0, alice.name, [86_400, 7 * 86_400])
    assert len(hmac) == 64
    assert made.token_requester_principal_name == (alice.name if version >= 3 else "")
    assert (seen.token_id, bytes(seen.hmac), seen.principal_name) == (made.token_id, hmac, alice.name)
    assert seen.expiry_timestamp == renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
    assert seen.max_timestamp == made.max_timestamp_ms
    assert [(r.principal_type, r.principal_name) for r in seen.renewers] == [("User", "bob")]
    assert cut.expiry_timestamp_ms < renewed.expiry_timestamp_ms
    assert gone.error_code == 0
    assert (left.error_code, left.tokens) == (0, [])
    assert (unknown.error_code, unknown.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


@pytest.mark.spec("R9", "E3")
async def test_what_is_refused_is_refused_as_at_a_broker(
    gate: Gate, cluster_admin: ClusterAdmin, alice: User
) -> None:
    bob = cluster_admin.user(f"bob-for-{alice.name}")
    await learnt(gate)
    async with (
        await Channel.open(login(gate, alice)) as channel,
        await Channel.open(login(gate, bob)) as other,
    ):
        foreign = await create(channel, renewers=[("User", "bob"), ("Group", "x")])
        denied = await create(channel, owner_principal_type="User", owner_principal_name=bob.name)
        typeless = await create(channel, owner_principal_type=None, owner_principal_name=bob.name)
        own = await create(channel, owner_principal_type="User", owner_principal_name=alice.name)
        await learnt(gate)
        stolen = [await renew(other, bytes(own.hmac)), await expire(other, bytes(own.hmac), -1)]
        hidden = await describe(other)
        nothing = [await renew(channel, b""), await expire(channel, b"x" * 64, 5)]
        short = await create(channel, lifetime_ms=1)
        await learnt(gate)
        over = [await renew(channel, bytes(short.hmac)), await expire(channel, bytes(short.hmac), 5)]

    def told(created: Any) -> tuple[Any, ...]:
        times = created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms
        requester = created.token_requester_principal_name
        return created.error_code, created.principal_name, requester, *times, created.token_id

    code = ErrorCode
    assert told(foreign) == (code.INVALID_PRINCIPAL_TYPE, alice.name, alice.name, -1, -1, -1, "")
    assert told(denied) == (
        code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        bob.name,
        alice.name,
        *(-1, -1, -1),
        "",
    )
    assert told(typeless) == (code.UNKNOWN_SERVER_ERROR, "ANONYMOUS", "ANONYMOUS", -1, -1, -1, "")
    assert own.error_code == 0
    assert [answer.error_code for answer in stolen] == [code.DELEGATION_TOKEN_OWNER_MISMATCH] * 2
    assert (hidden.error_code, hidden.tokens) == (0, [])
    assert [answer.error_code for answer in nothing] == [code.DELEGATION_TOKEN_NOT_FOUND] * 2
    # Over, or removed already.
    assert {answer.error_code for answer in over} <= {
        code.DELEGATION_TOKEN_EXPIRED,
        code.DELEGATION_TOKEN_NOT_FOUND,
    }


@pytest.mark.spec("R9", "R2", "R10")
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_session_by_token_lasts_as_long_as_the_token_and_gets_no_further_one(
    gate: Gate, alice: User, mechanism: str
) -> None:
    await learnt(gate)
    async with await Channel.open(login(gate, alice)) as channel:
        made = await create(channel, lifetime_ms=2_500)
        await learnt(gate)
        token = await Channel.open(by_token(gate, made, mechanism))
        refused = [
            await create(token),
            await renew(token, bytes(made.hmac)),
            await expire(token, bytes(made.hmac), -1),
            await describe(token),
        ]
        lifetime_ms = token.session_lifetime_ms
        served = (await token.request(ApiKey.LIST_GROUPS, 2, types.ListGroupsRequest())).error_code
        await asyncio.sleep(2.6)
        with pytest.raises(ChannelError):
            # Not by `request`, which would log in again first.
            await token._request(ApiKey.LIST_GROUPS, 2, types.ListGroupsRequest(), 5_000)
        await token.close()

    assert 0 < lifetime_ms <= 2_500
    assert served == 0
    assert [answer.error_code for answer in refused] == [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4
    assert [answer.expiry_timestamp_ms for answer in refused[:3]] == [-1, -1, -1]


@pytest.mark.spec("R9", "R10")
async def test_a_token_taken_back_logs_nobody_in_and_leaves_sessions_to_their_end(
    gate: Gate, alice: User
) -> None:
    await learnt(gate)
    async with await Channel.open(login(gate, alice)) as channel:
        made = await create(channel)
        await learnt(gate)
        guessed = types.CreateDelegationTokenResponse(token_id=made.token_id, hmac=bytes(64))
        with pytest.raises(LoginRejected):
            await Channel.open(by_token(gate, guessed))
        token = await Channel.open(by_token(gate, made))
        await expire(channel, bytes(made.hmac), -1)
        await learnt(gate)
        with pytest.raises(LoginRejected):
            await Channel.open(by_token(gate, made))
        still = await token.request(ApiKey.LIST_GROUPS, 2, types.ListGroupsRequest())
        await token.close()

    assert still.error_code == 0
