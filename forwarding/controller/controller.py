"""A forwarded request + the metadata image -> a decision (KIP-590 step 2, Kafka's ControllerApis).

First whoever sends an Envelope needs CLUSTER_ACTION; then the principal inside is authorised as if it had
asked itself, with the sender as forwarding principal in the context. Fed by forwarding.net.writer;
knows nothing of sockets, nor of the log that commits the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from forwarding import controller
from forwarding.controller.access import Access
from forwarding.controller.facts import requester
from forwarding.controller.outcome import AskBroker, Decision, Outcome
from forwarding.controller.policy import NO_POLICIES, Policies, Tried
from forwarding.controller.served import Asked, Repeated, Served, TokenSettings
from forwarding.controller.topic_owner import NO_OWNERS, OwnerSettings
from forwarding.envelope import Forwarded, Refused, Sender, unwrap
from forwarding.retry import AUTHORIZER_NOT_READY
from proxy.admin.rejection import MESSAGES
from proxy.admin.topics import TopicKey
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Acl, Operation
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Authorizer, RequestContext
from proxy.security.principal import ANONYMOUS, Principal
from proxy.session.apis.table import FORWARDED, TABLE, collected, rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
PROXYS_PRINCIPAL = "A proxy's principal must not be used by clients for administrative requests."
NO_TOKENS = TokenSettings()
NO_IDS: Mapping[str, bytes] = MappingProxyType({})
NOTHING_TRIED: Mapping[str, Tried] = MappingProxyType({})

SERVED: dict[int, Served] = collected(controller, "SERVED")
"""The forwarded APIs that are decided by code of their own."""

TO_BROKER = frozenset(key for key in FORWARDED if key not in SERVED or SERVED[key].to_broker)
"""Those that a broker carries out: they are offered in the versions it speaks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, and what the audit is told of how it came about."""

    decision: Decision
    events: tuple[AuditEvent, ...]


@dataclass(frozen=True, slots=True)
class Deciding:
    """Who decides, and by which settings; a request is decided by one of these from its begin to its end."""

    authorizer: Authorizer
    settings_generation: int = 0


class Controller:
    """Decides; holds no state but what it was made of, and by which settings."""

    def __init__(
        self,
        authorizer: Authorizer,
        deserialize_principal: Callable[[bytes], Principal],
        new_id: Callable[[], bytes],
        tokens: TokenSettings = NO_TOKENS,
        owners: OwnerSettings = NO_OWNERS,
        policies: Policies = NO_POLICIES,
    ) -> None:
        """`new_id`: 16 random bytes, for an ACL or a token."""
        self._deciding = Deciding(authorizer)
        self._deserialize_principal = deserialize_principal
        self._new_id = new_id
        self._tokens = tokens
        self._owners = owners
        self._policies = policies

    def decide_by(self, authorizer: Authorizer, settings_generation: int) -> None:
        """From the next request on; the number is what audit records call these settings by."""
        self._deciding = Deciding(authorizer, settings_generation)

    def open(
        self, envelope: types.EnvelopeRequest, sender: Sender, image: MetadataImage | None
    ) -> tuple[Forwarded | Refused, tuple[AuditEvent, ...]]:
        """The request inside, if its sender may forward at all; `image` None: nothing is loaded yet."""
        deciding = self._deciding
        context = RequestContext(
            principal=sender.principal,
            host=sender.host,
            listener=sender.listener,
            client_id=sender.client_id,
            image=image,
            settings_generation=deciding.settings_generation,
        )
        access = Access(deciding.authorizer, context, "Envelope", 0, 0)
        if not access.allows_cluster(Operation.CLUSTER_ACTION):
            return self._sender_refused(access, sender), tuple(access.events)
        return unwrap(envelope, self._deserialize_principal, FORWARDED), ()

    def topics_in_question(self, forwarded: Forwarded) -> Sequence[TopicKey]:
        """The topics of which the decision will need to know whether they exist, their names and ids."""
        served = SERVED.get(forwarded.header.api_key)
        return () if served is None else served.topics(forwarded.message)

    def creation_to_try(self, forwarded: Forwarded) -> types.CreateTopicsRequest | None:
        """The dry run of a creation whose response the decision will need; None: none."""
        served = SERVED.get(forwarded.header.api_key)
        return None if served is None else served.try_first(self._policies, forwarded.message)

    def decide(
        self,
        forwarded: Forwarded,
        sender: Sender,
        image: MetadataImage,
        topic_names: Mapping[TopicKey, str],
        now_ms: int,
        topic_ids: Mapping[str, bytes] = NO_IDS,
        tried: Mapping[str, Tried] = NOTHING_TRIED,
    ) -> Verdict:
        """What is to become of a request that was opened; the image is one whole, read once."""
        header, deciding = forwarded.header, self._deciding
        context = RequestContext(
            principal=forwarded.principal,
            host=forwarded.host,
            listener=sender.listener,
            client_id=header.client_id,
            forwarding_principal=sender.principal,
            image=image,
            settings_generation=deciding.settings_generation,
        )
        access = Access(
            deciding.authorizer,
            context,
            ApiKey.name_of(header.api_key),
            header.api_version,
            header.correlation_id,
            forwarded.forward_id,
        )
        if forwarded.principal == sender.principal != ANONYMOUS:
            return _of_a_proxy(forwarded, sender, image)
        asked = Asked(
            request=forwarded.message,
            access=access,
            image=image,
            now_ms=now_ms,
            new_id=self._new_id,
            tokens=self._tokens,
            owners=self._owners,
            policies=self._policies,
            topic_names=topic_names,
            topic_ids=topic_ids,
            tried=tried,
        )
        return Verdict(_decision(header.api_key, asked), tuple(access.events))

    def as_before(
        self,
        forwarded: Forwarded,
        response: Message,
        records: Sequence[Message],
        removed: Mapping[str, Acl],
        now_ms: int,
    ) -> Message:
        """The response to a forward that the log already has, from what was decided again: see `Repeated`."""
        served = SERVED.get(forwarded.header.api_key)
        if served is None:
            return response
        return served.repeated(Repeated(forwarded, response, records, removed, self._tokens.secret, now_ms))

    def _sender_refused(self, access: Access, sender: Sender) -> Refused:
        decided = access.events[-1]
        if decided.rule == "authorizer.not.ready":
            return Refused(AUTHORIZER_NOT_READY, "the metadata log is not loaded yet")
        return Refused(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Principal {sender.principal} does not have required CLUSTER_ACTION for envelope",
        )


def _decision(api_key: int, asked: Asked[Any]) -> Decision:
    """First the right on the cluster that the API's row names, then the controller's own code or a broker."""
    request, access = asked.request, asked.access
    right, served = TABLE[api_key].cluster_right, SERVED.get(api_key)
    if right is not None and not access.allows_cluster(right):
        return _rejected(asked, api_key, CLUSTER_DENIED, MESSAGES[CLUSTER_DENIED])
    if served is not None:
        return served.decide(asked)
    if right is None:
        message = f"{ApiKey.name_of(api_key)} is not served by this controller."
        return _rejected(asked, api_key, ErrorCode.UNSUPPORTED_VERSION, message)
    return AskBroker(request, lambda response: response)


def _rejected(asked: Asked[Message], api_key: int, error_code: ErrorCode, message: str) -> Outcome:
    version = asked.access.api_version
    return Outcome((), rejection(api_key, version, asked.request, error_code, message))


def _of_a_proxy(forwarded: Forwarded, sender: Sender, image: MetadataImage) -> Verdict:
    """A client logged in at the sending proxy with the proxy's own principal: it is no user (KIP-590)."""
    header = forwarded.header
    event = events.request_refused(
        **requester(sender, forwarded),
        granted=False,
        error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        metadata_offset=image.offset,
        message=f"a client of the proxy {sender.principal} has logged in with the proxy's own principal",
    )
    answer = rejection(
        header.api_key,
        header.api_version,
        forwarded.message,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        PROXYS_PRINCIPAL,
    )
    return Verdict(Outcome((), answer), (event,))
