"""A signed metadata log: records that no controller has signed do not count, however they are written."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from forwarding.controller.signing import LogSigner, state_records
from forwarding.net.log import log_entries
from proxy.audit.record import AuditEvent
from proxy.metadata.acl import PermissionType
from proxy.metadata.delta import MetadataError, of_credential
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.metadata.scram import HiddenCredential, ScramCredential, ScramMechanism
from proxy.metadata.signatures import Hashed, LogVerifier, Signature, Unsigned
from proxy.metadata.signing_keys import KeyFileError, PublicKeys, SigningKey
from proxy.net.metadata import seen_number
from proxy.net.metadata.seen_number import FILE, SeenNumber
from proxy.net.pages.log_report import LogReport
from proxy.wire import types
from proxy.wire.message import Message
from tests.support.metadata_log import acl, acl_record, quota_record, removed_acl_record, values
from tests.support.signed_topic import KEY, TOPIC, Record, Topic, apply
from tests.support.waiting import until

pytestmark = pytest.mark.spec("S14")

ALICE = acl("orders", principal="User:alice")
EVE = acl("payroll", principal="User:eve")
OTHER_KEY = SigningKey(Ed25519PrivateKey.generate())


def follower(topic: Topic, *, rejects: bool = True) -> tuple[Loader, LogVerifier]:
    """A proxy that has read the whole topic, at once as it does at its start."""
    verifier = LogVerifier(TOPIC, PublicKeys([topic.key.public]), rejects=rejects)
    loader = Loader(lambda _image, _changed: None, verifier=verifier)
    loader.load_until(topic.end)
    if topic.end:
        apply(loader, topic.records, topic.end - 1)
    return loader, verifier


def names(image: MetadataImage) -> set[str]:
    return {each.resource_name for each in image.acls.by_id.values()}


def reasons(verifier: LogVerifier) -> set[Unsigned]:
    return {reason for found in verifier.unsigned for reason in found.reasons}


def test_what_a_controller_has_signed_is_in_effect_at_once_and_after_a_start() -> None:
    topic = Topic.begun(ALICE)
    following, _ = follower(topic)
    new = topic.commits(acl_record(EVE), quota_record(QuotaEntity(user=DEFAULT), "producer_byte_rate", 7.0))

    apply(following, new, topic.end - 1)
    started, verifier = follower(topic)

    assert names(following.image) == names(started.image) == {"orders", "payroll"}
    assert following.image.digest == started.image.digest == topic.image.digest
    assert (verifier.number, verifier.unsigned) == (3, [])


def image_of(*records: Message) -> MetadataImage:
    loader = Loader(lambda _image, _changed: None)
    loader.load_until(0)
    return loader.batch(len(records) - 1, values(*records))


def forged_in_each_way() -> dict[str, tuple[Message, bytes | None, Unsigned]]:
    stolen = Topic(OTHER_KEY).commits(acl_record(EVE))[0].signature
    of_another_record = Topic().commits(acl_record(ALICE))[0].signature
    return {
        "without a signature": (acl_record(EVE), None, Unsigned.NO_SIGNATURE),
        "with a header of another form": (acl_record(EVE), b"\x02" + bytes(112), Unsigned.NO_SIGNATURE),
        "with another key": (acl_record(EVE), stolen, Unsigned.UNKNOWN_KEY),
        "with the signature of another record": (acl_record(EVE), of_another_record, Unsigned.BAD_SIGNATURE),
        "the removal of what a controller made": (removed_acl_record(ALICE), None, Unsigned.NO_SIGNATURE),
        "a change of what a controller made": (
            acl_record(replace(ALICE, principal="User:eve")),
            None,
            Unsigned.NO_SIGNATURE,
        ),
        "a kind that nobody knows": (types.BrokerRegistrationChangeRecord(), None, Unsigned.NO_SIGNATURE),
    }


@pytest.mark.parametrize("way", forged_in_each_way())
def test_what_no_controller_has_signed_is_not_in_effect_and_is_reported(way: str) -> None:
    record, signature, reason = forged_in_each_way()[way]
    topic = Topic.begun(ALICE)
    following, live = follower(topic)
    value = b"\x01\x7f\x00" if "nobody knows" in way else log_entries([acl_record(EVE)])[0].value
    key = b"odd"
    if "nobody knows" not in way:
        ((key, value),) = [(entry.key, entry.value) for entry in log_entries([record])]
    forged = topic.has((key, value, signature))

    apply(following, forged, topic.end - 1)
    started, verifier = follower(topic)

    for image in (following.image, started.image, topic.image):
        assert {each.principal for each in image.acls.by_id.values()} == {"User:alice"}
    assert reasons(live) == reasons(verifier) == reasons(topic.verifier) == {reason}
    assert {found.first_offset for found in (*live.unsigned, *verifier.unsigned)} == {forged[0].offset}
    assert not live.unsigned[0].in_effect


@pytest.mark.parametrize(
    "mark", [types.BeginTransactionRecord(), types.EndTransactionRecord(), types.AbortTransactionRecord()]
)
def test_a_mark_that_nobody_has_signed_holds_no_revocation_back(mark: Message) -> None:
    topic = Topic.begun(ALICE)
    following, live = follower(topic)

    apply(following, topic.has((b"odd", values(mark)[0], None)), topic.end - 1)
    apply(following, topic.commits(removed_acl_record(ALICE)), topic.end - 1)
    started, verifier = follower(topic)

    assert names(following.image) == names(started.image) == names(topic.image) == set()
    assert reasons(live) == reasons(verifier) == {Unsigned.NO_SIGNATURE}


def test_a_level_that_nobody_has_signed_takes_no_effect_from_networks() -> None:
    """The state after it has the same digest, so a process that starts saw nothing wrong with the log."""
    topic, mallory = Topic.begun(ALICE), acl("orders", principal="User:mallory", host="10.0.0.0/8")
    topic.has((b"odd", values(types.FeatureLevelRecord(name="metadata.version", feature_level=28))[0], None))
    topic.commits(acl_record(replace(mallory, permission_type=PermissionType.DENY)))
    started, verifier = follower(topic)

    assert started.image.acls.networks
    assert len(started.image.acls.acls_of_network) == 1
    assert reasons(verifier) == {Unsigned.NO_SIGNATURE}


def test_a_signed_record_that_is_written_again_brings_nothing_back() -> None:
    topic = Topic.begun(ALICE)
    (made,) = topic.records[-1:]
    topic.commits(removed_acl_record(ALICE))
    following, live = follower(topic)

    again = topic.has((made.key, made.value, made.signature))
    apply(following, again, topic.end - 1)
    started, verifier = follower(topic)

    assert names(following.image) == names(started.image) == names(topic.image) == set()
    assert reasons(live) == reasons(verifier) == {Unsigned.REPLAYED}


def test_a_copy_that_compaction_keeps_is_old_once_the_controller_has_signed_again() -> None:
    topic = Topic.begun(ALICE)
    (made,) = topic.records[-1:]
    topic.commits(removed_acl_record(ALICE))
    topic.has((made.key, made.value, made.signature))
    assert topic.verifier.overwritten == {made.key}

    topic.commits(types.NoOpRecord())
    topic.is_compacted()

    with pytest.raises(MetadataError, match="missing or were changed"):
        follower(topic)


def test_a_controller_goes_on_after_a_forged_record_and_followers_with_it() -> None:
    topic = Topic.begun(ALICE)
    following, _ = follower(topic)
    forged = topic.is_forged(acl_record(EVE))
    apply(following, forged, topic.end - 1)
    new = topic.commits(acl_record(acl("invoices")))

    apply(following, new, topic.end - 1)

    assert names(following.image) == names(follower(topic)[0].image) == {"orders", "invoices"}


def test_a_compacted_log_is_whole_and_one_that_lacks_a_signed_record_is_not() -> None:
    topic = Topic.begun(ALICE)
    for limit in (1.0, 2.0, 3.0):
        topic.commits(quota_record(QuotaEntity(user="alice"), "producer_byte_rate", limit))
    topic.commits(removed_acl_record(ALICE))
    topic.is_compacted()
    assert follower(topic)[0].image.digest == topic.image.digest

    del topic.records[1]
    with pytest.raises(MetadataError, match="signed records before them are missing or were changed"):
        follower(topic)


def test_a_log_that_was_cut_is_not_followed_back() -> None:
    topic = Topic.begun(ALICE)
    following, _ = follower(topic)
    cut = topic.records[:1]

    following.reload_until(2)
    with pytest.raises(MetadataError, match="transaction 1, and 2 was applied here before: it was cut"):
        apply(following, cut, 1)
    assert names(following.image) == {"orders"}


def test_a_log_that_was_made_anew_and_is_empty_leaves_what_is_in_effect() -> None:
    following, _ = follower(Topic.begun(ALICE))

    following.reload_until(0)

    assert names(following.image) == {"orders"}


def test_without_any_signature_nothing_is_known_of_a_log() -> None:
    topic = Topic()
    empty, _ = follower(topic)
    topic.is_forged(acl_record(EVE))
    unsigned, _ = follower(topic)

    assert (empty.ready, unsigned.ready) == (False, False)
    # The controller would not begin such a log either.
    assert topic.verifier.is_waiting


def test_a_log_of_an_earlier_release_is_reported_signed_once_and_rejected_from_then_on() -> None:
    old = Topic()
    old.is_forged(acl_record(ALICE), acl_record(EVE))
    old.is_forged(quota_record(QuotaEntity(client_id="c"), "request_percentage", 5.0))
    reporting = LogVerifier(TOPIC, PublicKeys([KEY.public]), rejects=False, begins=True)
    controller = Loader(lambda _image, _changed: None, verifier=reporting)
    controller.load_until(old.end)
    apply(controller, old.records, old.end - 1)
    assert (names(controller.image), reporting.unsigned[0].in_effect) == ({"orders", "payroll"}, True)
    assert str(reporting.unsigned[0]) == "3 records from offset 0 to 3: no signature; in effect"

    topic = Topic(records=list(old.records), end=old.end)
    records = list(state_records(controller.image))
    signer = LogSigner(KEY, TOPIC, reporting)
    for some in (records[:2], records[2:]):
        pairs = [(entry.key, entry.value) for entry in log_entries(some)]
        signatures = signer.sign(some, pairs, controller.image)
        new = [
            Record(topic.end + i, *pair, each)
            for i, (pair, each) in enumerate(zip(pairs, signatures, strict=True))
        ]
        topic.records += new
        topic.end += len(new) + 1
        apply(controller, new, topic.end - 1)

    started, verifier = follower(topic)
    assert (names(started.image), verifier.unsigned) == ({"orders", "payroll"}, [])
    topic.records.append(Record(topic.end, b"forged", log_entries([acl_record(acl("x"))])[0].value, None))
    topic.end += 2
    later, verifier = follower(topic)
    assert names(later.image) == {"orders", "payroll"}
    assert later.image.digest == started.image.digest


def test_all_that_an_image_has_is_in_its_digest_and_is_written_again() -> None:
    image = image_of(
        acl_record(ALICE),
        quota_record(QuotaEntity(user="alice", client_id=DEFAULT), "consumer_byte_rate", 1.5),
        types.UserScramCredentialRecord(
            name="bob", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        types.DelegationTokenRecord(
            owner="User:a",
            requester="User:b",
            renewers=["User:c"],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=2,
            token_id="t",
        ),
        types.TopicRecord(name="orders", topic_id=b"0" * 16),
        types.ConfigRecord(resource_type=2, resource_name="orders", name="owner", value="User:alice"),
    )
    whole = list(state_records(image))

    assert image_of(*whole).digest == image.digest
    # Without any one of them it is another state.
    assert len(whole) == 7
    partial = {image_of(*whole[:at], *whole[at + 1 :]).digest for at in range(1, len(whole))}
    assert image.digest not in partial


def test_a_digest_does_not_depend_on_what_was_there_before() -> None:
    topic = Topic.begun(ALICE)
    topic.commits(acl_record(EVE))
    topic.commits(removed_acl_record(EVE))

    assert topic.image.digest == image_of(acl_record(ALICE)).digest
    assert image_of(removed_acl_record(EVE)).digest == MetadataImage.EMPTY.digest


def test_a_signature_is_read_as_it_was_written_and_no_other_form_is() -> None:
    header = Signature(b"k" * 8, 7, b"d" * 32, b"s" * 64).encode()

    assert Signature.decode(header) == Signature(b"k" * 8, 7, b"d" * 32, b"s" * 64)
    assert [Signature.decode(each) for each in (None, b"", header[:-1], b"\x02" + header[1:])] == [None] * 4


def test_key_files_with_anything_else_are_named(tmp_path: Path) -> None:
    private, public = tmp_path / "key.pem", tmp_path / "keys.pem"
    pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
    own, pkcs8 = Ed25519PrivateKey.generate(), serialization.PrivateFormat.PKCS8
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    private.write_bytes(own.private_bytes(pem, pkcs8, none))
    public.write_bytes(own.public_key().public_bytes(pem, spki) + KEY.public.public_bytes(pem, spki))

    key, keys = SigningKey.load(private), PublicKeys.load(public)

    assert (key.id in keys, KEY.id in keys, OTHER_KEY.id in keys) == (True, True, False)
    ec = generate_private_key(SECP256R1())
    private.write_bytes(ec.private_bytes(pem, pkcs8, none))
    for wrong in (ec.public_key().public_bytes(pem, spki), b"", b"-----END PUBLIC KEY-----"):
        public.write_bytes(wrong)
        with pytest.raises(KeyFileError, match=r"keys\.pem: "):
            PublicKeys.load(public)
    with pytest.raises(KeyFileError, match=r"key\.pem: not an Ed25519 key; make one with: openssl genpkey"):
        SigningKey.load(private)
    with pytest.raises(KeyFileError, match=r"keys\.pem: "):
        SigningKey.load(public)


def test_what_is_not_signed_is_recorded_counted_and_shown_by_readiness() -> None:
    topic = Topic.begun(ALICE)
    following, verifier = follower(topic)
    events: list[AuditEvent] = []
    report = LogReport(events.append, CollectorRegistry(), verifier)
    report.update(following.image)

    apply(following, topic.is_forged(acl_record(EVE), acl_record(acl("x"))), topic.end - 1)
    report.update(following.image)

    (event,) = events
    what = "2 records from offset 4 to 5: no signature; not in effect"
    assert (event.event, event.metadata_offset, event.message) == ("log_not_signed", 4, what)
    notes = [note.public for note in report.notes()]
    assert notes == ["degraded: 2 records of the metadata log are not signed by a controller"]
    found = {family.name: family.samples[0].value for family in report.collect()}
    assert found["penstock_metadata_unsigned_records"] == 2
    assert found["penstock_metadata_digest"] == int.from_bytes(topic.image.digest[:6], "big")


def test_a_log_that_nobody_has_signed_blocks_the_process_and_says_why() -> None:
    topic = Topic()
    topic.is_forged(acl_record(EVE))
    _, verifier = follower(topic)
    report = LogReport(lambda _event: None, CollectorRegistry(), verifier)

    (note,) = report.blocked()

    assert note.detailed == (
        "the metadata log has no record that a controller has signed: offset 0: no signature; not in effect"
    )


def test_a_flood_of_unsigned_records_is_one_report_a_minute_with_their_count() -> None:
    topic = Topic.begun(ALICE)
    following, verifier = follower(topic)
    events: list[AuditEvent] = []
    now_ms = 0
    report = LogReport(events.append, CollectorRegistry(), verifier, now_ms=lambda: now_ms)

    for _ in range(50):
        apply(following, topic.is_forged(acl_record(EVE)), topic.end - 1)
        report.update(following.image)
    assert [event.message for event in events] == ["offset 4: no signature; not in effect"]
    now_ms = 59_999
    report.report_unsigned()
    assert len(events) == 1
    now_ms = 60_000
    report.report_unsigned()

    assert [(event.metadata_offset, event.message) for event in events[1:]] == [
        (6, "49 records from offset 6 to 102: no signature; not in effect")
    ]
    now_ms = 200_000
    report.report_unsigned()
    assert len(events) == 2


def test_a_process_that_starts_is_not_shown_an_older_end_than_the_one_before_it_saw(tmp_path: Path) -> None:
    topic = Topic.begun(ALICE)

    def started(records: Sequence[Record], directory: Path = tmp_path, name: str = TOPIC) -> MetadataImage:
        verifier = LogVerifier(TOPIC, PublicKeys([KEY.public]))
        loader = Loader(lambda _image, _changed: None, verifier=verifier)
        seen = SeenNumber(directory, name)
        report = LogReport(lambda _event: None, CollectorRegistry(), verifier, seen)
        loader.load_until(records[-1].offset + 1)
        apply(loader, records, records[-1].offset)
        report.update(loader.image)
        until(lambda: SeenNumber(directory, name).number == verifier.number)
        return loader.image

    assert names(started(topic.records)) == {"orders"}
    with pytest.raises(MetadataError, match="ends with transaction 1, and 2 was applied here before"):
        started(topic.records[:1])
    assert names(started(topic.records)) == {"orders"}
    # Another topic has other numbers.
    assert names(started(topic.records[:1], name="another")) == set()

    (tmp_path / FILE).write_text("{")
    with pytest.raises(ValueError, match=r"metadata-signed\.json: .*Remove it only if"):
        SeenNumber(tmp_path, TOPIC)


def test_a_number_that_a_disk_did_not_take_is_written_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_number, "RETRY_S", 0.01)
    directory = tmp_path / "spool"
    with capture_logs() as lines:
        SeenNumber(directory, TOPIC).update(7)
        until(lambda: lines != [])
        directory.mkdir()
        until((directory / FILE).exists)

    assert SeenNumber(directory, TOPIC).number == 7
    assert len(lines) == 1


def test_a_controller_that_has_seen_a_signed_log_does_not_begin_an_empty_one() -> None:
    verifier = LogVerifier(TOPIC, PublicKeys([KEY.public]), begins=True)
    assert not verifier.is_waiting
    verifier.has_seen(7)
    assert verifier.is_waiting


def test_the_hash_of_a_value_is_enough_to_verify_it_and_that_of_another_is_not() -> None:
    (record,) = Topic.begun(ALICE).records[-1:]
    keys, signature = PublicKeys([KEY.public]), Signature.decode(record.signature)
    assert signature is not None
    hashed = [Hashed(sha256(value).digest()) for value in (record.value, b"another")]

    assert [keys.verify(signature, TOPIC, record.key, each) for each in hashed] == [True, False]


def test_the_digest_of_a_credential_needs_its_fingerprint_only_and_no_record_can_pretend_one() -> None:
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    key = (ScramMechanism.SCRAM_SHA_256, "bob")
    hidden = HiddenCredential(b"", b"", b"", 4096, known=credential.fingerprint)

    assert of_credential(key, hidden) == of_credential(key, credential)
    assert hidden != HiddenCredential(b"", b"", b"", 4096, known=b"another")
    pretended = ScramCredential(credential.fingerprint, b"", b"", 4096)
    assert of_credential(key, pretended) != of_credential(key, credential)


def test_numbers_of_a_later_release_are_in_the_digest_and_are_written_again_as_they_were() -> None:
    images = []
    for number in (0, 90, 91):
        record = acl_record(ALICE)
        record.operation = number
        images.append(image_of(record))

    assert len({image.digest for image in images}) == 3
    assert [each.operation for image in images for each in image.acls.by_id.values()] == [0, 0, 0]
    assert [getattr(each, "operation", None) for each in state_records(images[1])] == [None, 90]
