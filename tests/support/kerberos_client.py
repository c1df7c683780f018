"""The client's side of GSSAPI with a keytab, by python-gssapi: tokens for tests that log in by hand."""

import importlib
import struct
from pathlib import Path
from typing import Any

_OFFSET_TAG = 1


class KerberosClient:
    """One user; its tickets are kept in a file beside the keytab."""

    def __init__(self, name: str, keytab: Path, service: str = "kafka@localhost") -> None:
        self._gssapi: Any = importlib.import_module("gssapi")
        self.name = name
        self._service = service
        self._tickets = keytab.with_suffix(f".{name.replace('/', '-').partition('@')[0]}.tickets")
        self._store = {"client_keytab": str(keytab), "ccache": f"FILE:{self._tickets}"}

    def login(self, *, mutual: bool = True) -> "KerberosLogin":
        """A new one, with a ticket of its own or the one at hand."""
        gssapi = self._gssapi
        flags = gssapi.RequirementFlag.integrity
        context = gssapi.SecurityContext(
            name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
            creds=gssapi.Credentials(name=gssapi.Name(self.name), usage="initiate", store=self._store),
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=flags | gssapi.RequirementFlag.mutual_authentication if mutual else flags,
        )
        return KerberosLogin(context)

    def set_clock_off(self, seconds: int) -> None:
        """From now on it tells a wrong time: the file of tickets says how far the KDC's clock is off."""
        tickets = self._tickets.read_bytes()
        (header_bytes,) = struct.unpack_from(">H", tickets, 2)
        header = struct.pack(">HHii", _OFFSET_TAG, 8, seconds, 0)
        self._tickets.write_bytes(
            tickets[:2] + struct.pack(">H", len(header)) + header + tickets[4 + header_bytes :]
        )


class KerberosLogin:
    def __init__(self, context: Any) -> None:
        self._context = context
        self._ticket: bytes | None = None

    def ticket(self) -> bytes:
        """The first token, the same each time."""
        if self._ticket is None:
            self._ticket = bytes(self._context.step())
        return self._ticket

    def takes(self, answer: bytes) -> None:
        """The server's part of the context."""
        assert self._context.step(answer) is None
        assert self._context.complete

    def offered(self, token: bytes) -> bytes:
        return bytes(self._context.unwrap(token).message)

    def choice(self, choice: bytes = b"\x01\0\0\0", wanted: str = "") -> bytes:
        return bytes(self._context.wrap(choice + wanted.encode(), False).message)
