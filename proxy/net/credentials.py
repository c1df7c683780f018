"""What the SASL exchanges of a listener are checked against: the users file and the image's SCRAM records.

Made when a process is put together, for the proxy's listeners and the controller's. Hashing a password
takes tens of ms, so what has been verified is remembered, under a key of this process.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping

from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import ScramMechanism
from proxy.security.passwords import hash_password, verify_password
from proxy.security.sasl.exchange import Exchange
from proxy.security.sasl.plain import PlainExchange
from proxy.security.sasl.scram import ScramExchange
from proxy.session.authentication import SaslListener

_MAX_REMEMBERED = 10_000


class PlainUsers:
    """The users that PLAIN knows: name -> hashed password."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = dict(hashes)
        self._secret = secrets.token_bytes(32)
        self._verified: dict[str, bytes] = {}
        # An unknown user costs what a wrong password costs, so that time does not tell who exists.
        self._nobody = hash_password(secrets.token_hex(16), secrets.token_bytes(16))

    def verify(self, username: str, password: str) -> bool:
        """Whether this is the user's password."""
        mark = hmac.digest(self._secret, f"{username}\0{password}".encode(), hashlib.sha256)
        remembered = self._verified.get(username)
        if remembered is not None and hmac.compare_digest(remembered, mark):
            return True
        right = verify_password(password, self._hashes.get(username, self._nobody))
        if not right or username not in self._hashes:
            return False
        if len(self._verified) >= _MAX_REMEMBERED:
            self._verified.clear()
        self._verified[username] = mark
        return True


def sasl_listener(
    name: str,
    mechanisms: tuple[str, ...],
    max_reauth_ms: int,
    users: PlainUsers,
    image: Callable[[], MetadataImage | None],
) -> SaslListener:
    """How those who connect to a listener log in; `image` gives the one in force at each login."""
    dummy_salt_key = secrets.token_bytes(32)

    def new_exchange(mechanism: str) -> Exchange:
        if mechanism == "PLAIN":
            return PlainExchange(users.verify)
        scram = ScramMechanism.named(mechanism)
        in_force = image() or MetadataImage.EMPTY
        return ScramExchange(
            scram,
            lambda user: in_force.scram.credential(scram, user),
            secrets.token_urlsafe(24),
            dummy_salt_key,
        )

    return SaslListener(name, mechanisms, lambda _mechanism: max_reauth_ms, new_exchange)
