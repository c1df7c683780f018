"""The versions of APIs that the client of one connection has used, and what its listener counts of it.

Noted where a session sees an API in a version for the first time: where traffic gets a summary
(proxy.session.client_state), and where a request is denied or administrative (proxy.session.call). Requests
like those before cost nothing here. Messages of the login and ApiVersions are not noted. Read by
proxy.net.pages.connection_page.
"""

from collections.abc import Hashable
from typing import TypeVar

from proxy.session.accounting.request_counts import RequestCounts
from proxy.session.authentication import Authentication

UNKNOWN = "unknown unknown"
"""As in Kafka's metrics, of clients that have not said their software."""


class ConnectionUse:
    """One connection's."""

    __slots__ = ("_authentication", "_counted", "_counts", "_is_open", "versions")

    def __init__(self, counts: RequestCounts, authentication: Authentication) -> None:
        self._counts = counts
        self._authentication = authentication
        self._is_open = True
        self._counted: str | None = None  # The software under which the connection is counted.
        self.versions: set[tuple[int, int]] = set()
        """API key and version."""

    def note(self, api_key: int, version: int) -> None:
        """The client uses this version: a request in it was decided on."""
        api = api_key, version
        if api not in self.versions and self._is_open:
            self.versions.add(api)
            _add(self._counts.connections_by_version, api, 1)
            self.count()

    def count(self) -> None:
        """Count the connection under the software that the client has named last, once it has used an API."""
        software = self._authentication.client_software or UNKNOWN
        if self.versions and software != self._counted:
            self._uncount()
            self._counted = software
            _add(self._counts.connections_by_software, software, 1)

    def close(self) -> None:
        """The connection is over."""
        self._is_open = False
        self._uncount()
        for api in self.versions:
            _add(self._counts.connections_by_version, api, -1)
        self.versions.clear()

    def _uncount(self) -> None:
        if self._counted is not None:
            _add(self._counts.connections_by_software, self._counted, -1)
            self._counted = None


Counted = TypeVar("Counted", bound=Hashable)


def _add(counts: dict[Counted, int], name: Counted, change: int) -> None:
    counts[name] = counts.get(name, 0) + change
    if not counts[name]:
        del counts[name]  # Names that clients invent do not outlive their connections.
