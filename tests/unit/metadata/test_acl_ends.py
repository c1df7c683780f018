"""ACLs with an end: in the log until they are removed, in effect until their time has come."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from proxy.metadata.acl import UNTIL_TAG, Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.delta import STEP_ENDS, MetadataError, acl_from_record
from proxy.metadata.image import MetadataImage
from proxy.metadata.loader import Loader
from proxy.metadata.topic_acls import topic_acls
from proxy.net.pages.log_report import LogReport
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import metadata_records, types
from proxy.wire.errors import WireError
from tests.support.metadata_log import acl, acl_record, removed_acl_record, values

pytestmark = pytest.mark.spec("A11")

END_MS = 1_801_418_400_000
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
EVERYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, PermissionType.ANY)


def ending(name: str = "orders", until_ms: int = END_MS, **fields: Any) -> Acl:
    return replace(acl(name, **fields), until_ms=until_ms)


class Followed:
    """A loader with a clock that the test sets."""

    def __init__(self, now_ms: int = END_MS - 1_000, *records: Any) -> None:
        self.now_ms, self.offset = now_ms, -1
        self.shown: list[MetadataImage] = []
        self.loader = Loader(lambda image, _: self.shown.append(image), now_ms=lambda: self.now_ms)
        self.loader.load_until(len(records))
        self.append(*records)

    def append(self, *records: Any) -> None:
        if records:
            self.offset += len(records)
            self.loader.batch(self.offset, values(*records))

    def at(self, now_ms: int) -> "Followed":
        self.now_ms = now_ms
        while self.loader.end_acls():
            pass
        return self

    def allows(self, action: Action = READ, image: MetadataImage | None = None) -> bool:
        context = RequestContext(
            Principal("User", "alice"), "10.0.0.1", "clients", None, image=image or self.loader.image
        )
        (decision,) = StandardAuthorizer().authorize(context, [action])
        return decision.allowed


def test_an_acl_is_in_effect_until_its_last_millisecond_and_not_from_its_end_on() -> None:
    followed = Followed(END_MS - 1_000, acl_record(ending()))

    assert followed.loader.next_end_ms == END_MS
    assert followed.at(END_MS - 1).allows()
    assert not followed.at(END_MS).allows()
    assert followed.loader.next_end_ms is None
    assert [followed.allows(image=image) for image in followed.shown] == [True, False]


def test_the_log_and_its_digest_have_an_acl_that_has_ended() -> None:
    given = ending()
    followed = Followed(END_MS - 1, acl_record(given))
    before = followed.loader.image

    after = followed.at(END_MS).loader.image

    assert dict(after.acls.by_id) == {given.id: given}
    assert (after.digest, after.offset) == (before.digest, before.offset)
    assert after.acls is not before.acls
    assert list(after.acls.select(EVERYTHING)) == []
    assert list(after.acls.select(replace(EVERYTHING, resource_name="orders"))) == []
    assert after.acls.existing(given) is None
    assert topic_acls(after, "orders") == []


def test_the_digest_covers_the_end_and_without_one_is_that_of_older_releases() -> None:
    plain = acl("orders", acl_id="AAAAAAAAAAAAAAAAAAAAAQ")
    digests = {
        until: Followed(0, acl_record(replace(plain, until_ms=until))).loader.image.digest.hex()
        for until in (None, END_MS, END_MS + 1)
    }

    assert len(set(digests.values())) == 3
    # Computed by the release before this one.
    assert digests[None] == "8249c0f5099e082f1f88c632049438f38f142afc354972b56ac146faf68643b6"


def test_ended_acls_do_not_come_back_with_a_clock_that_is_set_back_nor_with_other_records() -> None:
    first, later = ending(), ending("other", END_MS + 5_000)
    followed = Followed(END_MS - 1, acl_record(first), acl_record(later))

    followed.at(END_MS + 60_000).at(END_MS - 60_000)
    followed.append(acl_record(acl("third")))
    assert not followed.allows()
    assert len(followed.loader.image.acls.ends) == 0

    followed.loader.reload_until(3)
    followed.offset = -1
    followed.append(acl_record(first), acl_record(later), acl_record(acl("third")))
    assert not followed.allows()
    assert len(followed.loader.image.acls.by_id) == 3


def test_what_ends_during_a_batch_is_not_in_effect_after_it() -> None:
    followed = Followed(END_MS - 1, acl_record(ending()))
    many = [acl_record(acl(f"t{number}")) for number in range(100)]
    steps = followed.loader.batch_steps(len(many), values(*many))
    next(steps)

    followed.at(END_MS).now_ms = 0
    assert not followed.allows()
    for _ in steps:
        pass

    assert followed.loader.image.offset == len(many)
    assert not followed.allows()


def test_many_that_end_at_once_end_in_steps_and_an_image_shown_meanwhile_has_none_again() -> None:
    count = 3 * STEP_ENDS + 1
    given = [ending(f"t{number}") for number in range(count)]
    followed = Followed(END_MS - 1, *map(acl_record, given))

    followed.now_ms = END_MS
    assert followed.loader.end_acls()
    assert len(followed.loader.image.acls.ends) == count - STEP_ENDS
    followed.append(acl_record(acl("another")))

    assert len(followed.loader.image.acls.ends) == 0
    assert len(followed.loader.image.acls.by_id) == count + 1
    assert not followed.loader.end_acls()


@pytest.mark.parametrize("until_ms", [None, END_MS + 1, END_MS - 1_000], ids=["none", "later", "past"])
def test_another_record_of_the_same_acl_replaces_its_end(until_ms: int | None) -> None:
    given = ending()
    followed = Followed(END_MS - 1, acl_record(given))
    followed.append(acl_record(replace(given, until_ms=until_ms)))

    assert followed.at(END_MS).allows() == (until_ms != END_MS - 1_000)
    assert followed.at(END_MS + 1).allows() == (until_ms is None)


def test_an_ended_acl_is_removed_from_the_log_and_may_be_granted_again() -> None:
    gone, again = ending(), acl("orders")
    followed = Followed(END_MS, acl_record(gone))
    followed.append(removed_acl_record(gone))
    assert followed.loader.image.acls == MetadataImage.EMPTY.acls

    followed.append(acl_record(again), removed_acl_record(again))
    assert followed.loader.image.acls == MetadataImage.EMPTY.acls


def test_an_image_that_ended_acls_is_the_one_that_never_had_them_in_effect() -> None:
    records = [
        acl_record(each)
        for each in (
            ending(),
            ending("ord", pattern_type=PatternType.PREFIXED),
            ending("*", host="10.0.0.0/8"),
            ending("orders", host="10.0.0.0/8", until_ms=END_MS + 1),
            acl("orders", permission_type=PermissionType.DENY),
        )
    ]

    before = Followed(END_MS - 1, *records).at(END_MS).loader.image
    after = Followed(END_MS, *records).loader.image

    assert before.acls == after.acls
    assert before.acls.hosts_of("10.1.2.3") == ("10.1.2.3", "*", "10.0.0.0/8")


def raw_end(raw: bytes, permission: PermissionType = PermissionType.ALLOW) -> Any:
    record = acl_record(acl("orders", permission_type=permission))
    record.unknown_tags = {UNTIL_TAG: raw}
    return record


@pytest.mark.parametrize(
    "raw",
    [b"", bytes(7), bytes(9), (-1).to_bytes(8, "big", signed=True), b"\x80" + bytes(7)],
    ids=["empty", "short", "long", "negative", "least"],
)
def test_an_allow_with_a_malformed_end_allows_nothing_and_a_deny_with_an_end_denies(raw: bytes) -> None:
    allow = Followed(0, raw_end(raw)).at(END_MS)
    deny = Followed(0, acl_record(acl("orders")), raw_end(raw, PermissionType.DENY)).at(END_MS)

    assert not allow.allows()
    (found,) = allow.loader.image.not_understood.values()
    assert "its end is malformed" in str(found)
    assert [each.until_ms for each in allow.loader.image.acls.select(EVERYTHING)] == [-1]
    assert not deny.allows()
    assert len(deny.loader.image.not_understood) == 1


def test_a_deny_with_an_end_denies_for_ever_and_is_reported() -> None:
    followed = Followed(
        END_MS - 1, acl_record(acl("orders")), acl_record(ending(permission_type=PermissionType.DENY))
    )

    assert not followed.at(END_MS + 1).allows()
    (found,) = followed.loader.image.not_understood.values()
    assert "only an ALLOW may have an end" in str(found)


def test_a_record_with_two_ends_is_no_record() -> None:
    value = metadata_records.encode_record(acl_record(ending()))
    field = value[-11:]
    assert value[-12:-11] == b"\x01"

    with pytest.raises(WireError, match="tagged field 10000 is there twice"):
        metadata_records.decode_record(value[:-12] + b"\x02" + field + field)


def test_a_record_keeps_the_end() -> None:
    given = ending()
    (value,) = values(acl_record(given))
    record = metadata_records.decode_record(value)

    assert isinstance(record, types.AccessControlEntryRecord)
    assert acl_from_record(record) == given


def test_nothing_ends_for_who_has_no_clock_nor_after_a_fault() -> None:
    reading = Loader(lambda *_: None)
    reading.load_until(0)
    reading.batch(0, values(acl_record(ending(until_ms=1))))
    assert not reading.end_acls()
    assert Followed.allows(Followed(0), image=reading.image)

    followed = Followed(END_MS - 1, acl_record(ending()))
    with pytest.raises(MetadataError, match="cannot be applied"):
        followed.loader.batch(1, [b"\x01\x7f\x00"])
    shown = len(followed.shown)
    followed.at(END_MS)
    assert len(followed.shown) == shown
    assert followed.loader.next_end_ms is None


@pytest.mark.spec("O2")
def test_metrics_say_how_many_acls_have_an_end_and_when_the_next_one_is() -> None:
    followed = Followed(
        END_MS - 1, acl_record(ending()), acl_record(ending("b", END_MS + 5)), acl_record(acl("c"))
    )
    report = LogReport(lambda _event: None, CollectorRegistry())

    def shown() -> list[float | None]:
        report.update(followed.loader.image)
        found = {family.name: family.samples[0].value for family in report.collect()}
        return [found.get(f"penstock_acl{name}") for name in ("s_with_end", "_next_end_timestamp_seconds")]

    assert shown() == [2, END_MS / 1000]
    assert followed.loader.image.acls.count == 3
    followed.at(END_MS)
    assert shown() == [1, (END_MS + 5) / 1000]
    assert followed.loader.image.acls.count == 2
    followed.at(END_MS + 5)
    assert shown() == [0, None]
