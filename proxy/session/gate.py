"""What all sessions of a proxy share: the image, who decides, who may spend how much, what the broker speaks.

Put together by proxy.gate_setup; proxy.net replaces `basis` and `versions` as they change. All access is from
one event loop, so a session that takes `gate.basis` once works on one state of the cluster and of the
settings to the end of its request, whatever is in effect meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from proxy.metadata.acls_image import AclsImage
from proxy.metadata.image import MetadataImage
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import Authorizer
from proxy.security.principal_builder import DefaultPrincipalBuilder, PrincipalBuilder
from proxy.security.principal_serde import DEFAULT_SERDE, PrincipalSerde
from proxy.security.token_secret import TokenSecret
from proxy.session.accounting.request_counts import RequestCounts
from proxy.session.authentication import SaslListener
from proxy.session.memory import RequestMemory
from proxy.session.topic_names import TopicNames
from proxy.wire.api_keys import ApiKey
from proxy.wire.work import Pace, paced

VersionRange = tuple[int, int]
Rights = tuple[int, AclsImage | None]
"""Compared by its parts: the ACLs by identity."""

DEFAULT_QUEUED_BYTES = 256 * 1024 * 1024
DEFAULT_MAX_ELEMENTS = 50_000
_FIRST_METADATA_WITH_TOPIC_IDS = 12
"""Older brokers cannot be asked for the name of a topic id."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may make us hold, in bytes."""

    socket_request_max_bytes: int
    decoded_request_max_bytes: int
    """Of a request that is decoded whole; produce requests of one topic are not."""
    sasl_server_max_receive_size: int
    """Of any request before the client is known."""
    decoded_request_max_elements: int = DEFAULT_MAX_ELEMENTS
    """In all arrays of a request that is decoded whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """What decisions rest on. When any of it changes, the gate gets another object, which sessions notice."""

    authorizer: Authorizer
    image: MetadataImage | None = None
    """None until the metadata log has been replayed to its high-water mark (KIP-801)."""
    settings_generation: int = 0
    """Of the settings that the authorizer and the quotas were made of: the number that audit records name."""
    authorizer_changes: int = 0
    """How often another authorizer has come, or what it decides by besides the image has changed."""

    @property
    def rights(self) -> "Rights":
        """As long as this is the same, what was allowed is."""
        return self.authorizer_changes, None if self.image is None else self.image.acls


@dataclass(slots=True)
class Gate:
    """The shared state of one proxy."""

    basis: Basis
    quotas: ClientQuotas
    limits: Limits
    versions: Mapping[int, VersionRange] = field(default_factory=dict)
    """What ApiVersions tells: api key -> (min, max), the intersection of all who have a say (KIP-590)."""
    topic_names: TopicNames = field(default_factory=TopicNames)
    unrecorded: frozenset[str] = frozenset()
    """Classes of audit records that there is no room for and that must not be missing (audit.policy)."""
    refuses_changes: bool = False
    """The same for records of administrative changes. Whether one is forwarded is asked where it is."""
    proxy_principals: frozenset[str] = frozenset()
    """What proxies are called at the controller; clients make no administrative requests by these names."""
    token_secret: TokenSecret | None = None
    """None: there are no delegation tokens here."""
    memory: RequestMemory = field(default_factory=lambda: RequestMemory(DEFAULT_QUEUED_BYTES))
    """Of incomplete requests and unread responses."""
    pace: Pace = field(default_factory=Pace)
    """For how long one session may hold the event loop at a time."""
    finalized_features: Mapping[str, VersionRange] = field(default_factory=dict)
    supported_features: Mapping[str, VersionRange] = field(default_factory=dict)
    finalized_features_epoch: int = -1
    serde: PrincipalSerde = DEFAULT_SERDE
    """How the controller is told who asks."""
    keeps_topic_configs: bool = True
    """Whether the controller keeps owner and acls as configs of topics: ours does, KRaft's does not."""
    auto_creates_topics: bool = False
    """Whether the broker makes a missing topic that a client asks after."""
    makes_topics_at_controller: bool = False
    """Whether such a topic is made through our controller, and not by the broker itself."""
    api_versions_told: dict[int, tuple[tuple[object, ...], bytes]] = field(default_factory=dict)
    """Bodies of answers to ApiVersions by its version, and what each was made of; api_versions keeps them."""

    @property
    def image(self) -> MetadataImage | None:
        """Of the basis. Setting it replaces the basis."""
        return self.basis.image

    @image.setter
    def image(self, image: MetadataImage | None) -> None:
        self.basis = replace(self.basis, image=image)

    @property
    def authorizer(self) -> Authorizer:
        """Of the basis. Setting it replaces the basis."""
        return self.basis.authorizer

    @authorizer.setter
    def authorizer(self, authorizer: Authorizer) -> None:
        self.basis = replace(
            self.basis, authorizer=authorizer, authorizer_changes=self.basis.authorizer_changes + 1
        )

    def decide_by(self, settings_generation: int, authorizer: Authorizer | None = None) -> None:
        """Other settings from each client's next request on; `authorizer` None: it stays."""
        if authorizer is not None:
            self.authorizer = authorizer
        self.basis = replace(self.basis, settings_generation=settings_generation)

    def unnamed_topics(self, topic_ids: Iterable[bytes], now_ms: int) -> list[bytes]:
        """Those of the ids, each once, whose names the broker should be asked for."""
        low, high = self.versions.get(ApiKey.METADATA, (0, -1))
        if high < max(low, _FIRST_METADATA_WITH_TOPIC_IDS):
            return []
        names = self.topic_names
        return [
            topic_id
            for topic_id in paced(list(dict.fromkeys(topic_ids)))
            if names.name(topic_id) is None and any(topic_id) and not names.is_missing(topic_id, now_ms)
        ]

    def forget_decisions(self) -> None:
        """The authorizer may decide otherwise from now on: sessions ask it again."""
        self.authorizer = self.basis.authorizer


@dataclass(slots=True)
class ListenerPolicy:
    """What holds for all sessions of one listener."""

    name: str
    sasl: SaslListener | None
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Node id -> host and port under which clients of this listener reach that broker's proxy."""
    kept_but: tuple[str, int] | None = None
    """Set: addresses are left as the broker tells them, but for this one, by which we reach it ourselves."""
    unreachable: tuple[int, ...] = ()
    """Brokers there are that clients of this listener are not told of."""
    failed_authentication_delay_ms: int = 100
    login_timeout_ms: int = 0
    """From the beginning of a connection to the end of its first login; 0: no limit."""
    early_start: bool = False
    security_protocol: str = "PLAINTEXT"
    principal_builder: PrincipalBuilder = field(default_factory=DefaultPrincipalBuilder)
    counts: RequestCounts = field(default_factory=RequestCounts)


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end of a connection."""

    connection_id: str
    host: str
    """Its address as ACLs name it."""
    address: bytes
    """The same, 4 or 16 raw bytes."""
