"""What a request and its response execute in a session, counted in bytecode instructions.

Instructions do not depend on the machine or on what else it does, so a change that makes the path of every
request longer is noticed here, and `make bench` says what it costs in time. Lower a number when you have
made a path shorter. Raise one only with the figures of `make bench` in the commit message.
"""

import sys
from collections.abc import Callable
from functools import partialmethod

import pytest

from proxy.metadata.acls_image import AclsImage
from proxy.security.principal import Principal
from proxy.security.protected import ProtectedResources
from proxy.security.shadow import NEWLY_DENIED, Shadow
from proxy.security.standard import StandardAuthorizer
from proxy.session.authentication import Authentication
from proxy.session.session import Session
from tests.lab.bench.decoded import CASES, RIGHTS, produce, round_trip
from tests.session.apis.asking import image_with
from tests.session.conversation import Conversation, gate_with
from tests.support.instructions import Instructions

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11),
    reason="each release of Python compiles to other instructions",
)

INSTRUCTIONS = {
    "Produce, 1 topic": 427,
    "Produce, 2 topics": 1410,
    "Produce, 8 topics": 2310,
    "Fetch, 1 partition": 956,
    "Fetch, 50 partitions": 956,
    "Metadata, 1 topic": 5110,
    "Metadata, 100 topics": 28_700,
    "OffsetCommit, 1 partition": 3020,
    "OffsetCommit, 20 partitions": 4490,
    "OffsetFetch, 20 partitions": 3360,
    "TxnOffsetCommit, 20 partitions": 4710,
    "JoinGroup": 2445,
    "SyncGroup": 2550,
    "Heartbeat": 2215,
    "ConsumerGroupHeartbeat": 3970,
}
"""Case -> the most instructions of one round trip that is like the ones before, but not equal to them."""


CONNECTION = 4_250
"""The most instructions of a session with one produce request, from its beginning to its summary."""


def executed(call: Callable[[], None]) -> int:
    """Return how many instructions a call executes, in Python code only."""
    with Instructions() as counted:
        call()
    return counted.count


@pytest.mark.spec("O6")
@pytest.mark.parametrize("case", CASES)
def test_a_request_executes_no_more_instructions_than_before(case: str) -> None:
    once = round_trip(CASES[case])
    for _ in range(40):
        once()

    # The least of some: now and then one has upkeep to do.
    least = min(executed(once) for _ in range(20))

    assert least <= INSTRUCTIONS[case], f"{least} instructions: see the docstring of this file"


@pytest.mark.spec("D19")
@pytest.mark.parametrize("case", [case for case in CASES if "100" not in case])
def test_a_known_request_pays_nothing_for_a_candidate(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shadow = Shadow(StandardAuthorizer(), AclsImage.EMPTY, "")
    plain = ProtectedResources.__init__
    monkeypatch.setattr(ProtectedResources, "__init__", partialmethod(plain, shadow=shadow))
    once = round_trip(CASES[case])
    for _ in range(40):
        once()
    compared = shadow.counts[NEWLY_DENIED]

    least = min(executed(once) for _ in range(20))

    assert least <= INSTRUCTIONS[case]
    assert compared > 0
    assert shadow.counts[NEWLY_DENIED] == compared


@pytest.mark.spec("O6")
def test_a_connection_with_one_request_executes_no_more_instructions_than_before() -> None:
    talk = Conversation(gate=gate_with(image_with(*RIGHTS)))
    api_key, version, message, reply = produce(1, 0)
    request, response = talk.request(api_key, version, message), talk.response(api_key, version, reply)

    def once() -> None:
        authentication = Authentication(None, Principal("User", "alice"), host="10.0.0.1")
        session = Session(talk.gate, talk.listener, talk.session.peer, authentication)
        sent, answered = memoryview(bytearray(request)), memoryview(bytearray(response))
        assert not session.forward_request(sent, talk.now_ms)
        session.receive(sent, talk.now_ms)
        assert session.forward_response(answered, talk.now_ms)
        session.closed()
        (summary,) = session.sweep(talk.now_ms)
        del session, summary

    for _ in range(10):
        once()
    least = min(executed(once) for _ in range(10))

    assert least <= CONNECTION, f"{least} instructions: see the docstring of this file"
