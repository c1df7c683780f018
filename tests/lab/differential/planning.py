"""The cases of one run, in order: every API that both sides serve and every scenario in turn."""

from collections.abc import Iterable, Iterator

from proxy.wire.api_keys import ApiKey
from tests.lab.differential.cases import Case, Served, random_case
from tests.lab.differential.scenarios import SCENARIOS, scenario

_NOT_ASKED = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS}
"""They are about connections, not about rights."""


def plan(seed: int, count: int, served: Served, scenarios: Iterable[str] = SCENARIOS) -> Iterator[Case]:
    """`count` cases, made as they are asked for."""
    subjects: list[int | str] = [*sorted(key for key in served if key not in _NOT_ASKED), *scenarios]
    for number in range(count):
        subject = subjects[number % len(subjects)]
        if isinstance(subject, str):
            yield scenario(seed, number, subject, served)
        else:
            yield random_case(seed, number, subject, served)
