"""A forwarded request + the metadata image -> a decision (KIP-590 step 2, Kafka's ControllerApis).

First whoever sends an Envelope needs CLUSTER_ACTION; then the principal inside is authorised as if it had
asked itself, with the sender as forwarding principal in the context. Fed by forwarding.net.writer;
knows nothing of sockets, nor of the log that commits the records.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from forwarding.controller.access import Access
from forwarding.controller.acls import create_acls, delete_acls
from forwarding.controller.configs import alter_configs, kept_topics
from forwarding.controller.facts import of_forwarded
from forwarding.controller.outcome import AskBroker, Decision, Outcome
from forwarding.controller.policy import NO_POLICIES, Policies
from forwarding.controller.quotas import alter_client_quotas
from forwarding.controller.repeated import as_before
from forwarding.controller.scram import alter_user_scram_credentials
from forwarding.controller.tokens import (
    TokenRequest,
    TokenSettings,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from forwarding.controller.topic_owner import NO_OWNERS, OwnerSettings
from forwarding.controller.topics import (
    NO_TOPIC_ID,
    NOTHING_TRIED,
    Key,
    create_partitions,
    create_topics,
    delete_topics,
    topics_in_question,
)
from forwarding.envelope import Forwarded, Refused, Sender, unwrap
from forwarding.retry import AUTHORIZER_NOT_READY
from forwarding.versions import FORWARDABLE
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import Acl, Operation, uuid_text
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Authorizer, RequestContext
from proxy.security.principal import ANONYMOUS, Principal
from proxy.session.apis.table import rejection
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.header import RequestHeader

CLUSTER_DENIED = "Cluster authorization failed."
PROXYS_PRINCIPAL = "A proxy's principal must not be used by clients for administrative requests."
NO_TOKENS = TokenSettings()
NO_IDS: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision, and what the audit is told of how it came about."""

    decision: Decision
    events: tuple[AuditEvent, ...]


class Controller:
    """Decides; holds no state but what it was made of."""

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
        self._authorizer = authorizer
        self._deserialize_principal = deserialize_principal
        self._new_id = new_id
        self._tokens = tokens
        self._owners = owners
        self._policies = policies

    def open(
        self, envelope: Any, sender: Sender, image: MetadataImage | None
    ) -> tuple[Forwarded | Refused, tuple[AuditEvent, ...]]:
        """The request inside, if its sender may forward at all; `image` None: nothing is loaded yet."""
        context = RequestContext(
            principal=sender.principal,
            host=sender.host,
            listener=sender.listener,
            client_id=sender.client_id,
            image=image,
        )
        access = Access(self._authorizer, context, "Envelope", 0, 0)
        if not access.to_cluster(Operation.CLUSTER_ACTION):
            return self._sender_refused(access, sender), tuple(access.events)
        return unwrap(envelope, self._deserialize_principal, FORWARDABLE), ()

    def topics_in_question(self, forwarded: Forwarded) -> list[Key]:
        """The topics of which the decision will need to know whether they exist, their names and ids."""
        if forwarded.header.api_key == ApiKey.DELETE_TOPICS:
            return topics_in_question(forwarded.message)
        if forwarded.header.api_key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            return [(name, NO_TOPIC_ID) for name in kept_topics(forwarded.message)]
        return []

    def creation_to_try(self, forwarded: Forwarded) -> Any:
        """The dry run of a creation whose answer the decision will need; None: none."""
        if forwarded.header.api_key == ApiKey.CREATE_TOPICS:
            return self._policies.creation_to_try(forwarded.message)
        return None

    def decide(
        self,
        forwarded: Forwarded,
        sender: Sender,
        image: MetadataImage,
        topic_names: Mapping[Key, str],
        now_ms: int,
        topic_ids: Mapping[str, bytes] = NO_IDS,
        tried: Mapping[str, Any] = NOTHING_TRIED,
    ) -> Verdict:
        """What is to become of a request that was opened; the image is one whole, read once."""
        header = forwarded.header
        context = RequestContext(
            principal=forwarded.principal,
            host=forwarded.host,
            listener=sender.listener,
            client_id=header.client_id,
            forwarding_principal=sender.principal,
            image=image,
        )
        access = Access(
            self._authorizer,
            context,
            ApiKey.name_of(header.api_key),
            header.api_version,
            header.correlation_id,
            forwarded.forward_id,
        )
        if forwarded.principal == sender.principal != ANONYMOUS:
            return _of_a_proxy(forwarded, sender, image)
        token_decision = TOKEN_DECISIONS.get(header.api_key)
        if token_decision is not None:
            token_id = uuid_text(self._new_id())
            asked = TokenRequest(forwarded.message, access, image.tokens, self._tokens, token_id, now_ms)
            return Verdict(token_decision(asked), tuple(access.events))
        decision = self._decision(forwarded, access, image, topic_names, topic_ids, tried)
        return Verdict(decision, tuple(access.events))

    def as_before(
        self,
        forwarded: Forwarded,
        response: Any,
        records: Sequence[Any],
        removed: Mapping[str, Acl],
        now_ms: int,
    ) -> Any:
        """The answer to a forward that the log already has, from what was decided anew: see `repeated`."""
        return as_before(forwarded, response, records, removed, self._tokens.secret, now_ms)

    def _decision(
        self,
        forwarded: Forwarded,
        access: Access,
        image: MetadataImage,
        topic_names: Mapping[Key, str],
        topic_ids: Mapping[str, bytes],
        tried: Mapping[str, Any],
    ) -> Decision:
        request = forwarded.message
        match forwarded.header.api_key:
            case ApiKey.CREATE_TOPICS:
                return create_topics(
                    request, access, image, self._new_id, self._owners, self._policies, tried
                )
            case ApiKey.DELETE_TOPICS:
                return delete_topics(request, access, topic_names, image)
            case ApiKey.CREATE_PARTITIONS:
                return create_partitions(request, access)
            case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return alter_configs(request, access, image, self._new_id, topic_ids, self._policies)
        return self._cluster_decision(forwarded.header, request, access, image)

    def _cluster_decision(
        self, header: RequestHeader, request: Any, access: Access, image: MetadataImage
    ) -> Decision:
        """The APIs that one right on the cluster opens as a whole."""
        api_key, version = header.api_key, header.api_version
        operation = CLUSTER_RIGHTS.get(api_key)
        if operation is None:
            message = f"{ApiKey.name_of(api_key)} is not served by this controller."
            return Outcome((), rejection(api_key, version, request, ErrorCode.UNSUPPORTED_VERSION, message))
        if not access.to_cluster(operation):
            return Outcome(
                (),
                rejection(api_key, version, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, CLUSTER_DENIED),
            )
        match api_key:
            case ApiKey.CREATE_ACLS:
                return create_acls(request, image, self._new_id)
            case ApiKey.DELETE_ACLS:
                return delete_acls(request, image)
            case ApiKey.ALTER_CLIENT_QUOTAS:
                return alter_client_quotas(request, image)
            case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
                return alter_user_scram_credentials(request, image)
        return AskBroker(request, lambda answer: answer)

    def _sender_refused(self, access: Access, sender: Sender) -> Refused:
        decided = access.events[-1]
        if decided.rule == "authorizer.not.ready":
            return Refused(AUTHORIZER_NOT_READY, "the metadata log is not loaded yet")
        return Refused(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Principal {sender.principal} does not have required CLUSTER_ACTION for envelope",
        )


def _of_a_proxy(forwarded: Forwarded, sender: Sender, image: MetadataImage) -> Verdict:
    """A client logged in at the sending proxy with the proxy's own principal: it is no user (KIP-590)."""
    header = forwarded.header
    event = of_forwarded("request_refused", sender, forwarded)
    event.granted = False
    event.error_code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    event.metadata_offset = image.offset
    event.message = f"a client of the proxy {sender.principal} has logged in with the proxy's own principal"
    answer = rejection(
        header.api_key,
        header.api_version,
        forwarded.message,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        PROXYS_PRINCIPAL,
    )
    return Verdict(Outcome((), answer), (event,))


CLUSTER_RIGHTS: dict[int, Operation] = {
    ApiKey.CREATE_ACLS: Operation.ALTER,
    ApiKey.DELETE_ACLS: Operation.ALTER,
    ApiKey.ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Operation.ALTER,
    ApiKey.ELECT_LEADERS: Operation.ALTER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    ApiKey.UPDATE_FEATURES: Operation.ALTER,
}
"""The right on the cluster each API needs, as Kafka's ControllerApis asks for it."""

TOKEN_DECISIONS: dict[int, Callable[[TokenRequest], Outcome]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire_delegation_token,
}
"""Whose token it is decides, not a right on the cluster."""

SERVED = frozenset((*CLUSTER_RIGHTS, *TOKEN_DECISIONS)) | {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
}
"""What this controller takes inside an Envelope."""

TO_BROKER = SERVED - {
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    *TOKEN_DECISIONS,
}
"""Of these, the ones a broker carries out: they are offered in the versions it speaks."""
