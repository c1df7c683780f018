"""Who leads the quorum, as far as we know: what controllers have told in, the endpoint to try next out.

Kept by quorum_feed, which tries; read by the forwarder, whose Envelopes only the leader takes. Connects to
nobody.
"""

from collections.abc import Sequence

from proxy.net.channel import EndpointSettings
from proxy.net.quorum import Leadership


class QuorumLeader:
    """The leader among `endpoints`, or at an address that one of them told."""

    def __init__(self, endpoints: Sequence[EndpointSettings]) -> None:
        if not endpoints:
            raise ValueError("no controller endpoint")
        self._endpoints = tuple(endpoints)
        self._tried = 0
        self.epoch = 0
        """The latest epoch that was heard of."""
        self.endpoint: EndpointSettings | None = None
        """Where the leader is; None while it is looked for."""

    def follow(self, endpoints: Sequence[EndpointSettings]) -> None:
        """These are tried from now on while the leader is not known."""
        self._endpoints = tuple(endpoints)

    def candidate(self) -> EndpointSettings:
        """The leader, or while it is not known one configured endpoint after the other."""
        if self.endpoint is not None:
            return self.endpoint
        candidate = self._endpoints[self._tried % len(self._endpoints)]
        self._tried += 1
        return candidate

    def learn(self, told: Leadership) -> bool:
        """Take in what a controller said; True when it says where the leader is."""
        if told.epoch < self.epoch:
            # It is behind the others, so it is not where to stay.
            self.endpoint = None
            return False
        self.epoch = told.epoch
        self.endpoint = self._at(told.address)
        return self.endpoint is not None

    def found(self, endpoint: EndpointSettings) -> None:
        """This one answers as the leader."""
        self.endpoint = endpoint

    def lost(self) -> None:
        """It does not answer, or not as a leader should."""
        self.endpoint = None

    def _at(self, address: tuple[str, int] | None) -> EndpointSettings | None:
        if address is None:
            return None
        host, port = address
        return self._endpoints[0].at(host, port)
