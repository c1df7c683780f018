"""The controller's row of an API, written in the file that decides it, and what a decision gets.

The rows of all files are collected by controller.py. A forwarded API without a row here is carried out by a
broker, once the principal has the right on the cluster that the API's row in proxy.session.apis names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from forwarding.controller.access import Access
from forwarding.controller.mutations import Charge
from forwarding.controller.outcome import Decision
from forwarding.controller.policy import Policies, Tried
from forwarding.controller.topic_owner import OwnerSettings
from forwarding.envelope import Forwarded
from proxy.admin.topics import TopicKey
from proxy.metadata.acl import Acl
from proxy.metadata.image import MetadataImage
from proxy.security.token_secret import TokenSecret
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.message import Message, Response

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Under Kafka's names and with its defaults; durations in ms."""

    secret: TokenSecret | None = None
    """None: there are no delegation tokens."""
    max_lifetime_ms: int = 7 * DAY_MS
    """delegation.token.max.lifetime.ms: from creation; no renewal goes beyond it."""
    expiry_time_ms: int = DAY_MS
    """delegation.token.expiry.time.ms: how long a token is good without renewal."""
    plaintext_listener: bool = False
    """Requests come in on a listener without TLS and without SASL, where Kafka hands out no secrets."""


Requested = TypeVar("Requested", bound=Message)


@dataclass(frozen=True, slots=True)
class Asked(Generic[Requested]):
    """A forwarded request, and all that its decision depends on."""

    request: Requested
    access: Access
    image: MetadataImage
    now_ms: int
    new_id: Callable[[], bytes]
    """16 random bytes, for an ACL or a token."""
    tokens: TokenSettings
    owners: OwnerSettings
    policies: Policies
    topic_names: Mapping[TopicKey, str]
    """Of the topics in `Served.topics`: those that a broker has, with their names."""
    topic_ids: Mapping[str, bytes]
    """The ids of the same topics, by name."""
    tried: Mapping[str, Tried]
    """What a broker responded to `Served.try_first`, by topic."""


@dataclass(frozen=True, slots=True)
class Repeated(Generic[Response]):
    """A forward whose change is in the log already, made by a controller that could not respond any more."""

    forwarded: Forwarded
    response: Response
    """What the request comes to if it is decided again, on an image that has the change."""
    records: Sequence[Message]
    """What the first attempt committed."""
    removed: Mapping[str, Acl]
    """The ACLs that it removed, by id."""
    secret: TokenSecret | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One API that the controller decides by code of its own."""

    key: ApiKey
    decide: Callable[[Asked[Any]], Decision]
    to_broker: bool = False
    """A broker carries it out, so it is offered in the versions that the broker speaks."""
    topics: Callable[[Any], Sequence[TopicKey]] = lambda _request: ()
    """The topics of a request whose names and ids the decision needs, and whether they exist."""
    try_first: Callable[[Policies, Any], types.CreateTopicsRequest | None] = lambda _policies, _request: None
    """The dry run that a broker makes before the decision; None: none."""
    repeated: Callable[[Repeated[Any]], Message] = lambda repeated: repeated.response
    """The response that the first attempt would have had."""
    charge: Charge | None = None
    """How it is charged to controller_mutation_rate (KIP-599); None: it mutates no partitions."""
