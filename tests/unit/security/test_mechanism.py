"""SASL mechanisms of other people, named by package.module.Class."""

from collections.abc import Mapping

import pytest

from proxy.security.sasl.exchange import Exchange, Outcome, Rejected, load_mechanism

pytestmark = pytest.mark.spec("R9")

HERE = __name__


class Nobody:
    """Lets nobody in."""

    name = "NOBODY"

    def __init__(self) -> None:
        self.settings: Mapping[str, str] = {}

    def configure(self, settings: Mapping[str, str]) -> None:
        if "bad" in settings:
            raise ValueError("bad: not taken")
        self.settings = settings

    def new_exchange(self) -> Exchange:
        return self

    def respond(self, token: bytes, now_ms: int) -> Outcome:
        return Rejected("", "nobody may come in")


class NoMechanism:
    """Something else."""


def test_a_mechanism_is_made_and_configured() -> None:
    mechanism = load_mechanism("NOBODY", f"{HERE}.Nobody", {"realm": "here"})

    assert isinstance(mechanism, Nobody)
    assert mechanism.settings == {"realm": "here"}
    assert mechanism.new_exchange().respond(b"", 0) == Rejected("", "nobody may come in")


@pytest.mark.parametrize(
    ("name", "class_path", "error"),
    [
        ("NOBODY", "no.such.module.Nobody", "cannot load"),
        ("NOBODY", f"{HERE}.Missing", "cannot load"),
        ("NOBODY", HERE, "cannot load"),
        ("NOBODY", f"{HERE}.NoMechanism", "is not a SASL mechanism"),
        ("EVERYBODY", f"{HERE}.Nobody", "is the mechanism 'NOBODY'"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_key(name: str, class_path: str, error: str) -> None:
    with pytest.raises(ValueError, match=error) as raised:
        load_mechanism(name, class_path, {})

    assert str(raised.value).startswith(f"sasl.server.mechanism.classes[{name}]: ")


def test_settings_that_it_refuses_stop_the_start() -> None:
    with pytest.raises(ValueError, match=r"sasl\.server\.mechanism\.settings\[NOBODY\]: bad: not taken"):
        load_mechanism("NOBODY", f"{HERE}.Nobody", {"bad": "1"})
