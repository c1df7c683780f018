"""A client whose quota holds for the whole cluster stays muted until the debt is paid, as shares change."""

from dataclasses import replace

import pytest

from proxy.metadata.quota_entity import DEFAULT, QuotaEntity
from proxy.quota.cluster.share_rate import ShareRate
from proxy.quota.keys import REQUEST_PERCENTAGE
from proxy.quota.throttle import ClientQuotas
from proxy.wire.api_keys import ApiKey
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, Quotas, gate_with, produce, produced
from tests.support.metadata_log import quotas_image

pytestmark = pytest.mark.spec("Q13")

PRODUCE = ApiKey.PRODUCE
LIMIT = 100_000
WINDOW_MS, LOOK_AGAIN_MS = 1_000, 250
AT_FIRST_MS = 250
"""The longest throttle time of a client that has just begun: its share is about to change."""
VALID_MS = 60_000


class Shared:
    """A session of the one client, and the rate of its quota; the test stands for the member."""

    def __init__(self, share: float) -> None:
        gate = gate_with(image_with("WRITE TOPIC orders"))
        self.rate: ShareRate
        gate.quotas = ClientQuotas(Quotas(LIMIT), rates_of=lambda *_: self._rate)
        self._share = share
        self.talk = Conversation(gate=gate)

    def _rate(self, name: tuple[str, ...], window_ms: int, samples: int) -> ShareRate:
        # The last one is that of the client id of the requests.
        self.rate = ShareRate(name, b"d" * 16, window_ms, samples, lambda _: None)
        self.rate.allow(self._share, 0, VALID_MS)
        return self.rate

    def has_used(self, *sizes: int) -> list[int]:
        """Requests of these sizes are in flight at once; return the throttle times of their responses."""
        talk = self.talk
        asked = [talk.asks(PRODUCE, 9, produce("orders", records=bytes(size))) for size in sizes]
        for correlation_id in asked:
            talk.broker_sends(talk.response(PRODUCE, 9, produced("orders"), correlation_id))
        talk.forwarded_bytes()
        return [heard.throttle_time_ms for _, heard in talk.heard_all(*[(PRODUCE, 9)] * len(sizes))]

    def waits(self, duration_ms: int) -> None:
        """Every `MuteClient` so far ends after `duration_ms`."""
        self.talk.passes(duration_ms)
        mutes, self.talk.mutes = self.talk.mutes, []
        for _ in mutes:
            self.talk.is_unmuted()


def test_what_was_in_flight_is_paid_for_before_anything_else_is_taken() -> None:
    shared = Shared(0.5)
    talk = shared.talk

    # A debt of 3 s.
    assert shared.has_used(150_000) == [AT_FIRST_MS]
    next_one = talk.request(PRODUCE, 9, produce("orders"))
    talk.sends(next_one)
    shared.waits(AT_FIRST_MS)
    assert talk.mutes == [LOOK_AGAIN_MS]
    muted_ms = AT_FIRST_MS
    while talk.mutes:
        assert talk.forwarded_bytes() == b""
        muted_ms += talk.mutes[0]
        shared.waits(talk.mutes[0])

    assert muted_ms == pytest.approx(3_000, abs=20)
    assert talk.forwarded_bytes() == next_one


@pytest.mark.spec("Q12")
def test_who_used_too_much_time_waits_one_window_and_goes_on_as_at_a_broker() -> None:
    gate = gate_with(image_with("WRITE TOPIC orders"))
    assert gate.image is not None
    timed = quotas_image({QuotaEntity(user=DEFAULT): {REQUEST_PERCENTAGE: 0.01}})
    gate.image = replace(gate.image, quotas=timed)
    gate.quotas = ClientQuotas(Quotas(), rates_of=lambda *_: _whole)
    talk = Conversation(gate=gate)

    for _ in range(3):
        talk.asks(PRODUCE, 9, produce("orders"))
        talk.session.machine.spent_on_requests(1_000_000, talk.now_ms)
        talk.answers(PRODUCE, 9, produced("orders"))
        assert 0 < talk.heard(PRODUCE, 9).throttle_time_ms <= WINDOW_MS
        talk.forwarded_bytes()
        talk.passes(WINDOW_MS)
        (_,), talk.mutes = talk.mutes, []
        talk.is_unmuted()
        assert talk.mutes == []


def _whole(name: tuple[str, ...], window_ms: int, samples: int) -> ShareRate:
    rate = ShareRate(name, b"d" * 16, window_ms, samples, lambda _: None)
    rate.allow(1.0, 0, VALID_MS)
    return rate


def test_a_share_that_grows_ends_the_pause_early() -> None:
    shared = Shared(0.01)
    talk = shared.talk
    assert shared.has_used(90_000) == [AT_FIRST_MS]
    next_one = talk.request(PRODUCE, 9, produce("orders"))
    talk.sends(next_one)
    shared.waits(WINDOW_MS)
    assert talk.forwarded_bytes() == b""

    # The debt was for 90 s of the small share. It takes less than a second of the whole limit.
    shared.rate.allow(1.0, WINDOW_MS, VALID_MS)
    for _ in range(4):
        shared.waits(LOOK_AGAIN_MS)

    assert talk.forwarded_bytes() == next_one


def test_the_debt_of_one_client_id_is_paid_before_another_one_of_the_connection_goes_on() -> None:
    shared = Shared(0.01)
    talk = shared.talk
    talk.asks(PRODUCE, 9, produce("orders", records=bytes(90_000)), client_id="app")
    talk.answers(PRODUCE, 9, produced("orders"))
    talk.forwarded_bytes()
    talk.sends(talk.request(PRODUCE, 9, produce("orders"), client_id="other"))

    shared.waits(WINDOW_MS)

    assert (talk.forwarded_bytes(), talk.mutes) == (b"", [LOOK_AGAIN_MS])


def test_a_quota_that_was_deleted_mutes_no_longer_than_the_throttle_time_that_was_sent() -> None:
    shared = Shared(0.01)
    talk = shared.talk
    shared.has_used(90_000)
    next_one = talk.request(PRODUCE, 9, produce("orders"))
    talk.sends(next_one)

    talk.gate.quotas.follow(Quotas(), True, (), 1)
    talk.gate.basis = replace(talk.gate.basis, settings_generation=1)
    shared.waits(WINDOW_MS)

    assert talk.forwarded_bytes() == next_one


def test_a_quota_that_is_only_observed_mutes_nobody() -> None:
    shared = Shared(0.01)
    shared.talk.gate.quotas.follow(Quotas(LIMIT), False, (), 1)
    shared.talk.gate.basis = replace(shared.talk.gate.basis, settings_generation=1)

    assert shared.has_used(90_000, 90_000) == [0, 0]
    assert shared.talk.mutes == []
    assert not shared.rate.in_debt
