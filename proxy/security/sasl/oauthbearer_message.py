"""The client's first message of OAUTHBEARER (RFC 7628, section 3.1): parsed and encoded.

`n,a=AUTHZID,^Aauth=Bearer TOKEN^Akey=value^A^A`. As in Kafka there is no channel binding, the authorization
id is taken literally, names of extensions are letters, and the last of two equal keys counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SEPARATOR = "\x01"

# All repetitions are possessive: an unauthenticated client's input is never backtracked.
_KEY = r"[A-Za-z]++"
_VALUE = r"[\x21-\x7E \t\r\n]++"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)++))?,\x01"
    rf"(?P<pairs>(?:{_KEY}={_VALUE}\x01)*+)\x01"
)
_AUTH = re.compile(r"(?P<scheme>[A-Za-z0-9_]++) ++(?P<token>[-_~+/.a-zA-Z0-9]++=*+)")
_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")


class MessageError(Exception):
    """The message is malformed; the text contains nothing of it."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """A token, and optionally an authorization id and extensions."""

    token: str = field(repr=False)
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, message: bytes) -> "ClientFirst":
        """Parse a message; MessageError if it is malformed."""
        try:
            match = _FIRST.fullmatch(message.decode("ascii"))
        except UnicodeDecodeError:
            raise MessageError("the message is not ASCII") from None
        if match is None:
            raise MessageError("malformed client first message")
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split(SEPARATOR) if pair)
        auth = pairs.pop("auth", None)
        if auth is None:
            raise MessageError("the message has no auth")
        bearer = _AUTH.fullmatch(auth)
        if bearer is None or bearer["scheme"].lower() != "bearer":
            raise MessageError("auth is not a bearer token")
        return cls(bearer["token"], match["authzid"] or "", pairs)

    def encode(self) -> bytes:
        """Encode the message; ValueError, without the token, for a token that cannot be in a message."""
        if _TOKEN.fullmatch(self.token) is None:
            raise ValueError("the token is not one that a bearer message can carry (RFC 6750, section 2.1)")
        authzid = f"a={self.authorization_id}" if self.authorization_id else ""
        pairs = {"auth": f"Bearer {self.token}"} | dict(self.extensions)
        body = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs.items())
        return f"n,{authzid},{SEPARATOR}{body}{SEPARATOR}".encode("ascii")
