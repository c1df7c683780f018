"""Every conversation is held twice: with slices that never end, and with the shortest ones there can be.

In the second, work stops at every element that is counted (proxy.wire.work) and goes on in a turn of its own;
what the client, the broker and the controller get must be the same. Arrays are `Elements` only if they are
long, so loops over the few topics of a conversation stop only where they call `paced`.
"""

import pytest

from proxy.wire import work
from tests.session.conversation import Conversation


@pytest.fixture(params=["whole", "sliced"], autouse=True)
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "sliced":
        monkeypatch.setattr(work, "PIECE", 1)
        monkeypatch.setattr(Conversation, "takes_turns", True)
