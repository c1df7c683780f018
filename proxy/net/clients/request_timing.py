"""The time that the event loop spends on one client, for request quotas (KIP-124).

proxy.net.clients.connection measures the handling of bytes from either side; the session gets the
nanoseconds. A client without a request quota costs one look at its session, and on the fast path nothing.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

from proxy.session.effects import Effect
from proxy.session.session import Session


class Served(Protocol):
    """A connection whose time may be measured."""

    session: Session

    def carry_out(self, effects: list[Effect]) -> None: ...


def on_requests(connection: Served, take: Callable[[], list[Effect]], now_ms: int) -> None:
    """Carry out the effects of a client's bytes, and measure the time if the client has a request quota."""
    session = connection.session
    if not session.machine.is_timed:
        connection.carry_out(take())
        return
    since_ns = perf_counter_ns()
    connection.carry_out(take())
    session.machine.spent_on_requests(perf_counter_ns() - since_ns, now_ms)


def on_responses(connection: Served, take: Callable[[], list[Effect]], now_ms: int) -> None:
    """Carry out the effects of a response's bytes, and measure the time if the client has a request quota."""
    session = connection.session
    if not session.machine.is_timed:
        connection.carry_out(take())
        return
    is_exempt = session.machine.next_response_is_exempt
    since_ns = perf_counter_ns()
    connection.carry_out(take())
    session.machine.spent_on_responses(perf_counter_ns() - since_ns, is_exempt, now_ms)
