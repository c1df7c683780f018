"""The address of a client as a listener reads it from the socket."""

import pytest

from proxy.net.clients.acceptor import peer_address
from proxy.net.clients.listener import _address


@pytest.mark.spec("S7", "O14")
@pytest.mark.parametrize(
    ("of_socket", "host"),
    [
        (("10.0.0.1", 40_000), "10.0.0.1"),
        (("::1", 40_000, 0, 0), "0:0:0:0:0:0:0:1"),
        (("::ffff:10.0.0.1", 40_000, 0, 0), "10.0.0.1"),
        # Python has the number of the interface beside the address. A broker writes it behind.
        (("fe80::1", 40_000, 0, 2), "fe80:0:0:0:0:0:0:1%2"),
        (("fe80::1", 40_000, 7, 0), "fe80:0:0:0:0:0:0:1"),
    ],
)
def test_a_link_local_client_has_a_zone(of_socket: tuple[str, int], host: str) -> None:
    found, raw = _address(peer_address(of_socket))

    assert found == host
    # The Envelope has no place for it, as Kafka's.
    assert len(raw) == (16 if ":" in host else 4)
