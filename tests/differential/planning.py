"""The cases of one run, in order: every API that both sides serve in turn."""

from collections.abc import Iterator

from proxy.wire.api_keys import ApiKey
from tests.differential.cases import Case, Served, random_case

_NOT_ASKED = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS}
"""They are about connections, not about rights."""


def plan(seed: int, count: int, served: Served) -> Iterator[Case]:
    """`count` cases, made as they are asked for."""
    keys = sorted(key for key in served if key not in _NOT_ASKED)
    for number in range(count):
        yield random_case(seed, number, keys[number % len(keys)], served)
