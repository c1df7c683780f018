"""The place of one connection among those that are counted: taken by proxy.net.admission, given back once."""

from proxy.quota.connections import ConnectionQuotas


class Slot:
    """The place of one connection among those that are counted."""

    __slots__ = ("_address", "_left", "_listener", "_quotas", "kept")

    def __init__(self, quotas: ConnectionQuotas, listener: str, address: str) -> None:
        self._quotas = quotas
        self._listener = listener
        self._address = address
        self._left = False
        self.kept = False
        """A session has come of it: who ends that gives the place back."""

    def leave(self) -> None:
        """Give the place back; doing so again changes nothing."""
        if not self._left:
            self._left = True
            self._quotas.close(self._listener, self._address)
