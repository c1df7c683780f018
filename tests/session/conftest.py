"""Every conversation is held twice: with slices that never end, and with the shortest ones there can be.

In the second, work stops at every element that is counted (proxy.wire.work) and goes on in a turn of its own;
what the client, the broker and the controller get must be the same. Arrays are `Elements` only if they are
long, so loops over the few topics of a conversation stop only where they call `paced`.

The second form of the tests of APIs is long.
"""

from pathlib import Path

import pytest

from proxy.wire import work
from tests.session.conversation import Conversation

APIS = Path(__file__).parent / "apis"


@pytest.fixture(params=["whole", "sliced"], autouse=True)
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "sliced":
        monkeypatch.setattr(work, "PIECE", 1)
        monkeypatch.setattr(Conversation, "takes_turns", True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # All that are run, also of other folders.
        if item.path.parent == APIS and "sliced" in item.name.partition("[")[2].rstrip("]").split("-"):
            item.add_marker(pytest.mark.long)
