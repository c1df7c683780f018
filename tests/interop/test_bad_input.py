"""Bad input leaves a log line and a metric. Its connection: tests/lab/differential/logins.py."""

from threading import Event

import pytest

from proxy.net.telemetry.log_lines import PAUSE_S
from tests.lab.cluster.stack import Stack
from tests.lab.differential.logins import unwritten
from tests.lab.side_by_side.steps import CLOSED, Raw, Shake, Token, played

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.spec("O2", "O6", "A7")
def test_bad_input_leaves_a_log_line_and_a_metric(stack: Stack) -> None:
    address, admin = stack.entrance().bootstrap, stack.users["admin"]
    login = Shake(), Token(f"\0{admin.name}\0{admin.password}".encode())
    before = _protocol_errors(stack)

    too_long = played(address, (Raw((2**31 - 1).to_bytes(4, "big")),))
    unknown = played(address, (*login, unwritten(9999, 0, b"")))

    assert (too_long[-1], unknown[-1]) == (CLOSED, CLOSED)
    assert _protocol_errors(stack) == before + 2
    Event().wait(2 * PAUSE_S)  # For lines that are still in the process's queue.
    assert "a request of 2147483647 bytes" in stack.proxy.log_text()
    assert "9999" in stack.proxy.log_text()


def _protocol_errors(stack: Stack) -> float:
    series = stack.metrics().items()
    return sum(value for name, value in series if name.startswith("penstock_protocol_errors_total"))
