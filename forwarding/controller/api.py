"""The controller's row of an API, in the file that decides it, the inputs of a decision, and its result.

controller.py collects the rows of all files. A forwarded API without a row here is carried out by a broker,
once the principal has the right on the cluster that the API's row in proxy.session.apis names. A result is
records for the metadata log and the response, or a request to a broker; forwarding.net.request_processor
carries it out. A decision changes nothing by itself: the log commits the records, and replay applies them to
the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from forwarding.controller.authorization import ForwardedAuthorization
from forwarding.controller.mutations import Charge
from forwarding.controller.policy import DryRunResult, Policies
from forwarding.controller.topic_owner import OwnerAndAcls
from forwarding.envelope import ForwardedRequest
from proxy.admin.topics import TopicKey
from proxy.metadata.acl import Acl
from proxy.metadata.image import MetadataImage
from proxy.security.delegation_tokens import TokenSecret
from proxy.session.apis.table import rejection
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message, Response

MAX_RECORDS_PER_REQUEST = 10_000
"""The limit of KRaft's controller: a request is one atomic batch of records."""


@dataclass(frozen=True, slots=True)
class ControllerOutcome:
    """Append these records as one transaction, then send this response."""

    records: tuple[Any, ...]
    """Wire messages of metadata records, in replay order."""
    response: Any


def over_limit(api_key: int, request: Message, what: str) -> ControllerOutcome:
    """Reject a request that would write more than MAX_RECORDS_PER_REQUEST records."""
    message = f"{what}, the limit is {MAX_RECORDS_PER_REQUEST}."
    # These APIs write records, and their rejections are the same in all versions.
    return ControllerOutcome((), rejection(api_key, 0, request, ErrorCode.POLICY_VIOLATION, message))


Brokers = TypeVar("Brokers", bound=Message)
"""The class of the broker's response, and of the merged one."""
Seen = TypeVar("Seen", bound=Message, contravariant=True)


class FollowUp(Protocol[Seen]):
    """The records to commit after a broker has carried out its part."""

    @property
    def changes(self) -> Mapping[str, OwnerAndAcls]:
        """The owners and ACLs to set, by topic."""
        ...

    def acl_records(self, image: MetadataImage) -> Sequence[Message]:
        """Return the ACL records that there will be if the broker carries out all of its part."""
        ...

    def unknown_ids(self, response: Seen) -> list[str]:
        """Return the topics whose ids the records need and the merged response lacks."""
        ...

    def records(
        self, response: Seen, image: MetadataImage, topic_ids: Mapping[str, bytes]
    ) -> tuple[Message, ...]:
        """Return the records to commit before the response is sent: none for what the broker rejected.

        `image` is the newest image, `topic_ids` the ids that were looked up.
        """
        ...


@dataclass(frozen=True, slots=True)
class SendToBroker(Generic[Brokers]):
    """Send `request` to a broker; `merge` turns the broker's response into the client's."""

    request: Any
    """The client's request, reduced to the allowed resources."""
    merge: Callable[[Brokers], Brokers]
    """Adds the rejected resources to the broker's response, in the order of the request."""
    follow_up: FollowUp[Brokers] | None = None


Decision = ControllerOutcome | SendToBroker[Any]


DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Delegation token settings with Kafka's names and defaults; durations in ms."""

    secret: TokenSecret | None = None
    """None: delegation tokens are disabled."""
    max_lifetime_ms: int = 7 * DAY_MS
    """delegation.token.max.lifetime.ms: counted from creation; no renewal goes beyond it."""
    expiry_time_ms: int = DAY_MS
    """delegation.token.expiry.time.ms: how long a token is valid without renewal."""
    plaintext_listener: bool = False
    """The listener has neither TLS nor SASL. Kafka creates no tokens on such a listener."""


Requested = TypeVar("Requested", bound=Message)


@dataclass(frozen=True, slots=True)
class DecisionInputs(Generic[Requested]):
    """A forwarded request, and everything that its decision depends on."""

    request: Requested
    authorization: ForwardedAuthorization
    image: MetadataImage
    now_ms: int
    new_id: Callable[[], bytes]
    """Returns 16 random bytes, for an ACL or a token."""
    tokens: TokenSettings
    creators_own: bool
    """topic.owner.creator: the creator of a topic owns it, unless the request names an owner."""
    policies: Policies
    topic_names: Mapping[TopicKey, str]
    """The topics of `ControllerApi.topics` that exist at a broker, with their names."""
    topic_ids: Mapping[str, bytes]
    """The ids of the same topics, by name."""
    dry_run_results: Mapping[str, DryRunResult]
    """A broker's response to `ControllerApi.dry_run`, by topic."""


@dataclass(frozen=True, slots=True)
class DuplicateForward(Generic[Response]):
    """A forward whose change an earlier controller has committed without having sent the response."""

    forwarded: ForwardedRequest
    response: Response
    """The response if the request is decided again, on an image that has the change."""
    records: Sequence[Message]
    """The records that the first attempt committed."""
    removed: Mapping[str, Acl]
    """The ACLs that the first attempt removed, by id."""
    secret: TokenSecret | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi:
    """One API that the controller decides with its own code."""

    key: ApiKey
    decide: Callable[[DecisionInputs[Any]], Decision]
    writes: tuple[str, ...] = ()
    """The records of the metadata log that a request may come to; spark_audit.trail.claims has them, too."""
    to_broker: bool = False
    """A broker carries it out, so it is offered in the versions that the broker supports."""
    topics: Callable[[Any], Sequence[TopicKey]] = lambda _request: ()
    """Returns the topics of a request whose existence, names and ids the decision needs."""
    dry_run: Callable[[Policies, Any], types.CreateTopicsRequest | None] = lambda _policies, _request: None
    """Returns the dry run that a broker makes before the decision, or None."""
    duplicate_response: Callable[[DuplicateForward[Any]], Message] = lambda duplicate: duplicate.response
    """Returns the response that the first attempt would have sent."""
    charge: Charge | None = None
    """How it is charged to controller_mutation_rate (KIP-599); None: it changes no partitions."""
