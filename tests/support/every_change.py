"""Requests of every kind that goes to a controller, over a door of tests.support.two_sides.

What they come to in Kafka's own metadata log is looked at in tests/spark/test_kraft_audit.py.
"""

from typing import Any

from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from tests.support.topic_requests import create_partitions, create_topics, delete_topics
from tests.support.two_sides import (
    Door,
    allow_request,
    limit_request,
    token_request,
    user_request,
    withdraw_request,
)

TOPIC, SET, DELETE, APPEND = 2, 0, 1, 2
TIMEOUT_MS = 30_000


def topic_request(name: str) -> Any:
    return create_topics(name, partitions=2, configs={"retention.ms": "86400000"}, timeout_ms=TIMEOUT_MS)


def config_request(name: str, *configs: tuple[str, int, str | None]) -> Any:
    request = types.IncrementalAlterConfigsRequest
    altered = [
        request.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in configs
    ]
    resource = request.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=altered)
    return request(resources=[resource], validate_only=False)


def config_of_all_brokers(key: str, value: str) -> Any:
    request = types.IncrementalAlterConfigsRequest
    altered = [request.AlterableConfig(name=key, config_operation=SET, value=value)]
    resource = request.AlterConfigsResource(resource_type=4, resource_name="", configs=altered)
    return request(resources=[resource], validate_only=False)


def config_of_a_broker(node_id: int, key: str, value: str) -> Any:
    request = config_of_all_brokers(key, value)
    request.resources[0].resource_name = str(node_id)
    return request


def whole_config(name: str, key: str, value: str) -> Any:
    request = types.AlterConfigsRequest
    resource = request.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[request.AlterableConfig(name=key, value=value)],
    )
    return request(resources=[resource], validate_only=False)


def no_limit(user: str) -> Any:
    return limit_request(user, None)


def user_deletion(user: str) -> Any:
    request = types.AlterUserScramCredentialsRequest
    return request(deletions=[request.ScramCredentialDeletion(name=user, mechanism=1)], upsertions=[])


async def change_everything(door: Door, name: str) -> None:
    """Each kind of change at least once; what is asked for twice changes nothing the second time."""
    for _twice in range(2):
        await door.ask(ApiKey.CREATE_ACLS, allow_request(name, name))
        await door.ask(ApiKey.ALTER_CLIENT_QUOTAS, limit_request(name, 12_345.0))
    await door.ask(ApiKey.CREATE_ACLS, allow_request(name, "another"))
    await door.ask(ApiKey.DELETE_ACLS, withdraw_request(name, name))
    for _twice in range(2):
        await door.ask(ApiKey.ALTER_CLIENT_QUOTAS, no_limit(name))
    for password in ("first", "second"):
        await door.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_request(name, password))
    await door.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, user_deletion(name))
    await change_topics(door, name)


async def change_topics(door: Door, name: str) -> None:
    for _twice in range(2):
        await door.ask(ApiKey.CREATE_TOPICS, topic_request(name))
    await door.ask(ApiKey.CREATE_TOPICS, topic_request(f"{name}-stays"))
    await door.ask(ApiKey.CREATE_PARTITIONS, create_partitions(4, name))
    for change in (
        config_request(name, ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact")),
        config_request(name, ("retention.ms", SET, "1000"), ("segment.ms", DELETE, None)),
        config_request(name, ("retention.ms", DELETE, None)),
        config_of_all_brokers("log.cleaner.threads", "1"),
        config_of_a_broker(1, "log.cleaner.backoff.ms", "20000"),
    ):
        await door.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, change)
    await door.ask(ApiKey.ALTER_CONFIGS, whole_config(name, "segment.ms", "600000"))
    await door.ask(ApiKey.DELETE_TOPICS, delete_topics(name))


async def change_tokens(door: Door, owner: Any) -> None:
    """`owner`: an endpoint that a user logs in at; a token that was just made is not known everywhere yet."""
    token = await door.ask(ApiKey.CREATE_DELEGATION_TOKEN, token_request(), owner)
    assert token.error_code == 0
    renewal = types.RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=60_000)
    while (await door.ask(ApiKey.RENEW_DELEGATION_TOKEN, renewal, owner)).error_code:
        pass
    end = types.ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
    assert (await door.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, end, owner)).error_code == 0
