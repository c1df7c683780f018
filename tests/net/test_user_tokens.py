"""Tokens that a proxy makes for its users (upstream.identity: user): one for each, none is left behind."""

import asyncio
from typing import Any

import pytest

from proxy.net.kafka.channel import ChannelError, SaslLogin
from proxy.net.kafka.user_tokens import UserTokens
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.session.conversation import NOW_MS
from tests.support.controllers import endpoint_of, login
from tests.support.edges import SHOULD_NOT_TAKE_S
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("O7")

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE = ApiKey.EXPIRE_DELEGATION_TOKEN
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
LIFETIME_MS, IDLE_MS = 60_000, 40
"""Unused tokens are looked for four times in IDLE_MS, by the clock of the test."""


class Place:
    """Tokens at a broker that takes every login, and the time they are used at."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.broker = FakeBroker(
            {
                ApiKey.SASL_HANDSHAKE: lambda request: types.SaslHandshakeResponse(
                    mechanisms=[request.message.mechanism]
                ),
                ApiKey.SASL_AUTHENTICATE: lambda _request: types.SaslAuthenticateResponse(),
                CREATE: self._created,
                RENEW: lambda _request: types.RenewDelegationTokenResponse(
                    expiry_timestamp_ms=self.now_ms + LIFETIME_MS
                ),
                EXPIRE: lambda _request: types.ExpireDelegationTokenResponse(),
            }
        )

    def _created(self, request: Request) -> Any:
        owner = request.message.owner_principal_name
        return types.CreateDelegationTokenResponse(
            token_id=f"token of {owner}",
            hmac=owner.encode(),
            issue_timestamp_ms=self.now_ms,
            expiry_timestamp_ms=self.now_ms + LIFETIME_MS,
            max_timestamp_ms=self.now_ms + 10 * LIFETIME_MS,
        )

    def tokens(self, idle_ms: int = 3_600_000) -> UserTokens:
        own = endpoint_of(self.broker.address, sasl=login("penstock", "secret"))
        return UserTokens(lambda: own, "PLAIN", idle_ms, lambda: self.now_ms)

    def asked(self, api_key: int) -> list[bytes]:
        """The HMACs of the tokens that were to be renewed or expired."""
        return [request.message.hmac for request in self.broker.received(api_key)]


async def logins(tokens: UserTokens, *principals: Principal) -> list[SaslLogin]:
    return [await tokens.login(principal) for principal in principals]


async def test_each_user_has_one_token_that_the_user_owns_and_the_proxy_may_renew() -> None:
    place = Place()
    async with place.broker:
        tokens = place.tokens()
        found = await logins(tokens, ALICE, BOB, ALICE)

    assert [(each.username, each.token_auth) for each in found] == [
        ("token of alice", True),
        ("token of bob", True),
        ("token of alice", True),
    ]
    made = [request.message for request in place.broker.received(CREATE)]
    assert [(each.owner_principal_type, each.owner_principal_name) for each in made] == [
        ("User", "alice"),
        ("User", "bob"),
    ]
    assert [[renewer.principal_name for renewer in each.renewers] for each in made] == [["penstock"]] * 2
    assert tokens.count == 2


async def test_a_token_is_renewed_when_half_of_its_lifetime_is_left() -> None:
    place = Place()
    async with place.broker:
        tokens = place.tokens()
        await tokens.login(ALICE)
        place.now_ms += LIFETIME_MS // 2 - 1
        await tokens.login(ALICE)
        assert place.asked(RENEW) == []
        place.now_ms += 1

        await tokens.login(ALICE)

    assert (place.asked(RENEW), len(place.broker.received(CREATE))) == ([b"alice"], 1)


async def test_a_token_that_is_not_used_expires_at_the_broker() -> None:
    place = Place()
    async with place.broker, asyncio.timeout(SHOULD_NOT_TAKE_S), asyncio.TaskGroup() as tasks:
        tokens = place.tokens(IDLE_MS)
        await tokens.login(ALICE)
        place.now_ms += IDLE_MS + 1
        await tokens.login(BOB)
        run = tasks.create_task(tokens.run())

        await place.broker.wait_for(EXPIRE)

        assert (place.asked(EXPIRE), tokens.count) == ([b"alice"], 1)
        run.cancel()


@pytest.mark.parametrize(
    ("passed_ms", "expired"),
    [(0, [b"alice", b"bob"]), (LIFETIME_MS - 1, [b"bob"])],
    ids=["all", "one is over"],
)
async def test_tokens_expire_when_the_proxy_stops(passed_ms: int, expired: list[bytes]) -> None:
    place = Place()
    async with place.broker, asyncio.timeout(SHOULD_NOT_TAKE_S):
        tokens = place.tokens()
        await tokens.login(ALICE)
        place.now_ms += passed_ms
        await tokens.login(BOB)
        place.now_ms += 1
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(tokens.run())
            await asyncio.sleep(0)
            run.cancel()

    assert (place.asked(EXPIRE), tokens.count) == (expired, 0)


@pytest.mark.spec("Q5")
async def test_a_principal_without_a_name_has_no_token_because_it_would_be_the_proxys_own() -> None:
    place = Place()
    async with place.broker:
        with pytest.raises(ChannelError, match="User: has no name"):
            await place.tokens().login(Principal("User", ""))

        assert place.asked(CREATE) == []
