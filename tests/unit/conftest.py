"""What the tests of single parts share."""

import pytest

from proxy.net.telemetry import log_lines


@pytest.fixture(autouse=True)
def _the_log_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is called in this process must not send the lines of later tests to its own stderr."""
    monkeypatch.setattr(log_lines, "configure", lambda *_, **__: None)
