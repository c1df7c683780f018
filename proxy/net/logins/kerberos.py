"""GSSAPI of a listener: its settings, the service's key, and contexts made with it by the system's GSS-API.

Made by proxy.net.logins.credentials when a process is put together. python-gssapi is an extra, for it is
built against Kerberos' headers: where it is not there GSSAPI cannot be enabled. Contexts work in other
threads.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from proxy.security.kerberos_names import DEFAULT, LocalRules
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.gssapi import NAME, GssapiExchange, GssError


@dataclass(frozen=True, slots=True)
class GssapiSettings:
    """Who the service is, and who its clients are."""

    service_name: str
    keytab: Path
    rules: tuple[str, ...] = (DEFAULT,)
    """sasl.kerberos.principal.to.local.rules."""


class Kerberos:
    """The key of a service, in a keytab that is read at each login, and krb5.conf's default realm."""

    def __init__(self, service_name: str, keytab: Path) -> None:
        """ValueError, naming the key, where the extra is missing or the keytab has no key of the service."""
        self._gssapi = _library()
        try:
            # Of any host: by which of its names a client has found us is no affair of ours.
            name = self._gssapi.Name(service_name, self._gssapi.NameType.hostbased_service)
            self._key = self._gssapi.Credentials(
                name=name,
                usage="accept",
                mechs=[self._gssapi.MechType.kerberos],
                store={"keytab": f"FILE:{keytab}"},
            )
        except self._gssapi.exceptions.GSSError as error:
            raise ValueError(
                f"sasl.kerberos.keytab: no key of {service_name!r} in {keytab}: {error}"
            ) from error

    def default_realm(self) -> str:
        """As in Kafka, without one it is "", which no client is of."""
        try:
            name = self._gssapi.Name("nobody", self._gssapi.NameType.user)
            return str(name.canonicalize(self._gssapi.MechType.kerberos)).rpartition("@")[2]
        except self._gssapi.exceptions.GSSError:
            return ""

    def new_context(self) -> "Context":
        """For one login."""
        return Context(self._gssapi, self._key)


class Context:
    """See SecurityContext."""

    def __init__(self, gssapi: ModuleType, key: object) -> None:
        self._gssapi = gssapi
        with self._errors():
            self._context = gssapi.SecurityContext(creds=key, usage="accept")
        # Or what is wrong with a token would be told by the context's next use, and its answer by this one.
        self._context.__DEFER_STEP_ERRORS__ = False

    def step(self, token: bytes) -> bytes | None:
        with self._errors():
            answer: bytes | None = self._context.step(token)
        return answer

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        with self._errors():
            return str(self._context.initiator_name)

    def wrap(self, message: bytes) -> bytes:
        with self._errors():
            return bytes(self._context.wrap(message, encrypt=False).message)

    def unwrap(self, token: bytes) -> bytes:
        with self._errors():
            return bytes(self._context.unwrap(token).message)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._gssapi.exceptions.GSSError as error:
            raise GssError(str(error)) from error
        except UnicodeDecodeError as error:
            raise GssError("the client's name is not UTF-8") from error


class GssapiMechanism:
    """See SaslMechanism."""

    name = NAME

    def __init__(self, settings: GssapiSettings) -> None:
        """ValueError names a key that cannot be used."""
        self._kerberos = Kerberos(settings.service_name, settings.keytab)
        self._rules = LocalRules(settings.rules)
        self._realm = self._kerberos.default_realm()

    def new_exchange(self) -> Exchange:
        """For one login."""
        return GssapiExchange(self._kerberos.new_context, self._local_name)

    def _local_name(self, kerberos_name: str) -> str:
        return self._rules.name(kerberos_name, self._realm)


def _library() -> ModuleType:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise ValueError(
            f"sasl.enabled.mechanisms: GSSAPI needs an extra that is not installed here ({error}):"
            " pip install 'penstock[gssapi]'"
        ) from error
