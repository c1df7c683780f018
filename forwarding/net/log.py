"""The metadata log: records in, offsets out; a one-partition Kafka topic behind a transactional producer.

Written by forwarding.net.writer, one request = one transaction, acks=all. A fixed transactional.id makes
Kafka fence every earlier writer when a new one claims the log, so there is never more than one whose
commits count. Reading is proxy.net.metadata.topic_feed's.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError as KafkaAuthenticationFailed
from aiokafka.errors import KafkaError, ProducerFenced

from forwarding.net import aiokafka_lines, renewed_logins
from forwarding.net.aiokafka_shutdown import end
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.logins.bearer_token import TokenError, TokenSource

FORWARD_ID_HEADER = "penstock.forward.id"
"""Record header: which forwarded request made the record. Ties the log to the audit."""
PARTITION = 0
MAX_BATCH_BYTES = 900_000
"""A request's records go out in as few batches as the broker's default message.max.bytes takes."""

FAILURES = (KafkaError, OSError, TimeoutError, RuntimeError, AssertionError)
"""What aiokafka raises when it cannot go on; its states are guarded by assertions."""

log = structlog.get_logger(__name__)

renewed_logins.install()
aiokafka_lines.install()


class LogUnavailable(Exception):
    """The log cannot be claimed now: no broker answers."""


class CommitUnknown(Exception):
    """Whether the records were committed cannot be told: claim the log again and read it to its end."""


class Fenced(Exception):
    """Another controller has claimed the log: nothing of ours can be written any more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a transaction."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a transaction's records stand."""

    first_offset: int | None
    """None when only the image told that they are there."""
    last_offset: int


class MetadataLog:
    """The one writer's hand on the log, from `claim` until it is fenced, resigns or loses track."""

    def __init__(
        self, endpoint: EndpointSettings, topic: str, transactional_id: str, timeout_ms: int = 15_000
    ) -> None:
        """`timeout_ms`: after so long without an answer a commit counts as unknown."""
        self._endpoint = endpoint
        self._topic = topic
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer: AIOKafkaProducer | None = None

    @property
    def claimed(self) -> bool:
        """As far as we know the log is ours."""
        return self._producer is not None

    async def claim(self) -> None:
        """Fence whoever wrote before; on return their last transaction is committed or aborted."""
        await self.resign()
        producer = AIOKafkaProducer(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=max(10_000, self._timeout_ms),
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            **connection_arguments(self._endpoint),
        )
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await producer.start()
        except FAILURES as error:
            await end(producer, "metadata log")
            raise LogUnavailable(f"{self._endpoint.address}: {error!r}") from error
        except BaseException:
            await end(producer, "metadata log")
            raise
        self._producer = producer
        log.info("metadata log claimed", topic=self._topic, transactional_id=self._transactional_id)

    async def append(self, entries: Sequence[Entry], forward_id: str | None) -> Committed:
        """Commit the entries as one transaction. Raises Fenced or CommitUnknown; the log is then not ours."""
        producer = self._producer
        if producer is None:
            raise Fenced("the log was not claimed")
        headers = [(FORWARD_ID_HEADER, forward_id.encode())] if forward_id else []
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                return await self._transaction(producer, entries, headers)
        except ProducerFenced as error:
            await self.resign()
            raise Fenced(f"fenced by another {self._transactional_id}") from error
        except FAILURES as error:
            await self.resign()
            raise CommitUnknown(repr(error)) from error

    async def resign(self) -> None:
        """Let the producer go; nothing is written until the log is claimed again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await end(producer, "metadata log")

    async def _transaction(
        self, producer: AIOKafkaProducer, entries: Sequence[Entry], headers: Sequence[tuple[str, bytes]]
    ) -> Committed:
        await producer.begin_transaction()
        deliveries = [
            await producer.send(
                self._topic, value=entry.value, key=entry.key, partition=PARTITION, headers=headers
            )
            for entry in entries
        ]
        # Every record is acknowledged before the commit is asked for: aiokafka would commit what is left
        # of a transaction in which a batch was refused.
        stored = await asyncio.gather(*deliveries)
        await producer.commit_transaction()
        return Committed(stored[0].offset, stored[-1].offset)


def connection_arguments(endpoint: EndpointSettings) -> dict[str, Any]:
    """What aiokafka needs to be told of an endpoint."""
    transport = "PLAINTEXT" if endpoint.ssl is None else "SSL"
    arguments = {
        "bootstrap_servers": endpoint.address,
        "client_id": endpoint.client_id,
        "request_timeout_ms": endpoint.request_timeout_ms,
        "ssl_context": endpoint.ssl,
        "security_protocol": transport,
    }
    login = endpoint.sasl
    if login is None:
        return arguments
    arguments |= {"security_protocol": f"SASL_{transport}", "sasl_mechanism": login.mechanism}
    if login.tokens is not None:
        return arguments | {"sasl_oauth_token_provider": _Tokens(login.tokens)}
    return arguments | {
        "sasl_plain_username": login.username,
        "sasl_plain_password": login.password(),
    }


class _Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    """Our tokens, as aiokafka asks for them at each of its logins."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        try:
            return await self._tokens.token()
        except TokenError as error:
            # What aiokafka knows to be a failed login, so that its callers do.
            raise KafkaAuthenticationFailed(str(error)) from error
