"""PLAIN's passwords checked by a class of other people."""

from collections.abc import Mapping

import pytest

from proxy.security.sasl.exchange import Accepted, Deferred, Rejected
from proxy.security.sasl.plain import PlainExchange, load_verifier

HERE = __name__


class Directory:
    """Knows alice, and has its bad days."""

    def configure(self, settings: Mapping[str, str]) -> None:
        if "bad" in settings:
            raise ValueError("bad: not taken")
        self.password = settings.get("password", "geheim")

    def is_right(self, username: str, password: str) -> bool:
        if username == "truthy":
            return "yes"  # type: ignore[return-value]
        return username == "alice" and password == self.password


class NoDirectory:
    """Something else."""


def outcome_of(token: bytes) -> object:
    exchange = PlainExchange(load_verifier(f"{HERE}.Directory", {}))
    deferred = exchange.respond(token, 0)
    assert isinstance(deferred, Deferred)
    return deferred.work()


@pytest.mark.spec("R9")
def test_it_decides_in_another_thread_and_nothing_but_true_lets_in() -> None:
    assert isinstance(outcome_of(b"\0alice\0geheim"), Accepted)
    assert isinstance(outcome_of(b"\0alice\0wrong"), Rejected)
    assert isinstance(outcome_of(b"\0truthy\0geheim"), Rejected)


@pytest.mark.spec("R10")
def test_it_is_asked_anew_at_each_login() -> None:
    verifier = load_verifier(f"{HERE}.Directory", {})
    assert verifier.verify("alice", "geheim") is not None

    assert verifier.remembered("alice", "geheim") is None


@pytest.mark.spec("R9", "O5")
@pytest.mark.parametrize(
    ("class_path", "settings", "error"),
    [
        (f"{HERE}.Missing", {}, "sasl.plain.verifier.class: cannot load"),
        (f"{HERE}.NoDirectory", {}, "sasl.plain.verifier.class: .* is not a check of passwords"),
        (f"{HERE}.Directory", {"bad": "1"}, "sasl.plain.verifier.settings: bad: not taken"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_key(
    class_path: str, settings: dict[str, str], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        load_verifier(class_path, settings)
