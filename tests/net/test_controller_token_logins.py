"""Proxies that log in at a controller with a token: of an identity provider, or of the cluster's own.

A real controller process with its file; the keys come from a provider that runs beside it.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.net.kafka.channel import Channel, ChannelError, EndpointSettings, LoginRejected, SaslLogin
from proxy.net.logins.bearer_token import FileToken
from proxy.security.principal import Principal
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from tests.lab.cluster.broker import Broker
from tests.lab.cluster.ports import free_addresses
from tests.support.controller_processes import controller_file, running
from tests.support.controllers import a_forwarder, acls_request, endpoint_of, forward
from tests.support.identity_provider import AUDIENCE, ISSUER, rsa, token
from tests.support.running_provider import RunningProvider

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_S = 60
PROXY = Principal("User", "proxy-1")
ADMIN = Principal("User", "admin")


@pytest.fixture(scope="module")
def provider() -> Iterator[RunningProvider]:
    with RunningProvider(300).running() as provider:
        yield provider


@asynccontextmanager
async def a_controller(
    kafka: Broker, topic: str, directory: Path, provider: RunningProvider
) -> AsyncIterator[str]:
    """The address of one that takes tokens, of either kind, and no passwords; it is active."""
    (bind,) = free_addresses(1)
    path = controller_file(directory, "controller-1", bind, kafka, topic)
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    (directory / "token.key").write_text("of the cluster", encoding="utf-8")
    (directory / "token.key").chmod(0o600)
    document["listener"] |= {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ["OAUTHBEARER", "SCRAM-SHA-256"],
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/certs",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": [AUDIENCE],
    }
    document["delegation.token"] = {"secret.key.file": "token.key"}
    document["authorizer"] = document["authorizer"] | {"super.users": f"{PROXY};User:admin"}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    async with running(path):
        yield bind


def bearer(directory: Path, text: str) -> SaslLogin:
    path = directory / "proxy.token"
    path.write_text(text, encoding="utf-8")
    return SaslLogin(mechanism="OAUTHBEARER", username="proxy-1", password=lambda: "", tokens=FileToken(path))


def delegated(token_id: str, hmac: bytes) -> SaslLogin:
    password = b64encode(hmac).decode()
    return SaslLogin(mechanism="SCRAM-SHA-256", username=token_id, password=lambda: password, token_auth=True)


async def refused(endpoint: EndpointSettings) -> bool:
    """Whether the login is; not before there is somebody to refuse it."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                async with await Channel.open(endpoint):
                    return False
            except LoginRejected:
                return True
            except ChannelError:
                await asyncio.sleep(0.1)


async def changed(endpoint: EndpointSettings, api_key: int, request: Any, who: Principal = ADMIN) -> Any:
    async with a_forwarder(endpoint) as forwarder:
        reply, response = await forward(forwarder, api_key, request, who, timeout_ms=TIMEOUT_S * 1_000)
    assert reply.error_code == 0, reply
    return response


@pytest.mark.spec("R9", "E4")
async def test_a_proxy_logs_in_with_a_token_of_an_identity_provider(
    kafka: Broker, topic_name: str, tmp_path: Path, provider: RunningProvider
) -> None:
    good = bearer(tmp_path, provider.token("proxy-1"))
    async with a_controller(kafka, topic_name, tmp_path, provider) as address:
        created = await changed(endpoint_of(address, sasl=good), ApiKey.CREATE_ACLS, acls_request("t"))

        others = {
            "another provider's": token(iss="https://elsewhere.example", sub="proxy-1"),
            "over": token(1_000_000, sub="proxy-1"),
            "signed by nobody we know": token(key=rsa("unknown"), sub="proxy-1"),
        }
        outcomes = {
            name: await refused(endpoint_of(address, sasl=bearer(tmp_path, text)))
            for name, text in others.items()
        }

    assert [result.error_code for result in created.results] == [0]
    assert provider.asked[0] == "/certs"
    assert set(outcomes.values()) == {True}


@pytest.mark.spec("R9", "R10", "E4")
async def test_a_proxy_logs_in_with_a_delegation_token_until_it_is_expired(
    kafka: Broker, topic_name: str, tmp_path: Path, provider: RunningProvider
) -> None:
    first = bearer(tmp_path, provider.token("proxy-1"))
    async with a_controller(kafka, topic_name, tmp_path, provider) as address:
        by_token = endpoint_of(address, sasl=first)
        # A proxy's own principal may change nothing (KIP-590): an administrator makes the token for it.
        request = types.CreateDelegationTokenRequest
        wanted = request(
            owner_principal_type="User",
            owner_principal_name="proxy-1",
            renewers=[request.CreatableRenewers(principal_type="User", principal_name="admin")],
            max_lifetime_ms=-1,
        )
        made = await changed(by_token, ApiKey.CREATE_DELEGATION_TOKEN, wanted)
        delegation = endpoint_of(address, sasl=delegated(made.token_id, bytes(made.hmac)))
        wrong = endpoint_of(address, sasl=delegated(made.token_id, bytes(64)))

        created = await changed(delegation, ApiKey.CREATE_ACLS, acls_request("t"))
        assert await refused(wrong)
        expiry = types.ExpireDelegationTokenRequest(hmac=bytes(made.hmac), expiry_time_period_ms=-1)
        expired = await changed(by_token, ApiKey.EXPIRE_DELEGATION_TOKEN, expiry)
        assert await refused(delegation)

    assert (made.principal_name, [result.error_code for result in created.results]) == ("proxy-1", [0])
    assert expired.error_code == ErrorCode.NONE
