"""When a SASL session is over (KIP-368), in the text's own numbers."""

import pytest

from proxy.security.sasl.exchange import session_end_ms, session_lifetime_ms
from proxy.session.authentication import Authentication

NOW = 1_700_000_000_000
HOUR = 3_600_000
MINUTES_45 = 2_700_000


@pytest.mark.spec("R1", "R2")
@pytest.mark.parametrize(
    ("max_reauth_ms", "credential_left_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (-1, None, 0),
        (HOUR, None, HOUR),
        (HOUR, MINUTES_45, MINUTES_45),
        (HOUR, 2 * HOUR, HOUR),
        (0, MINUTES_45, MINUTES_45),
        (HOUR, 0, 0),
        (HOUR, -5, 0),
        (0, -5, 0),
    ],
)
def test_the_lifetime_is_the_shorter_of_limit_and_credential(
    max_reauth_ms: int, credential_left_ms: int | None, lifetime_ms: int
) -> None:
    expires_at_ms = None if credential_left_ms is None else NOW + credential_left_ms

    assert session_lifetime_ms(max_reauth_ms, expires_at_ms, NOW) == lifetime_ms


@pytest.mark.spec("R2", "R3")
@pytest.mark.parametrize(
    ("max_reauth_ms", "credential_left_ms", "expected"),
    [
        (0, None, None),
        (HOUR, None, NOW + HOUR),
        (HOUR, MINUTES_45, NOW + MINUTES_45),
        (0, MINUTES_45, NOW + MINUTES_45),
        (0, 0, NOW),
        (HOUR, -5, NOW),
    ],
)
def test_a_session_ends_with_its_lifetime_also_when_that_is_over_at_once(
    max_reauth_ms: int, credential_left_ms: int | None, expected: int | None
) -> None:
    expires_at_ms = None if credential_left_ms is None else NOW + credential_left_ms

    assert session_end_ms(max_reauth_ms, expires_at_ms, NOW) == expected


@pytest.mark.spec("R3")
@pytest.mark.parametrize(
    ("late_ms", "over"), [(-HOUR, False), (-1, False), (0, True), (1, True), (HOUR, True)]
)
def test_a_session_is_over_from_its_end_on(late_ms: int, over: bool) -> None:
    authentication = Authentication(None)
    authentication.expires_at_ms = NOW

    assert authentication.is_expired(NOW + late_ms) is over


@pytest.mark.spec("R1", "R8")
def test_without_an_end_it_is_never_over() -> None:
    assert not Authentication(None).is_expired(NOW + 1000 * HOUR)
