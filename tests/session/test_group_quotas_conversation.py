"""The quota of a group limits its members, each by itself, by the groups of the session's last login."""

from dataclasses import replace

import pytest

from proxy.metadata.acl import Operation
from proxy.metadata.image import MetadataImage
from proxy.metadata.quota_entity import QuotaEntity
from proxy.quota.keys import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from proxy.quota.throttle import UNLIMITED, Bucket
from proxy.security.authorizer import load_authorizer
from proxy.security.principal import Principal
from proxy.security.protected import ProtectedResources
from proxy.security.standard import StandardAuthorizer
from proxy.session.gate import Basis, Gate
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import OWN
from tests.session.conversation import Quotas, fetch, fetched, gate_with, produce, produced
from tests.session.test_groups_conversation import Member
from tests.support.images import acl_record, image_of, quota_record

pytestmark = pytest.mark.spec("Q2", "Q4", "A8")

PRODUCE, FETCH = ApiKey.PRODUCE, ApiKey.FETCH
PAYMENTS, INTERNS = "Group:payments", "Group:interns"
LIMIT, OF_OTHERS = 100.0, 1_000_000.0
WINDOW_S = 10
"""As Kafka's eleven samples of a second measure the first use of a quota."""
RIGHTS = image_of(
    acl_record(1, principal="User:*", operation=Operation.WRITE), acl_record(2, principal="User:*")
)
IMAGE = image_of(
    quota_record(PRODUCER_BYTE_RATE, LIMIT, user=PAYMENTS),
    quota_record(PRODUCER_BYTE_RATE, OF_OTHERS, user=None),
    base=RIGHTS,
)
RAISED = image_of(quota_record(PRODUCER_BYTE_RATE, 5_000.0, user=PAYMENTS), base=IMAGE)
REMOVED = image_of(quota_record(PRODUCER_BYTE_RATE, 0.0, user=PAYMENTS, remove=True), base=RAISED)


class Bob(Member):
    """Another user."""

    def _principal(self, mechanism: str, found: Principal) -> Principal:
        return replace(super()._principal(mechanism, found), name="bob")


def gate_of(
    image: MetadataImage = IMAGE, authorizer: str = "proxy.security.standard.StandardAuthorizer"
) -> Gate:
    gate = gate_with(image)
    gate.basis = Basis(ProtectedResources(load_authorizer(authorizer, {}), OWN), image)
    return gate


def writes(member: Member, size: int = 5_000) -> int:
    """Return the throttle time of a Produce request with so many bytes of records."""
    talk = member.talk
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(size)))
    talk.forwarded()
    talk.answers(PRODUCE, 9, produced("orders"))
    told: int = talk.heard(PRODUCE, 9).throttle_time_ms
    if told:
        talk.passes(told)
        talk.is_unmuted()
    return told


def producer(member: Member) -> Bucket:
    return member.talk.session.machine.client.producer


def test_a_member_is_throttled_by_the_quota_of_its_group_and_a_non_member_is_not() -> None:
    gate = gate_of()
    member, other = Member(gate, "payments", "staff"), Member(gate, "staff")

    told_ms = writes(member)

    # What exceeds the limit in its windows is waited for at the limit.
    used = producer(member).byte_rate(member.talk.now_ms - told_ms) * WINDOW_S
    assert 5_000 < used < 5_200
    assert (
        told_ms == member.talk.mutes[0] == pytest.approx((used / WINDOW_S - LIMIT) / LIMIT * WINDOW_S * 1_000)
    )
    assert [writes(other) for _ in range(3)] == [0, 0, 0]
    assert other.talk.mutes == []

    (throttled,) = [event for event in member.talk.summaries() if event.event == "throttled"]
    told = throttled.quota_key, throttled.quota_id, throttled.quota_limit, throttled.groups, throttled.count
    assert told == (PRODUCER_BYTE_RATE, "alice@payments:", LIMIT, ("payments",), 1)
    assert {event.groups for event in other.talk.summaries()} == {None}


def test_members_do_not_share_the_quota_and_two_sessions_of_one_member_do() -> None:
    gate = gate_of()
    alice, again, bob = Member(gate, "payments"), Member(gate, "payments"), Bob(gate, "payments")

    first_ms, second_ms = writes(alice), writes(again)

    assert 0 < first_ms < second_ms
    assert writes(bob) == pytest.approx(first_ms, rel=0.01)
    assert producer(alice) is producer(again)
    assert producer(bob).quota_id == "bob@payments:"


def test_a_member_who_leaves_has_the_quota_of_others_after_its_next_login_and_back_again() -> None:
    member = Member(gate_of(), "payments")
    throttled_ms = writes(member)

    member.logs_in_with()
    assert (producer(member).quota_id, writes(member)) == ("alice:", 0)

    member.logs_in_with("payments")
    # What it used as a member still counts, as far as the windows reach.
    assert (producer(member).quota_id, writes(member)) == ("alice@payments:", throttled_ms)

    limits = [(event.quota_limit, event.groups) for event in member.talk.told("throttled")]
    limits += [(e.quota_limit, e.groups) for e in member.talk.summaries() if e.event == "throttled"]
    assert limits == [(LIMIT, ("payments",))] * 2


@pytest.mark.parametrize("member_first", [True, False])
def test_connections_of_one_user_and_client_id_have_the_limits_of_their_own_groups(
    member_first: bool,
) -> None:
    gate = gate_of()
    groups: list[tuple[str, ...]] = [("payments",), ()]
    one, other = (Member(gate, *names) for names in (groups if member_first else groups[::-1]))
    member, outsider = (one, other) if member_first else (other, one)

    for basis in (gate.basis, Basis(gate.authorizer, image_of(base=IMAGE)), Basis(gate.authorizer, RAISED)):
        gate.basis = basis
        image = basis.image
        assert image is not None
        for _ in range(2):
            for each in (one, other):
                writes(each, 10)
            limit = image.quotas.limit(QuotaEntity(user=PAYMENTS), PRODUCER_BYTE_RATE)
            assert (producer(member).limit, producer(outsider).limit) == (limit, OF_OTHERS)
        outsider.talk.passes(15_000)
        member.talk.passes(15_000)
        used = producer(member).byte_rate(member.talk.now_ms)
        assert writes(outsider, 5_000) == 0
        assert producer(member).byte_rate(member.talk.now_ms) == used


@pytest.mark.spec("Q8")
def test_a_changed_quota_of_a_group_is_in_effect_for_the_next_request_of_its_members() -> None:
    gate = gate_of()
    member = Member(gate, "payments")
    assert writes(member)
    bucket = producer(member)

    gate.basis = Basis(gate.authorizer, RAISED)
    assert (writes(member), producer(member) is bucket) == (0, True)
    gate.basis = Basis(gate.authorizer, REMOVED)
    assert (writes(member), producer(member).quota_id) == (0, "alice:")


@pytest.mark.spec("Q1", "Q3", "Q12")
def test_each_quota_has_the_highest_limit_of_the_groups_that_have_it() -> None:
    limits = {
        PRODUCER_BYTE_RATE: {PAYMENTS: 10.0, INTERNS: 20.0},
        CONSUMER_BYTE_RATE: {PAYMENTS: 30.0},
        REQUEST_PERCENTAGE: {PAYMENTS: 2.0, INTERNS: 1.0, "alice": 0.5},
    }
    records = [quota_record(key, limit, user=user) for key in limits for user, limit in limits[key].items()]
    member = Member(gate_of(image_of(*records, base=RIGHTS)), "interns", "payments")

    client = member.talk.session.machine.client

    assert [(each.limit, each.quota_id) for each in client.buckets] == [
        (20.0, "alice@interns:"),
        (30.0, "alice@payments:"),
        (0.5, "alice:"),
    ]


@pytest.mark.spec("Q7")
def test_a_consumer_in_a_group_is_throttled_by_what_it_is_sent() -> None:
    image = image_of(quota_record(CONSUMER_BYTE_RATE, LIMIT, user=PAYMENTS), base=RIGHTS)
    for groups, is_throttled in ((("payments",), True), ((), False)):
        talk = Member(gate_of(image), *groups).talk
        for _ in range(2):
            talk.asks(FETCH, 12, fetch("orders"))
            if talk.forwarded():
                talk.answers(FETCH, 12, fetched("orders", records=bytes(900)))
            talk.heard(FETCH, 12)
        assert bool(talk.mutes) is is_throttled


class DecidesByAnything(StandardAuthorizer):
    """Does not say by which groups it decides."""

    deciding_groups = None  # type: ignore[assignment]


@pytest.mark.parametrize("authorizer", [f"{__name__}.DecidesByAnything", ""])
def test_records_name_the_groups_with_quotas_whatever_decides(authorizer: str) -> None:
    member = Member(gate_of(authorizer=authorizer), "payments", "staff")

    assert writes(member)

    told = {event.event: event.groups for event in member.talk.summaries()}
    assert (told["throttled"], told["authorization_summary"]) == (("payments",), ("payments",))


@pytest.mark.spec("Q12")
def test_a_group_without_quotas_has_none_whatever_the_quota_of_another_group_is() -> None:
    gate = gate_of()
    gate.quotas.follow(Quotas(), True, ["Group:backup"], 1)

    member = Member(gate, "backup", "payments")

    assert (writes(member), producer(member)) == (0, UNLIMITED)
