"""GSSAPI of a listener: its settings, the service's key, and security contexts of the system's GSS-API.

proxy.net.logins.credentials makes them when a process is built. python-gssapi is an extra, because it is
compiled against the headers of Kerberos; without it GSSAPI cannot be enabled. Contexts work in other threads.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from proxy.error_text import text_of
from proxy.security.kerberos_names import DEFAULT, LocalRules
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.gssapi import NAME, GssapiExchange, GssError


@dataclass(frozen=True, slots=True)
class GssapiSettings:
    """The service's name and key, and the rules for clients' names."""

    service_name: str
    keytab: Path
    rules: tuple[str, ...] = (DEFAULT,)
    """sasl.kerberos.principal.to.local.rules."""


class Kerberos:
    """The key of a service in a keytab, which is read for each login, and the default realm of krb5.conf."""

    def __init__(self, service_name: str, keytab: Path) -> None:
        """ValueError names the config key if the extra is missing or the keytab has no such key."""
        self._gssapi = _library()
        try:
            # A name without a host: clients may use any name of this host.
            name = self._gssapi.Name(service_name, self._gssapi.NameType.hostbased_service)
            self._key = self._gssapi.Credentials(
                name=name,
                usage="accept",
                mechs=[self._gssapi.MechType.kerberos],
                store={"keytab": f"FILE:{keytab}"},
            )
        except self._gssapi.exceptions.GSSError as error:
            raise ValueError(
                f"sasl.kerberos.keytab: no key of {service_name!r} in {keytab}: {text_of(error)}"
            ) from error

    def default_realm(self) -> str:
        """Return the default realm; "" if there is none, as in Kafka, which matches no client."""
        try:
            name = self._gssapi.Name("nobody", self._gssapi.NameType.user)
            return str(name.canonicalize(self._gssapi.MechType.kerberos)).rpartition("@")[2]
        except self._gssapi.exceptions.GSSError:
            return ""

    def new_context(self) -> "Context":
        """Return a context for one login."""
        return Context(self._gssapi, self._key)


class Context:
    """The accepting side of one login; a SecurityContext of proxy.security.sasl.gssapi."""

    def __init__(self, gssapi: ModuleType, key: object) -> None:
        self._gssapi = gssapi
        with self._errors():
            self._context = gssapi.SecurityContext(creds=key, usage="accept")
        # Otherwise an error of this token would be raised by the next call instead of this one.
        self._context.__DEFER_STEP_ERRORS__ = False

    def step(self, token: bytes) -> bytes | None:
        with self._errors():
            response: bytes | None = self._context.step(token)
        return response

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
            raise GssError(text_of(error)) from error
        except UnicodeDecodeError as error:
            raise GssError("the client's name is not UTF-8") from error


class GssapiMechanism:
    """The SASL mechanism GSSAPI; see SaslMechanism."""

    name = NAME

    def __init__(self, settings: GssapiSettings) -> None:
        """ValueError names a key that cannot be used."""
        self._kerberos = Kerberos(settings.service_name, settings.keytab)
        self._rules = LocalRules(settings.rules)
        self._realm = self._kerberos.default_realm()

    def new_exchange(self) -> Exchange:
        """Return an exchange for one login."""
        return GssapiExchange(self._kerberos.new_context, self._local_name)

    def _local_name(self, kerberos_name: str) -> str:
        return self._rules.name(kerberos_name, self._realm)


def _library() -> ModuleType:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:
        raise ValueError(
            f"sasl.enabled.mechanisms: GSSAPI needs an extra that is not installed here ({error}):"
            " pip install '.[gssapi]' in a checkout"
        ) from error
