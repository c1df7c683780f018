"""Decides forwarded requests on the metadata image (KIP-590 step 2, Kafka's ControllerApis).

The sender of an Envelope needs CLUSTER_ACTION. Then the principal inside is authorized like a direct client,
with the sender as forwarding principal in the context. forwarding.net.request_processor calls this; it knows
nothing of sockets, nor of the log that commits the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from forwarding import controller
from forwarding.controller.api import (
    ControllerApi,
    ControllerOutcome,
    Decision,
    DecisionInputs,
    DuplicateForward,
    SendToBroker,
    TokenSettings,
)
from forwarding.controller.audit_events import requester
from forwarding.controller.authorization import ForwardedAuthorization
from forwarding.controller.policy import NO_POLICIES, DryRunResult, Policies
from forwarding.envelope import AUTHORIZER_NOT_READY, ForwardedRequest, RejectedEnvelope, Sender, unwrap
from proxy.admin.objects import Known
from proxy.admin.rejection import MESSAGES
from proxy.admin.topics import TopicKey
from proxy.audit import events
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Acl, Operation
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Authorizer, RequestContext
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.protected import with_deciding_groups
from proxy.session.apis.table import FORWARDED, TABLE, collected, rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
PROXYS_PRINCIPAL = "A proxy's principal must not be used by clients for administrative requests."
NO_TOKENS = TokenSettings()
NO_IDS: Mapping[str, bytes] = MappingProxyType({})
NO_DRY_RUN: Mapping[str, DryRunResult] = MappingProxyType({})

CONTROLLER_APIS: dict[int, ControllerApi] = collected(controller, "CONTROLLER_APIS")
"""The forwarded APIs that the controller decides with its own code."""

TO_BROKER = frozenset(
    key for key in FORWARDED if key not in CONTROLLER_APIS or CONTROLLER_APIS[key].to_broker
)
"""The APIs that a broker carries out: they are offered in the versions that the broker supports."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, and the audit events of its authorization."""

    decision: Decision
    events: tuple[AuditEvent, ...]


class LookedUpTopic(Protocol):
    """A topic that was looked up."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ActiveAuthorizer:
    """The authorizer in effect and its settings generation; one request uses the same from start to end."""

    authorizer: Authorizer
    settings_generation: int = 0


class Controller:
    """Decides forwarded requests. It holds no state except the settings."""

    def __init__(
        self,
        authorizer: Authorizer,
        deserialize_principal: Callable[[bytes], Principal],
        new_id: Callable[[], bytes],
        tokens: TokenSettings = NO_TOKENS,
        creators_own: bool = False,
        policies: Policies = NO_POLICIES,
    ) -> None:
        """`new_id` returns 16 random bytes, for an ACL or a token."""
        self._current = ActiveAuthorizer(authorizer)
        self._deserialize_principal = deserialize_principal
        self._new_id = new_id
        self._tokens = tokens
        self._creators_own = creators_own
        self._policies = policies

    def decide_by(self, authorizer: Authorizer, settings_generation: int) -> None:
        """Use another authorizer from the next request on. Audit records name `settings_generation`."""
        self._current = ActiveAuthorizer(authorizer, settings_generation)

    def open(
        self, envelope: types.EnvelopeRequest, sender: Sender, image: MetadataImage | None
    ) -> tuple[ForwardedRequest | RejectedEnvelope, tuple[AuditEvent, ...]]:
        """Return the request inside if its sender may forward, and audit events.

        `image`: None before it is loaded.
        """
        rejected, recorded = self.sender_rejected(sender, image)
        if rejected is not None:
            return rejected, recorded
        return unwrap(envelope, self._deserialize_principal, FORWARDED), ()

    def sender_rejected(
        self, sender: Sender, image: MetadataImage | None
    ) -> tuple[RejectedEnvelope | None, tuple[AuditEvent, ...]]:
        """Return why this sender may not forward, None if it may; and audit events."""
        current = self._current
        context = RequestContext(
            principal=sender.principal,
            host=sender.host,
            listener=sender.listener,
            client_id=sender.client_id,
            image=image,
            settings_generation=current.settings_generation,
        )
        context = with_deciding_groups(current.authorizer, context)
        authorization = ForwardedAuthorization(current.authorizer, context, "Envelope", 0, 0)
        if authorization.allows_cluster(Operation.CLUSTER_ACTION):
            return None, ()
        rejected = RejectedEnvelope(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Principal {sender.principal} does not have required CLUSTER_ACTION for envelope",
        )
        if authorization.events[-1].rule == "authorizer.not.ready":
            rejected = RejectedEnvelope(AUTHORIZER_NOT_READY, "the metadata log is not loaded yet")
        return rejected, tuple(authorization.events)

    def topics_to_look_up(self, forwarded: ForwardedRequest) -> Sequence[TopicKey]:
        """Return the topics whose existence, names and ids the decision needs."""
        controller_api = CONTROLLER_APIS.get(forwarded.header.api_key)
        return () if controller_api is None else controller_api.topics(forwarded.message)

    def dry_run_request(self, forwarded: ForwardedRequest) -> types.CreateTopicsRequest | None:
        """Return the dry run whose response the decision needs, or None."""
        controller_api = CONTROLLER_APIS.get(forwarded.header.api_key)
        return None if controller_api is None else controller_api.dry_run(self._policies, forwarded.message)

    def decide(
        self,
        forwarded: ForwardedRequest,
        sender: Sender,
        image: MetadataImage,
        topic_names: Mapping[TopicKey, str],
        now_ms: int,
        topic_ids: Mapping[str, bytes] = NO_IDS,
        dry_run_results: Mapping[str, DryRunResult] = NO_DRY_RUN,
    ) -> Verdict:
        """Decide an opened request on one image."""
        header, current = forwarded.header, self._current
        context = RequestContext(
            principal=forwarded.principal,
            host=forwarded.host,
            listener=sender.listener,
            client_id=header.client_id,
            forwarding_principal=sender.principal,
            image=image,
            settings_generation=current.settings_generation,
        )
        context = with_deciding_groups(current.authorizer, context)
        authorization = ForwardedAuthorization(
            current.authorizer,
            context,
            ApiKey.name_of(header.api_key),
            header.api_version,
            header.correlation_id,
            forwarded.forward_id,
        )
        if forwarded.principal == sender.principal != ANONYMOUS:
            return _proxy_principal_rejected(forwarded, sender, image)
        inputs = DecisionInputs(
            request=forwarded.message,
            authorization=authorization,
            image=image,
            now_ms=now_ms,
            new_id=self._new_id,
            tokens=self._tokens,
            creators_own=self._creators_own,
            policies=self._policies,
            topic_names=topic_names,
            topic_ids=topic_ids,
            dry_run_results=dry_run_results,
        )
        return Verdict(_decision(header.api_key, inputs), tuple(authorization.events))

    def known(self, image: MetadataImage, topics: Mapping[TopicKey, LookedUpTopic]) -> Known:
        """Return what is known of the objects of a request; `topics` are those that were looked up."""

        def name_of(topic_id: bytes) -> str | None:
            topic = topics.get((None, topic_id))
            return None if topic is None else topic.name

        return Known(image, name_of, self._tokens.secret)

    def duplicate_response(
        self,
        forwarded: ForwardedRequest,
        response: Message,
        records: Sequence[Message],
        removed: Mapping[str, Acl],
        now_ms: int,
    ) -> Message:
        """Return the response to a forward that the log already has.

        Parameters are as in DuplicateForward.
        """
        controller_api = CONTROLLER_APIS.get(forwarded.header.api_key)
        if controller_api is None:
            return response
        return controller_api.duplicate_response(
            DuplicateForward(forwarded, response, records, removed, self._tokens.secret, now_ms)
        )


def _decision(api_key: int, inputs: DecisionInputs[Any]) -> Decision:
    """Check the right on the cluster that the API's row names, then call the row's code or a broker."""
    request, authorization = inputs.request, inputs.authorization
    right, controller_api = TABLE[api_key].cluster_right, CONTROLLER_APIS.get(api_key)
    if right is not None and not authorization.allows_cluster(right):
        return _rejected(inputs, api_key, CLUSTER_DENIED, MESSAGES[CLUSTER_DENIED])
    if controller_api is not None:
        return controller_api.decide(inputs)
    if right is None:
        message = f"{ApiKey.name_of(api_key)} is not served by this controller."
        return _rejected(inputs, api_key, ErrorCode.UNSUPPORTED_VERSION, message)
    return SendToBroker(request, lambda response: response)


def _rejected(
    inputs: DecisionInputs[Message], api_key: int, error_code: ErrorCode, message: str
) -> ControllerOutcome:
    version = inputs.authorization.api_version
    return ControllerOutcome((), rejection(api_key, version, inputs.request, error_code, message))


def _proxy_principal_rejected(forwarded: ForwardedRequest, sender: Sender, image: MetadataImage) -> Verdict:
    """Reject a client that logged in with the principal of the proxy itself: that is no user (KIP-590)."""
    header = forwarded.header
    event = events.request_refused(
        **requester(sender, forwarded),
        granted=False,
        error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        metadata_offset=image.offset,
        message=f"a client of the proxy {sender.principal} has logged in with the proxy's own principal",
    )
    response = rejection(
        header.api_key,
        header.api_version,
        forwarded.message,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        PROXYS_PRINCIPAL,
    )
    return Verdict(ControllerOutcome((), response), (event,))
