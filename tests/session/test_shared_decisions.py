"""What one connection was allowed is not decided again for the next one of the same client (SPEC A7)."""

from collections.abc import Callable, Sequence

import pytest

from proxy.metadata.acl import Operation
from proxy.quota.throttle import ClientQuotas
from proxy.security.authorizer import Action, AllowAll, Decision, RequestContext
from proxy.security.principal import Principal
from proxy.session.client_state import (
    LONGEST_SHARED,
    MAX_SHARED,
    MAX_SHARED_AT_ONCE,
    ClientState,
    topic_action,
)
from proxy.session.gate import Basis, Gate
from proxy.session.memory import Limits
from tests.session.apis.asking import image_with
from tests.session.conversation import Quotas

ALICE = Principal("User", "alice")
IMAGE = image_with()


class CountingAuthorizer(AllowAll):
    """Allows everything but topics that begin with "secret", and counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        self.asked += [action.resource_name for action in actions]
        return [Decision(not action.resource_name.startswith("secret"), "test") for action in actions]


def gate_of(authorizer: CountingAuthorizer) -> Gate:
    return Gate(Basis(authorizer, IMAGE), ClientQuotas(Quotas()), Limits(1 << 20, 1 << 16, 1 << 12))


def decides(
    gate: Gate,
    *names: str,
    principal: Principal = ALICE,
    host: str = "10.0.0.1",
    listener: str = "SASL",
    client_id: str | None = "app",
) -> list[bool]:
    """What a new connection is allowed."""
    context = RequestContext(principal, host, listener, client_id, image=gate.basis.image)
    client = ClientState(b"", context, gate.basis, None)
    return [made.allowed for made in client.decide([topic_action(Operation.WRITE, name) for name in names])]


@pytest.mark.spec("A7")
def test_a_second_connection_of_a_client_has_the_decisions_of_the_first() -> None:
    authorizer = CountingAuthorizer()
    gate = gate_of(authorizer)
    assert decides(gate, "a", "b") == [True, True]

    assert decides(gate, "b", "c", "a") == [True, True, True]

    assert authorizer.asked == ["a", "b", "c"]


@pytest.mark.spec("A7", "D1")
def test_denials_are_decided_each_time() -> None:
    authorizer = CountingAuthorizer()
    gate = gate_of(authorizer)

    assert decides(gate, "secret", "a") == [False, True]
    assert decides(gate, "a", "secret") == [True, False]

    assert authorizer.asked == ["secret", "a", "secret"]


@pytest.mark.spec("A7")
@pytest.mark.parametrize(
    "other",
    [
        {"principal": Principal("User", "bob")},
        {"principal": Principal("Group", "alice")},
        {"principal": Principal("User", "alice", token_authenticated=True)},
        {"host": "10.0.0.2"},
        {"listener": "SSL"},
        {"client_id": "other"},
        {"client_id": None},
    ],
)
def test_whatever_a_decision_may_depend_on_has_decisions_of_its_own(other: dict[str, str]) -> None:
    authorizer = CountingAuthorizer()
    gate = gate_of(authorizer)
    decides(gate, "a")

    decides(gate, "a", **other)  # type: ignore[arg-type]

    assert authorizer.asked == ["a", "a"]


def other_image(gate: Gate) -> None:
    gate.image = image_with("READ TOPIC a")


def other_settings(gate: Gate) -> None:
    gate.decide_by(1)


@pytest.mark.spec("A7", "A4")
@pytest.mark.parametrize("change", [other_image, other_settings, Gate.forget_decisions])
def test_after_a_change_everything_is_decided_again(change: Callable[[Gate], None]) -> None:
    authorizer = CountingAuthorizer()
    gate = gate_of(authorizer)
    decides(gate, "a")

    change(gate)
    decides(gate, "a")

    assert authorizer.asked == ["a", "a"]


@pytest.mark.spec("O6")
def test_the_memory_of_decisions_is_bounded_and_no_single_request_fills_it() -> None:
    gate = gate_of(CountingAuthorizer())
    decides(gate, *(f"large-{number}" for number in range(MAX_SHARED_AT_ONCE + 1)))
    assert not gate.basis.allowed

    for number in range(MAX_SHARED + 1):
        decides(gate, f"t-{number}")
        assert len(gate.basis.allowed) <= MAX_SHARED

    assert len(gate.basis.allowed) == 1


@pytest.mark.spec("A7", "O6")
def test_what_has_a_very_long_name_is_decided_again_because_the_memory_is_bounded() -> None:
    authorizer = CountingAuthorizer()
    gate = gate_of(authorizer)
    long = "x" * (LONGEST_SHARED + 1)
    for _ in range(2):
        assert decides(gate, "a", long) == [True, True]
        assert decides(gate, "b", client_id=long) == [True]

    assert authorizer.asked == ["a", long, "b", long, "b"]
    assert len(gate.basis.allowed) == 1
