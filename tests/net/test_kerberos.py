"""GSSAPI with the system's library and a real KDC: keytabs, tickets, replays, clocks."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from proxy.net.logins.kerberos import GssapiMechanism, GssapiSettings
from proxy.security.principal import Principal
from proxy.security.sasl.exchange import Accepted, Challenge, Deferred, Exchange, Rejected, Settled
from tests.support import kdc as kerberos
from tests.support.kdc import REALM, Kdc
from tests.support.kerberos_client import KerberosClient, KerberosLogin

pytestmark = [pytest.mark.spec("R9"), pytest.mark.slow]

NOW = 1_700_000_000_000
ALICE = Accepted(Principal("User", "alice"), b"")
_numbers = count(1)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kerberos.require()
    with Kdc.running(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        running.principal("kafka/localhost", keytab=keytab(running, "kafka"))
        running.principal("HTTP/localhost", keytab=keytab(running, "kafka"))
        for user in ("alice", "alice/admin", "bob"):
            running.principal(user, keytab=keytab(running, "users"))
        yield running


def keytab(kdc: Kdc, name: str) -> Path:
    return kdc.directory / f"{name}.keytab"


def mechanism(kdc: Kdc, rules: tuple[str, ...] = ("DEFAULT",), service: str = "kafka") -> GssapiMechanism:
    return GssapiMechanism(GssapiSettings(service, keytab(kdc, "kafka"), rules))


def client(kdc: Kdc, name: str = "alice", service: str = "kafka@localhost") -> KerberosClient:
    """With no ticket yet."""
    own = keytab(kdc, f"users-{next(_numbers)}")
    own.write_bytes(keytab(kdc, "users").read_bytes())
    return KerberosClient(f"{name}@{REALM}", own, service)


def sent(exchange: Exchange, token: bytes) -> Settled:
    outcome = exchange.respond(token, NOW)
    return outcome.work() if isinstance(outcome, Deferred) else outcome


def challenged(exchange: Exchange, token: bytes) -> bytes:
    outcome = sent(exchange, token)
    assert isinstance(outcome, Challenge), outcome
    return outcome.token


def logged_in(exchange: Exchange, login: KerberosLogin, wanted: str = "") -> Settled:
    login.takes(challenged(exchange, login.ticket()))
    assert login.offered(challenged(exchange, b"")) == b"\x01\x01\0\0"
    return sent(exchange, login.choice(wanted=wanted))


def reason(outcome: Settled) -> str:
    """Why a token was refused."""
    assert isinstance(outcome, Rejected), outcome
    return outcome.reason


def test_a_ticket_for_the_service_is_its_user(kdc: Kdc) -> None:
    alice = client(kdc)

    assert logged_in(mechanism(kdc).new_exchange(), alice.login(), f"alice@{REALM}") == ALICE
    assert logged_in(mechanism(kdc).new_exchange(), alice.login()) == ALICE


def test_who_asks_for_no_proof_of_the_server_gets_the_offer_at_once(kdc: Kdc) -> None:
    exchange, login = mechanism(kdc).new_exchange(), client(kdc).login(mutual=False)

    assert login.offered(challenged(exchange, login.ticket())) == b"\x01\x01\0\0"
    assert sent(exchange, login.choice()) == ALICE


def test_rules_apply_to_the_names_of_the_kdc(kdc: Kdc) -> None:
    admins = mechanism(kdc, ("RULE:[2:$1-$2]/U", "DEFAULT"))

    outcome = logged_in(admins.new_exchange(), client(kdc, "alice/admin").login())

    assert outcome == Accepted(Principal("User", "ALICE-ADMIN"), b"")


def test_nobody_is_somebody_else(kdc: Kdc) -> None:
    outcome = logged_in(mechanism(kdc).new_exchange(), client(kdc, "bob").login(), f"alice@{REALM}")

    assert reason(outcome) == f"'bob@{REALM}' asked to act as 'alice@{REALM}'"


def test_a_replayed_ticket_is_refused(kdc: Kdc) -> None:
    ticket = client(kdc).login().ticket()
    challenged(mechanism(kdc).new_exchange(), ticket)

    why = reason(sent(mechanism(kdc).new_exchange(), ticket))

    assert "replay" in why


def test_a_ticket_for_another_service_is_refused_though_its_key_is_in_the_keytab(kdc: Kdc) -> None:
    login = client(kdc, service="HTTP@localhost").login()

    why = reason(sent(mechanism(kdc).new_exchange(), login.ticket()))

    assert f"HTTP/localhost@{REALM}" in why


def test_a_clock_that_is_off_is_refused(kdc: Kdc) -> None:
    alice = client(kdc)
    alice.login().ticket()
    alice.set_clock_off(600)

    why = reason(sent(mechanism(kdc).new_exchange(), alice.login().ticket()))

    assert "Clock skew too great" in why


def test_a_clock_that_is_a_little_off_is_not(kdc: Kdc) -> None:
    alice = client(kdc)
    alice.login().ticket()
    alice.set_clock_off(200)

    assert logged_in(mechanism(kdc).new_exchange(), alice.login()) == ALICE


def test_a_new_key_of_the_service_is_taken_as_soon_as_it_is_in_the_keytab(kdc: Kdc) -> None:
    running = mechanism(kdc)
    kdc.rekey("kafka/localhost")
    alice = client(kdc)

    why = reason(sent(running.new_exchange(), alice.login().ticket()))
    kdc.export("kafka/localhost", keytab(kdc, "kafka"))

    assert "kafka/localhost" in why
    assert logged_in(running.new_exchange(), alice.login()) == ALICE


@pytest.mark.parametrize(
    "mangled",
    [
        lambda _: b"",
        lambda _: b"x",
        lambda ticket: ticket[:-1],
        lambda ticket: ticket[: len(ticket) // 2],
        lambda ticket: ticket[1:],
        lambda ticket: ticket + b"\0",
        lambda ticket: ticket[:-20] + bytes(20),
        lambda ticket: ticket[:300] + bytes([ticket[300] ^ 1]) + ticket[301:],
        lambda ticket: bytes(len(ticket)),
        lambda ticket: ticket[:17] + b"\xff" * 60_000,
    ],
)
def test_a_mangled_ticket_is_refused(kdc: Kdc, mangled: Callable[[bytes], bytes]) -> None:
    exchange = mechanism(kdc).new_exchange()

    assert isinstance(sent(exchange, mangled(client(kdc).login().ticket())), Rejected)
    assert isinstance(sent(exchange, client(kdc).login().ticket()), Rejected)


def test_a_mangled_choice_is_refused(kdc: Kdc) -> None:
    alice = client(kdc)
    for position in (0, 5, 20, -1):
        exchange, login = mechanism(kdc).new_exchange(), alice.login()
        login.takes(challenged(exchange, login.ticket()))
        login.offered(challenged(exchange, b""))
        choice = bytearray(login.choice())
        choice[position] ^= 1

        assert isinstance(sent(exchange, bytes(choice)), Rejected)


def test_a_keytab_without_a_key_of_the_service_is_an_error_at_the_start(kdc: Kdc) -> None:
    with pytest.raises(ValueError, match=r"^sasl\.kerberos\.keytab: no key of 'nfs' in .*/kafka\.keytab: "):
        mechanism(kdc, service="nfs")


def test_without_a_default_realm_nobody_is_of_it(
    kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = client(kdc).login()
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    text = kdc.krb5_conf.read_text().replace(f"default_realm = {REALM}", "")
    (tmp_path / "krb5.conf").write_text(text)

    outcome = logged_in(mechanism(kdc).new_exchange(), login)

    assert reason(outcome) == f"no rule of DEFAULT applies to 'alice@{REALM}'"


def test_logins_at_once_are_each_their_own(kdc: Kdc) -> None:
    service, names = mechanism(kdc), ["alice", "bob"] * 20
    clients = {name: client(kdc, name) for name in ("alice", "bob")}
    for each in clients.values():
        each.login().ticket()

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(
            pool.map(lambda name: logged_in(service.new_exchange(), clients[name].login()), names)
        )

    assert outcomes == [Accepted(Principal("User", name), b"") for name in names]
