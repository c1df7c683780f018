"""The time that the event loop spends on one client, for those whom a request quota governs (KIP-124).

Used by proxy.net.clients.connection around what it takes from either side; the session gets the nanoseconds.
Whom no such quota governs costs one look at its session, and on the short ways not even that.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Protocol

from proxy.session.effects import Effect
from proxy.session.session import Session


class Served(Protocol):
    """Of a connection."""

    session: Session

    def carry_out(self, effects: list[Effect]) -> None: ...


def on_requests(connection: Served, take: Callable[[], list[Effect]], now_ms: int) -> None:
    """What comes of the client's bytes is carried out; measured, if that is asked for."""
    session = connection.session
    if not session.machine.is_timed:
        connection.carry_out(take())
        return
    since_ns = perf_counter_ns()
    connection.carry_out(take())
    session.machine.spent_on_requests(perf_counter_ns() - since_ns, now_ms)


def on_answers(connection: Served, take: Callable[[], list[Effect]], now_ms: int) -> None:
    """The same for what answers it."""
    session = connection.session
    if not session.machine.is_timed:
        connection.carry_out(take())
        return
    is_exempt = session.machine.next_response_is_exempt
    since_ns = perf_counter_ns()
    connection.carry_out(take())
    session.machine.spent_on_responses(perf_counter_ns() - since_ns, is_exempt, now_ms)
