"""The metadata log: records in, offsets out; a one-partition Kafka topic behind a transactional producer.

forwarding.net.request_processor writes one transaction for each request, with acks=all. The transactional.id
is fixed, so Kafka fences every earlier writer when a new one claims the log: at most one can commit.
proxy.net.metadata.topic_feed reads the log.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import AuthenticationFailedError as KafkaAuthenticationFailed
from aiokafka.errors import KafkaError, ProducerFenced

from forwarding.controller.records import key_of
from forwarding.net import aiokafka_hooks
from proxy.error_text import text_of
from proxy.metadata.signatures import HEADER
from proxy.net.kafka.channel import EndpointSettings
from proxy.net.logins.bearer_token import TokenError, TokenSource
from proxy.wire import metadata_records
from proxy.wire.message import Message

FORWARD_ID_HEADER = "penstock.forward.id"
"""Record header: the id of the forward that made the record. It ties the log to the audit trail."""
PARTITION = 0
MAX_BATCH_BYTES = 900_000
"""As few batches per request as the broker's default message.max.bytes allows."""
MAX_RECORD_BYTES = MAX_BATCH_BYTES - 10_000

FAILURES = (KafkaError, OSError, TimeoutError, RuntimeError, AssertionError)
"""The exceptions of aiokafka when it cannot continue; it guards its states with assertions."""

log = structlog.get_logger(__name__)

aiokafka_hooks.install()


class LogUnavailable(Exception):
    """The log cannot be claimed now: no broker responds, or there is no password to log in with."""


class CommitUnknown(Exception):
    """The outcome of a commit is unknown: claim the log again and read it to its end."""


class Fenced(Exception):
    """Another controller has claimed the log: this one can no longer write."""


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """One record of a transaction."""

    key: bytes
    value: bytes
    signature: bytes | None = None
    """The value of the header `signatures.HEADER`."""


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """The offsets of a transaction's records."""

    first_offset: int | None
    """None if only the image shows that they were committed."""
    last_offset: int


def log_entries(records: Iterable[Message]) -> list[WrittenRecord]:
    """Encode metadata records as entries of the log."""
    return [
        WrittenRecord(key_of(record).encode(), metadata_records.encode_record(record)) for record in records
    ]


class MetadataLog:
    """The writer's side of the log, from `claim` until it is fenced, resigns or loses a response."""

    def __init__(
        self, endpoint: EndpointSettings, topic: str, transactional_id: str, timeout_ms: int = 15_000
    ) -> None:
        """`timeout_ms`: without a response for so long the outcome of a commit is unknown."""
        self._endpoint = endpoint
        self._topic = topic
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer: AIOKafkaProducer | None = None

    @property
    def claimed(self) -> bool:
        """Whether this process holds the claim, as far as it knows."""
        return self._producer is not None

    async def claim(self) -> None:
        """Fence earlier writers; on return their last transaction is committed or aborted."""
        await self.resign()
        try:
            arguments = connection_arguments(self._endpoint)
        except (OSError, ValueError) as error:  # The file may be rotated at this moment.
            text = f"no password to log in with: {text_of(error)}"
            raise LogUnavailable(f"{self._endpoint.address}: {text}") from error
        producer = AIOKafkaProducer(
            transactional_id=self._transactional_id,
            # Not shorter than `append` waits: the broker must not abort a transaction that is in progress.
            transaction_timeout_ms=max(10_000, self._timeout_ms),
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            **arguments,
        )
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await producer.start()
        except FAILURES as error:
            await aiokafka_hooks.end(producer, "metadata log")
            raise LogUnavailable(f"{self._endpoint.address}: {error!r}") from error
        except BaseException:
            await aiokafka_hooks.end(producer, "metadata log")
            raise
        self._producer = producer
        log.info("metadata log claimed", topic=self._topic, transactional_id=self._transactional_id)

    async def append(self, entries: Sequence[WrittenRecord], forward_id: str | None) -> CommittedOffsets:
        """Commit the entries as one transaction; Fenced or CommitUnknown, after which the claim is lost."""
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
            # The broker may or may not have received the commit, and aiokafka's producer is unusable.
            await self.resign()
            raise CommitUnknown(repr(error)) from error

    async def resign(self) -> None:
        """Close the producer; nothing is written until the log is claimed again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await aiokafka_hooks.end(producer, "metadata log")

    async def _transaction(
        self,
        producer: AIOKafkaProducer,
        entries: Sequence[WrittenRecord],
        headers: Sequence[tuple[str, bytes]],
    ) -> CommittedOffsets:
        await producer.begin_transaction()
        deliveries = [
            await producer.send(
                self._topic,
                value=entry.value,
                key=entry.key,
                partition=PARTITION,
                headers=headers if entry.signature is None else [*headers, (HEADER, entry.signature)],
            )
            for entry in entries
        ]
        # All records are acknowledged before the commit: otherwise aiokafka would commit the rest of a
        # transaction in which a batch was rejected.
        stored = await asyncio.gather(*deliveries)
        await producer.commit_transaction()
        return CommittedOffsets(stored[0].offset, stored[-1].offset)


def connection_arguments(endpoint: EndpointSettings) -> dict[str, Any]:
    """Return aiokafka's arguments for an endpoint."""
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
    """Supplies a token for each login of aiokafka."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        try:
            return await self._tokens.token()
        except TokenError as error:
            # aiokafka and its callers treat this class as a failed login.
            raise KafkaAuthenticationFailed(str(error)) from error
