"""What all sessions of a proxy share: image, authorizer, quotas, topic names, and the broker's versions.

Made by proxy.app; proxy.net replaces `basis` and `versions` when they change. All access is from one
event loop, so a session that takes `gate.basis` once works with one state of the cluster and of the settings
to the end of its request, whatever changes meanwhile.

Topic names come from the broker's Metadata responses (KIP-516): every response that has ids and names adds
to them, and so do lookups of ids that a request names (proxy.session.requests.queries). They are read when a
request names a topic by its id only. An id is never reused, so what one client's request has shown is true
for all clients, also after the topic was deleted and created again.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field, replace
from ipaddress import IPv4Network, IPv6Network

from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import Action, Authorizer, Decision
from proxy.security.delegation_tokens import TokenSecret
from proxy.security.principal_builder import DefaultPrincipalBuilder, PrincipalBuilder
from proxy.security.principal_serde import DEFAULT_SERDE, PrincipalSerde
from proxy.session.accounting.request_counts import RequestCounts
from proxy.session.authentication import SaslListener
from proxy.session.member_hosts import MemberHosts
from proxy.session.memory import Limits, RequestMemory
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import Pace, paced

Networks = tuple[IPv4Network | IPv6Network, ...]

MAX_TOPICS = 1_000_000
"""Beyond this the oldest are forgotten, and looked up again when a request names them."""

MAX_MISSING = 10_000
"""Ids that the broker does not know; beyond this the oldest are forgotten."""

MAX_SHARE_PARTITIONS = 1_000_000
"""Of the share sessions of all connections."""
SHARE_PARTITION_BYTES = 500

MAX_REMEMBERED = 1_000_000
"""Decisions, and partitions of fetch sessions, that are remembered for all connections."""
REMEMBERED_BYTES = 330

MISSING_MS = 500
"""The time until an unknown id is looked up again: the topic may just have been created."""

VersionRange = tuple[int, int]
"""Lowest and highest version, both inclusive."""


class Rights:
    """What was allowed is still allowed as long as this is the same object."""


DEFAULT_QUEUED_BYTES = 256 * 1024 * 1024
_NO_TOPIC_ID = bytes(16)
_FIRST_METADATA_WITH_TOPIC_IDS = 12
"""Older brokers have no lookup of a topic id's name."""


class TopicNames:
    """A bounded map of 16-byte topic ids to topic names, both ways, and of ids that have no name."""

    def __init__(self, max_topics: int = MAX_TOPICS, max_missing: int = MAX_MISSING) -> None:
        self._max_topics = max_topics
        self._max_missing = max_missing
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._missing: dict[bytes, int] = {}  # Id -> when its lookup failed; the oldest first.

    def learn(self, topic_id: bytes, name: str) -> None:
        """Store the name of an id; the zero id means no id and is not stored."""
        if topic_id == _NO_TOPIC_ID:
            return
        if self._names.get(topic_id) == name:
            self._ids.setdefault(name, topic_id)
            return
        if len(self._names) >= self._max_topics:
            oldest = next(iter(self._names))
            self._ids.pop(self._names.pop(oldest), None)
        self._names[topic_id] = name
        self._ids[name] = topic_id
        self._missing.pop(topic_id, None)

    def note_missing(self, topic_id: bytes, now_ms: int) -> None:
        """Remember that the broker has no topic with this id."""
        self._missing.pop(topic_id, None)
        if len(self._missing) >= self._max_missing:
            del self._missing[next(iter(self._missing))]
        self._missing[topic_id] = now_ms

    def is_missing(self, topic_id: bytes, now_ms: int) -> bool:
        """Whether the broker had no topic with this id a moment ago."""
        noted_ms = self._missing.get(topic_id)
        return noted_ms is not None and 0 <= now_ms - noted_ms < MISSING_MS

    def missing_since(self, topic_ids: Iterable[bytes], since_ms: int) -> frozenset[bytes]:
        """Return those of the ids that the broker did not have at that time or later.

        Of others without a name the lookup has failed, or is an older one: nothing is known of them.
        """
        missing = self._missing
        return frozenset([each for each in topic_ids if missing.get(each, since_ms - 1) >= since_ms])

    def forget(self, name: str) -> None:
        """Forget the id of a name that has no topic any more. The names of ids stay: ids are never reused."""
        self._ids.pop(name, None)

    def name(self, topic_id: bytes) -> str | None:
        """Return the name; None if no response has had it yet."""
        return self._names.get(topic_id)

    def without_name(self, topic_ids: Iterable[bytes]) -> frozenset[bytes]:
        """Return those of the ids that have no name."""
        return frozenset(topic_ids).difference(self._names)

    def topic_id(self, name: str) -> bytes | None:
        """Return the newest id of the name; None if there is none, or the topic is gone."""
        return self._ids.get(name)


class SharedRoom:
    """Room for what all connections remember from one request to the next: each piece takes up to half a
    kilobyte of memory, and is there as long as its connection, although the broker may know nothing of it.

    One principal gets at most half of it.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.total = 0
        """The number of pieces that have room."""
        self._by_owner: dict[Hashable, int] = {}
        self.taken: dict[object, tuple[Hashable, int]] = {}
        """What has room -> its owner, and the number of pieces."""

    def take(self, holder: object, owner: Hashable, count: int) -> bool:
        """Give so much to a holder, in place of what it had; False if that is more and there is none."""
        _, had = self.taken.get(holder, (owner, 0))
        more = count - had
        own = self._by_owner.get(owner, 0) + more
        if more > 0 and (self.total + more > self._limit or own * 2 > self._limit):
            return False
        self.drop(holder)
        if count:
            self.taken[holder] = owner, count
            self._by_owner[owner] = self._by_owner.get(owner, 0) + count
            self.total += count
        return True

    def drop(self, holder: object) -> None:
        """Take back what it has."""
        owner, count = self.taken.pop(holder, (None, 0))
        if count:
            self.total -= count
            left = self._by_owner[owner] - count
            if left:
                self._by_owner[owner] = left
            else:
                del self._by_owner[owner]


@dataclass(slots=True, eq=False)
class Basis:
    """What decisions depend on. If any of it changes, the gate gets another object; sessions notice it."""

    authorizer: Authorizer
    image: MetadataImage | None = None
    """None until the metadata log has been replayed to its high-water mark (KIP-801).

    Replaced by a newer one if that decides alike: else a client that renews its delegation token would have
    all sessions decide again, and record their counts."""
    settings_generation: int = 0
    """The number of the settings of authorizer and quotas, as in audit records."""
    rights: Rights = field(default_factory=Rights)
    """Another one with another authorizer, other ACLs, or other owners of topics."""
    allowed: dict[tuple[Hashable, Action], Decision] = field(init=False, default_factory=dict)
    """Actions that a client was allowed: all its connections need one decision. See ClientState.decide."""


@dataclass(slots=True)
class Gate:
    """The shared state of one proxy."""

    basis: Basis
    quotas: ClientQuotas
    limits: Limits
    versions: Mapping[int, VersionRange] = field(default_factory=dict)
    """API key -> (min, max), as in ApiVersions: what proxy, broker and controller all support (KIP-590)."""
    topic_names: TopicNames = field(default_factory=TopicNames)
    member_hosts: MemberHosts = field(default_factory=MemberHosts)
    share_room: SharedRoom = field(default_factory=lambda: SharedRoom(MAX_SHARE_PARTITIONS))
    """For the partitions of share sessions."""
    memory_of_decisions: SharedRoom = field(default_factory=lambda: SharedRoom(MAX_REMEMBERED))
    """For what sessions have decided."""
    unrecorded: frozenset[str] = frozenset()
    """Classes of audit records that must not be lost and for which there is no room (audit.policy)."""
    rejects_changes: bool = False
    """There is no room for records of administrative changes. Forwarded ones check this on their own."""
    proxy_principals: frozenset[str] = frozenset()
    """The principals of proxies at the controller; their administrative requests are rejected here."""
    token_secret: TokenSecret | None = None
    """None: delegation tokens are disabled."""
    memory: RequestMemory = field(default_factory=lambda: RequestMemory(DEFAULT_QUEUED_BYTES))
    """The memory of incomplete requests and unread responses."""
    finalized_features: Mapping[str, VersionRange] = field(default_factory=dict)
    supported_features: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized_features_epoch: int = -1
    cluster_id: str | None = None
    """None until the broker has reported it."""
    serde: PrincipalSerde = DEFAULT_SERDE
    """Encodes the client's principal for the controller."""
    stores_topic_configs: bool = True
    """Whether the controller stores owner and acls as configs of topics: ours does, KRaft's does not."""
    ends_acls: bool = True
    """Whether the controller knows ACLs with an end: ours does, KRaft's does not."""
    describes_topic_configs: bool = False
    """Whether DescribeConfigs returns them to requests that do not name them (topic.owner.described)."""
    auto_creates_topics: bool = False
    """Whether the broker creates a missing topic that a client requests in Metadata."""
    creates_topics_at_controller: bool = False
    """Whether such a topic is created by our controller, and not by the broker itself."""
    api_versions_bodies: dict[int, tuple[tuple[object, ...], bytes]] = field(default_factory=dict)
    """Encoded ApiVersions bodies by version, with what each was made from (requests.handshake)."""
    clock_ns: InitVar[Callable[[], int] | None] = None
    """Measures how long a session occupies the event loop; None: no session has to pause."""
    pace: Pace = field(init=False)
    """How long one session may occupy the event loop at a time."""

    def __post_init__(self, clock_ns: Callable[[], int] | None) -> None:
        self.pace = Pace(clock_ns)

    @property
    def image(self) -> MetadataImage | None:
        """The newest image. Setting it replaces the basis, unless it decides as the one before."""
        return self.basis.image

    @image.setter
    def image(self, image: MetadataImage | None) -> None:
        before, rights = self.basis.image, self.basis.rights
        if before is None or image is None or not image.has_rights_of(before):
            rights = Rights()
        elif image.decides_as(before):
            self.basis.image = image
            return
        self.basis = replace(self.basis, image=image, rights=rights)

    @property
    def authorizer(self) -> Authorizer:
        """The authorizer of the basis. Setting it replaces the basis."""
        return self.basis.authorizer

    @authorizer.setter
    def authorizer(self, authorizer: Authorizer) -> None:
        self.basis = replace(self.basis, authorizer=authorizer, rights=Rights())

    def decide_by(self, settings_generation: int, authorizer: Authorizer | None = None) -> None:
        """Apply other settings from each client's next request on; `authorizer` None: it is unchanged."""
        if authorizer is not None:
            self.authorizer = authorizer
        self.basis = replace(self.basis, settings_generation=settings_generation)

    def unnamed_topics(
        self, topic_ids: Iterable[bytes], now_ms: int, looked_up: frozenset[bytes] = frozenset()
    ) -> list[bytes]:
        """Return the ids, each once, whose names have to be looked up at the broker and were not."""
        low, high = self.versions.get(ApiKey.METADATA, (0, -1))
        if high < max(low, _FIRST_METADATA_WITH_TOPIC_IDS):
            return []
        names = self.topic_names
        return [
            topic_id
            for topic_id in paced(list(dict.fromkeys(topic_ids)))
            if names.name(topic_id) is None
            and topic_id not in looked_up
            and any(topic_id)
            and not names.is_missing(topic_id, now_ms)
        ]

    def forget_decisions(self) -> None:
        """Have sessions decide again: the authorizer may decide otherwise from now on."""
        self.authorizer = self.basis.authorizer


@dataclass(slots=True)
class ListenerPolicy:
    """The settings and counts of one listener, for all its sessions."""

    name: str
    sasl: SaslListener | None
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Node id -> host and port of that broker's proxy for clients of this listener."""
    advertised_except: tuple[str, int] | None = None
    """Set: clients get the addresses that brokers advertise, except this one, which the proxy itself uses."""
    nodes_here: frozenset[int] | None = None
    """The brokers whose clients connect to this listener; None: not known."""
    unreachable: tuple[int, ...] = ()
    """Brokers that clients of this listener do not see."""
    failed_authentication_delay_ms: int = 100
    login_timeout_ms: int = 0
    """The limit from the beginning of a connection to the end of its first login; 0: no limit."""
    early_start: bool = False
    security_protocol: str = "PLAINTEXT"
    principal_builder: PrincipalBuilder = field(default_factory=DefaultPrincipalBuilder)
    max_age_ms: int | None = None
    """connections.max.age.ms of clients that log in with their certificates (R11); None: no limit."""
    ends_with_certificate: bool = False
    """Whether their sessions end when their certificates expire."""
    balancers: Networks = ()
    """Of load balancers: each connection comes from one and begins with a PROXY protocol header. Empty: none
    does."""
    keepalive: tuple[int | None, int | None, int | None] = (None, None, None)
    """Of the sockets of clients: seconds until the first probe, seconds between two, and their number."""
    counts: RequestCounts = field(default_factory=RequestCounts)


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end of a connection."""

    connection_id: str
    host: str
    """Its address as ACLs name it."""
    address: bytes
    """The address in 4 or 16 raw bytes."""
    balancer: str | None = None
    """The address of the load balancer that forwards the connection (O14)."""
