"""The signatures of table `metadata_log`: which of its records no controller has signed (SPEC S14).

Replays the log of the topic in the driver, with the code of the proxies: what is not in effect there is not
in effect here. A process that runs reads transactions; the table has records, some of which may have been
compacted away before they were read. What was found between two signed states is in effect if the later one
has it: a controller with `metadata.unsigned: report` signs what it finds.
"""

import json
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from proxy.metadata import signing_keys
from proxy.metadata.acl import in_words
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import HiddenCredential, ScramMechanism
from proxy.metadata.signatures import Hashed, LogVerifier, Proof, Signature, Unsigned
from proxy.metadata.signing_keys import METADATA, KeyFileError, PublicKeys
from proxy.wire import metadata_records
from spark_audit import schema as S
from spark_audit.kraft.metadata_records import decode_row
from spark_audit.reconcile.unsigned import NotInEffect, VerifiedSignatures
from spark_audit.tables.files import AuditError
from spark_audit.trail.metadata_log import of_topic

OTHER_COLUMNS = "its columns are not those of the record as received"
NO_EVIDENCE = "its row has no evidence"
READ = (
    *(S.LOG_OFFSET, S.API_KEY, S.RECORD, S.RECORD_VERSION, S.BODY),
    *(S.ENTITY, S.SIGNATURE, S.RECEIVED, S.HIDDEN),
)
_HASH_BYTES = 32
NOTHING = MetadataImage.EMPTY
"""The state before the first record."""


def read_public_keys(path: str) -> PublicKeys | None:
    """Read the public keys of controllers. None if all are of others, AuditError if there are none."""
    try:
        keys = [each.key for each in signing_keys.read_public_keys(Path(path)) if each.role == METADATA]
    except KeyFileError as error:
        raise AuditError(f"--public-keys {error}") from error
    return PublicKeys(keys) if keys else None


def verify(
    metadata_log: DataFrame, topic: str, keys: PublicKeys, log_end: int | None = None
) -> VerifiedSignatures:
    """Verify the log of the topic. `log_end` is the offset after the last one that ingest has read."""
    rows = of_topic(metadata_log).where(F.col(S.LOG_OFFSET).isNotNull()).select(*READ).orderBy(S.LOG_OFFSET)
    return verify_rows(rows.toLocalIterator(prefetchPartitions=True), topic, keys, log_end)


def verify_rows(
    rows: Iterable[Row], topic: str, keys: PublicKeys, log_end: int | None = None
) -> VerifiedSignatures:
    """Verify the log as rows of READ in order of their offsets."""
    replay = _Replay(topic, keys)
    for row in rows:
        replay.read(row)
    return replay.end(log_end)


class _Replay:
    """Reads the rows in order of their offsets, in groups: the records of one transaction."""

    def __init__(self, topic: str, keys: PublicKeys) -> None:
        self._topic = topic
        self._keys = keys
        self._verifier = LogVerifier(topic, keys)
        self._result = VerifiedSignatures(len(keys), topic)
        self._is_known = True
        """Whether digests can be compared: the table has every record as it was received."""
        self._was_whole = False
        """Whether a signed state was reached."""
        self._image = self._found = NOTHING
        """By the signed records, and with `_unsigned`."""
        self._unsigned: list[tuple[Row, str]] = []
        """Since the last signed state, with the reason."""
        self._new: list[tuple[Row, str]] = []
        """The same, since the group began: `_found` does not have them yet."""
        self._group: list[Row] = []
        self._signature: Signature | None = None
        """Of the first record of the group, verified."""
        self._headers: set[bytes] = set()
        """Of all its records."""
        self._group_end = 0
        """The offset after the last record of the group before."""

    def read(self, row: Row) -> None:
        self._result.records += 1
        self._result.last = row[S.LOG_OFFSET]
        if row[S.RECEIVED] is None and row[S.HIDDEN] is None:
            if self._signature is None:
                self._result.unverified += 1
                self._is_known = False
            else:
                self._reject(row, NO_EVIDENCE)
        elif row[S.RECEIVED] is not None and decode_row(row[S.RECEIVED])[:4] != _columns(row):
            self._reject(row, OTHER_COLUMNS)
        else:
            self._place(row)

    def _place(self, row: Row) -> None:
        signature, now = Signature.decode(_bytes(row[S.SIGNATURE])), self._signature
        if signature is None:
            self._new.append((row, Unsigned.NO_SIGNATURE))
        elif now is not None and signature.is_of(now) and not self._is_copy(row):
            self._group.append(row)
            self._headers.add(bytes(row[S.SIGNATURE]))
        elif signature.key_id not in self._keys:
            self._new.append((row, Unsigned.UNKNOWN_KEY))
        elif not self._keys.verify(signature, self._topic, _key(row), _signable(row)):
            self._new.append((row, Unsigned.BAD_SIGNATURE))
        elif now is not None and signature.number <= now.number:
            self._new.append((row, Unsigned.REPLAYED))
        else:
            self._end_group()
            self._group, self._signature, self._headers = [row], signature, {bytes(row[S.SIGNATURE])}

    def _is_copy(self, row: Row) -> bool:
        # A transaction ends with a marker, which takes an offset.
        follows = row[S.LOG_OFFSET] == self._group[-1][S.LOG_OFFSET] + 1
        return not follows and bytes(row[S.SIGNATURE]) in self._headers

    def end(self, log_end: int | None) -> VerifiedSignatures:
        result, group = self._result, self._group
        before = result.missing_since
        self._end_group()
        # Without the offset of the marker, the last transaction may have been read in part only.
        if before is None and group and log_end is not None and log_end <= group[-1][S.LOG_OFFSET] + 1:
            result.missing_since = None
        result.signed = self._verifier.number
        if log_end is not None and not self._unsigned and not self._new:
            self._had_state_until(log_end)
        if result.signed:
            self._unsigned += self._new
            self._reject_unsigned()
        result.not_in_effect.sort(key=lambda each: each.offset)
        return result

    def _end_group(self) -> None:
        """Decide on a transaction, and on what was found since the last signed state."""
        group, is_first = self._group, not self._verifier.number
        if not group:
            return
        values = [_signable(row) for row in group]
        proofs = [Proof(_key(row), _bytes(row[S.SIGNATURE])) for row in group]
        offsets = [row[S.LOG_OFFSET] for row in group]
        new = [pair for pair in self._new if pair[0][S.LOG_OFFSET] < offsets[-1]]
        self._new = self._new[len(new) :]
        self._unsigned += new
        # Else compaction has removed transactions, or it is not known what the records between them did.
        if self._signature and self._signature.number == self._verifier.number + 1 and not self._unsigned:
            self._had_state_until(offsets[0])
        self._group_end = offsets[-1] + 1
        signed = both = applied(self._image, group)
        if self._unsigned:
            both = applied(self._found, sorted([*group, *(row for row, _ in new)], key=_offset))
        # Before the first signed state, compaction may have left records that have no effect.
        for state in (signed, both) if self._was_whole else (both, signed):
            if self._is_known and self._verifier.is_whole(values, proofs, state.digest):
                self._reached(state, with_unsigned=state is both and both is not signed)
                return
        faults = _exhausted(self._verifier.signed_steps(values, proofs, offsets))
        if not self._is_known and is_first:
            self._unsigned.clear()
        if faults:
            self._unsigned += [(group[index], fault) for index, fault in faults.items()]
            signed = applied(self._image, [row for i, row in enumerate(group) if i not in faults])
        if not self._is_known or signed.digest == self._verifier.last.digest:
            self._reached(signed, with_unsigned=False)
        else:
            self._image, self._found = signed, both
            self._result.missing_since = self._result.missing_since or offsets[0]

    def _had_state_until(self, offset: int) -> None:
        """Note that the state which was signed last was in effect up to this offset, exclusively."""
        if self._verifier.number and self._group_end < offset:
            self._result.states.append((self._group_end, offset, self._verifier.last.digest))

    def _reached(self, state: MetadataImage, *, with_unsigned: bool) -> None:
        if with_unsigned:
            self._unsigned.clear()
        self._reject_unsigned()
        self._image = self._found = state
        self._was_whole = True
        self._result.missing_since = None

    def _reject_unsigned(self) -> None:
        for row, reason in self._unsigned:
            self._reject(row, reason)
        self._unsigned.clear()

    def _reject(self, row: Row, reason: str) -> None:
        try:
            text = _described(row[S.RECORD], row[S.BODY], self._image)
        except Exception:  # noqa: BLE001 - see `applied`
            text = f"{row[S.RECORD]} {row[S.BODY]}"
        found = NotInEffect(row[S.LOG_OFFSET], str(reason), row[S.RECORD], row[S.BODY], text)
        self._result.not_in_effect.append(found)


def applied(image: MetadataImage, rows: Iterable[Row]) -> MetadataImage:
    """Return the state after these rows. It is no signed one if one of them cannot be applied."""
    delta, offset = MetadataDelta(image), image.offset
    for row in rows:
        offset = row[S.LOG_OFFSET]
        try:
            if row[S.RECEIVED] is not None:
                delta.replay(metadata_records.decode_record(bytes(row[S.RECEIVED])), offset)
            elif row[S.API_KEY] == S.USER_SCRAM_CREDENTIAL_RECORD:
                body = json.loads(row[S.BODY])
                fingerprint = bytes(row[S.HIDDEN])[_HASH_BYTES:]
                credential = HiddenCredential(
                    b"", b"", b"", body["iterations"], body.get("until_ms"), known=fingerprint
                )
                delta.set_credential(ScramMechanism.named(body["mechanism"]), body["name"], credential)
        # Who can write the table can make a body anything. No edit may end the job that has to find it.
        except Exception:  # noqa: BLE001, S112 - see above
            continue
    return delta.apply(offset)


def _described(record: str, text: str, image: MetadataImage) -> str:
    """Return what a record would do."""
    body = json.loads(text)
    named = defaultdict(str, {name: "(default)" if value is None else value for name, value in body.items()})
    if record == "RemoveAccessControlEntryRecord":
        known = image.acls.by_id.get(named["id"])
        return f"removal of {in_words(known, with_end=False)}" if known else f"removal of ACL {named['id']}"
    if record == "ClientQuotaRecord":
        parts = ", ".join(f"{kind} {name or '(default)'}" for kind, name in sorted(body["entity"].items()))
        limit = "removal of " if body["remove"] else f"{body['value']:.15g} as "
        return f"{limit}{body['key']} of {parts}"
    template = _TEMPLATES.get(record)
    return f"{record} {text}" if template is None else template.format_map(named)


_TEMPLATES = {
    "AccessControlEntryRecord": "{permission_type} {principal} from {host} {operation} {resource_type}"
    " {pattern_type} {resource_name}",
    "UserScramCredentialRecord": "{mechanism} credential of user {name}",
    "RemoveUserScramCredentialRecord": "removal of the {mechanism} credential of user {name}",
    "ConfigRecord": "{name}={value} of {resource_type} {resource_name}",
    "TopicRecord": "topic {name} with id {topic_id}",
    "RemoveTopicRecord": "removal of the topic with id {topic_id}",
    "RemoveDelegationTokenRecord": "removal of delegation token {token_id}",
}


def _exhausted(steps: Generator[None, None, dict[int, Unsigned]]) -> dict[int, Unsigned]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return dict(end.value)


def _offset(row: Row) -> int:
    return int(row[S.LOG_OFFSET])


def _columns(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in (S.API_KEY, S.RECORD, S.RECORD_VERSION, S.BODY))


def _key(row: Row) -> bytes:
    return (row[S.ENTITY] or "").encode()


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _signable(row: Row) -> bytes | Hashed:
    hidden = row[S.HIDDEN]
    return bytes(row[S.RECEIVED]) if hidden is None else Hashed(bytes(hidden)[:_HASH_BYTES])
