"""Every conversation is held twice: with slices that never end, and with the shortest ones there can be.

In the second, work stops at every element that is counted (proxy.wire.work) and goes on in a turn of its own;
what the client, the broker and the controller get must be the same. Arrays are `Elements` only if they are
long, so loops over the few topics of a conversation stop only where they call `paced`.

The second form is long of the tests of APIs, and of those in ONE_TURN.
"""

from pathlib import Path

import pytest

from proxy.wire import work
from tests.session.conversation import Conversation

APIS = Path(__file__).parent / "apis"
ONE_TURN = {
    "test_client_ids_conversation.py",
    "test_fetch_conversation.py",
    "test_known_fetch_conversation.py",
    "test_many_resources_conversation.py",
    "test_produce_conversation.py",
    "test_short_way_conversation.py",
    "test_told_conversation.py",
}
"""Produce and Fetch take the fast lane, which never stops; the others count what is remembered.
Of large requests in slices: test_slices_conversation and test_too_large_conversation.
"""


@pytest.fixture(params=["whole", "sliced"], autouse=True)
def _slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "sliced":
        monkeypatch.setattr(work, "PIECE", 1)
        monkeypatch.setattr(Conversation, "takes_turns", True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # All that are run, also of other folders.
        second_is_long = item.path.parent == APIS or item.path.name in ONE_TURN
        if second_is_long and "sliced" in item.name.partition("[")[2].rstrip("]").split("-"):
            item.add_marker(pytest.mark.long)
