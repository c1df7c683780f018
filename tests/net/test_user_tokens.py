"""Tokens that a proxy makes for its users (upstream.identity: user): one for each, none is left behind."""

import asyncio
from typing import Any

import pytest

from proxy.net.kafka import user_tokens
from proxy.net.kafka.channel import ChannelError, LoginRejected, SaslLogin
from proxy.net.kafka.user_tokens import UserTokens
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.session.conversation import NOW_MS, produce, produced
from tests.support.controllers import endpoint_of, login
from tests.support.edges import SHOULD_NOT_TAKE_S, a_gate, an_edge, on_uvloop
from tests.support.fake_broker import FakeBroker, Request

pytestmark = pytest.mark.spec("O7")

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE = ApiKey.EXPIRE_DELEGATION_TOKEN
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
LIFETIME_MS, IDLE_MS = 60_000, 40
"""Unused tokens are looked for four times in IDLE_MS, by the clock of the test."""


class Place:
    """Tokens at a broker that takes every login, but not with tokens that are gone; and the time they are
    used at."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.gone: set[str] = set()
        """The tokens that the broker does not know any more."""
        self.broker = FakeBroker(
            {
                ApiKey.SASL_HANDSHAKE: lambda request: types.SaslHandshakeResponse(
                    mechanisms=[request.message.mechanism]
                ),
                ApiKey.SASL_AUTHENTICATE: self._logged_in,
                ApiKey.PRODUCE: lambda _request: produced("orders"),
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
            token_id=f"token of {owner}" + ("" if not self.gone else "'"),
            hmac=owner.encode(),
            issue_timestamp_ms=self.now_ms,
            expiry_timestamp_ms=self.now_ms + LIFETIME_MS,
            max_timestamp_ms=self.now_ms + 10 * LIFETIME_MS,
        )

    def _logged_in(self, request: Request) -> Any:
        _, name, _ = bytes(request.message.auth_bytes).split(b"\0")
        code = ErrorCode.SASL_AUTHENTICATION_FAILED if name.decode() in self.gone else ErrorCode.NONE
        return types.SaslAuthenticateResponse(error_code=code)

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


@on_uvloop
async def test_a_token_that_the_broker_forgot_is_replaced() -> None:
    """Its owner may expire it, and another secret key makes all of them invalid."""
    place = Place()
    async with place.broker:
        tokens = place.tokens()
        async with an_edge(a_gate(), place.broker.address, identity=tokens) as edge:
            for _ in range(2):
                client = await edge.client()
                client.asks(ApiKey.PRODUCE, 9, produce("orders"))
                await client.hears(ApiKey.PRODUCE, 9)
                place.gone = {"token of ANONYMOUS"}

            assert edge.upstream_errors == 0

    assert len(place.broker.received(CREATE)) == 2


async def test_a_token_that_never_worked_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker would reject the next one too: a token for each connection is none the better."""
    monkeypatch.setattr(user_tokens, "KNOWN_WITHIN_S", 0.0)
    place = Place()
    place.gone = {"token of alice'"}
    async with place.broker:
        tokens = place.tokens()
        with pytest.raises(LoginRejected):
            await tokens.login(ALICE)

        assert not tokens.replaces(ALICE, await tokens.login(ALICE))

    assert len(place.broker.received(CREATE)) == 1


async def test_one_token_takes_the_place_of_a_rejected_one() -> None:
    """Two connections were rejected with the same one."""
    place = Place()
    async with place.broker:
        tokens = place.tokens()
        rejected = await tokens.login(ALICE)
        place.gone = {rejected.username}

        assert tokens.replaces(ALICE, rejected)
        other = await tokens.login(ALICE)
        assert tokens.replaces(ALICE, rejected)

        assert (await tokens.login(ALICE)).username == other.username != rejected.username
