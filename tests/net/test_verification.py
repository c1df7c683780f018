"""Checks of logins beside the loop: what they give, and what becomes of their faults."""

import threading

import pytest
from prometheus_client import CollectorRegistry

from proxy.net.logins.verification import Verifications
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Deferred, Rejected
from tests.support.edges import on_uvloop

pytestmark = pytest.mark.spec("R9")

ALICE = Accepted(Principal("User", "alice"), b"")
FAULT = Rejected("", "the check of the credentials failed")


def errors(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("penstock_authentication_errors_total")


@on_uvloop
async def test_a_check_runs_in_another_thread_and_its_outcome_comes_back() -> None:
    threads: list[str] = []

    def work() -> Accepted:
        threads.append(threading.current_thread().name)
        return ALICE

    verifications = Verifications(CollectorRegistry())
    assert await verifications.outcome(Deferred(work)) is ALICE
    assert threads != [threading.current_thread().name]
    verifications.close()


@on_uvloop
async def test_a_check_that_fails_rejects_and_is_counted() -> None:
    def raises() -> Accepted:
        raise RuntimeError("the directory does not answer")

    def gives_something_else() -> Accepted:
        return True  # type: ignore[return-value]

    registry = CollectorRegistry()
    verifications = Verifications(registry)
    assert await verifications.outcome(Deferred(raises)) == FAULT
    assert await verifications.outcome(Deferred(gives_something_else)) == FAULT
    assert errors(registry) == 2
    verifications.close()


@on_uvloop
async def test_what_has_to_arrive_first_is_waited_for_on_the_loop() -> None:
    arrived: list[str] = []

    async def ready() -> None:
        arrived.append(threading.current_thread().name)

    def work() -> Accepted | Rejected:
        return ALICE if arrived == [threading.main_thread().name] else FAULT

    async def fails() -> None:
        raise RuntimeError("it will never arrive")

    verifications = Verifications(CollectorRegistry())
    assert await verifications.outcome(Deferred(work, ready)) is ALICE
    assert await verifications.outcome(Deferred(work, fails)) == FAULT
    verifications.close()
