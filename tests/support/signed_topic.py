"""A signed metadata topic: its records, its controller, and whoever else writes to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from forwarding.controller.signing import LogSigner, state_records
from forwarding.net.log import log_entries
from proxy.metadata.acl import Acl
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.signatures import LogVerifier, Proof
from proxy.metadata.signing_keys import PublicKeys, SigningKey
from proxy.wire.message import Message
from tests.support.metadata_log import acl_record

TOPIC = "__penstock_metadata"
KEY = SigningKey(Ed25519PrivateKey.generate())


@dataclass(frozen=True)
class Record:
    """One record as it stands in the topic."""

    offset: int
    key: bytes
    value: bytes
    signature: bytes | None


@dataclass
class Topic:
    """A metadata topic, its controller, and whoever else writes to it."""

    key: SigningKey = KEY
    records: list[Record] = field(default_factory=list)
    end: int = 0

    def __post_init__(self) -> None:
        self.verifier = LogVerifier(TOPIC, PublicKeys([self.key.public]), begins=True)
        self._loader = Loader(lambda _image, _changed: None, verifier=self.verifier)
        self._loader.load_until(0)

    @classmethod
    def begun(cls, added: Acl) -> "Topic":
        """One whose controller has signed the empty state, and then an ACL."""
        topic = cls()
        topic.commits(*state_records(topic.image))
        topic.commits(acl_record(added))
        return topic

    @property
    def image(self) -> MetadataImage:
        """As the controller has it."""
        return self._loader.image

    def commits(self, *records: Message) -> list[Record]:
        """The controller writes a transaction."""
        pairs = [(entry.key, entry.value) for entry in log_entries(records)]
        signatures = LogSigner(self.key, TOPIC, self.verifier).sign(records, pairs, self.image)
        return self.has(*[(*pair, each) for pair, each in zip(pairs, signatures, strict=True)])

    def has(self, *records: tuple[bytes, bytes, bytes | None]) -> list[Record]:
        """These records are written together, and the controller reads them."""
        new = [Record(self.end + index, *each) for index, each in enumerate(records)]
        self.records += new
        self.end += len(new) + 1
        apply(self._loader, new, self.end - 1)
        return new

    def is_forged(self, *records: Message, signature: bytes | None = None) -> list[Record]:
        """Someone else writes records as the controller would, with a signature that they have found."""
        return self.has(*[(entry.key, entry.value, signature) for entry in log_entries(records)])

    def is_compacted(self) -> None:
        """The broker keeps the last record of each key."""
        last = {record.key: record for record in self.records}
        self.records = [record for record in self.records if last[record.key] is record]


def apply(loader: Loader, records: Sequence[Record], last_offset: int) -> None:
    values = [record.value for record in records]
    proofs = [Proof(record.key, record.signature) for record in records]
    for _ in loader.batch_steps(last_offset, values, [record.offset for record in records], proofs):
        pass
