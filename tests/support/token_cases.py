"""What clients may send in an OAUTHBEARER login, right and wrong, for a proxy and a broker to answer."""

from typing import Any

from proxy.security.sasl.oauthbearer_message import ClientFirst
from tests.support.identity_provider import ABSENT, AUDIENCE, part, token


def first(text: str, authorization_id: str = "", **extensions: str) -> bytes:
    return ClientFirst(text, authorization_id, extensions).encode()


def one(message: bytes) -> list[bytes]:
    """A message and, should it be answered by an error, that the error was read."""
    return [message, b"\x01"]


def cases(now_s: int) -> dict[str, list[bytes]]:
    """What a client sends, message by message; the exchange ends with the first that settles it."""
    good = token(now_s)
    header, payload, signature = good.split(".")
    claims: dict[str, dict[str, Any]] = {
        "good": {},
        "long life": {"exp": now_s + 7_200},
        "audience in a list": {"aud": ["x", AUDIENCE]},
        "seconds with a fraction": {"exp": now_s + 300.7, "iat": now_s - 0.5},
        "over, within the skew": {"exp": now_s - 5, "iat": now_s - 60},
        "over": {"exp": now_s - 120, "iat": now_s - 240},
        "not yet": {"nbf": now_s + 120},
        "nearly yet": {"nbf": now_s + 15},
        "over before it begins": {"exp": now_s + 10, "nbf": now_s + 20},
        "over before it was issued": {"exp": now_s - 5, "iat": now_s},
        "another issuer": {"iss": "https://idp.example"},
        "no issuer": {"iss": ABSENT},
        "another audience": {"aud": "else"},
        "no audience": {"aud": ABSENT},
        "empty audience": {"aud": []},
        "audience no text": {"aud": 7},
        "issued in the future": {"iat": now_s + 200},
        "issued after its end": {"iat": now_s + 7_200},
        # Between 292 years and this a broker that limits no sessions closes the connection.
        "end beyond 64 bits": {"exp": 2**70},
        "no end": {"exp": ABSENT},
        "end no number": {"exp": "soon"},
        "no beginning": {"iat": ABSENT},
        "no subject": {"sub": ABSENT},
        "empty subject": {"sub": ""},
        "blank subject": {"sub": "  "},
        "subject with blanks": {"sub": " alice "},
        "subject no text": {"sub": 7},
        "id no text": {"jti": 7},
        "no scope": {"scope": ABSENT},
        "empty scope": {"scope": ""},
        "scope twice": {"scope": ["a", "a"]},
        "scopes in a list": {"scope": ["a", "b"]},
        "unknown key": {"header": {"kid": "nobody"}},
        "no key named": {"header": {"kid": ABSENT}},
        "critical": {"header": {"crit": ["new"], "new": 1}},
        "another algorithm": {"header": {"alg": "RS512"}},
        "no algorithm": {"header": {"alg": ABSENT}},
        "PS256": {"algorithm": "PS256"},
    }
    exchanges = {name: one(first(token(now_s, **changed))) for name, changed in claims.items()}
    return exchanges | {
        "acting as itself": one(first(good, "alice")),
        "acting as another": one(first(good, "bob")),
        "extensions": one(first(good, "", traceId="1", other="a=b")),
        "unsigned": one(first(f"{part({'alg': 'none'})}.{payload}.")),
        "cut": one(first(f"{header}.{payload}")),
        "tampered": one(first(f"{header}.{part({'sub': 'root'})}.{signature}")),
        "rubbish": one(first("rubbish")),
        "no token": one(b"n,,\x01auth=Bearer \x01\x01"),
        "no auth": one(b"n,,\x01host=x\x01\x01"),
        "no message": one(b"\x01"),
        "empty": one(b""),
        "channel binding": one(b"y,,\x01auth=Bearer " + good.encode() + b"\x01\x01"),
        "cut message": one(b"n,,\x01auth=Bearer " + good.encode() + b"\x01"),
        "two tokens, the last good": one(
            b"n,,\x01auth=Bearer x\x01auth=Bearer " + good.encode() + b"\x01\x01"
        ),
        "small bearer": one(b"n,,\x01auth=bearer " + good.encode() + b"\x01\x01"),
        "not ASCII": one(b"n,a=\xc3\xbc,\x01auth=Bearer " + good.encode() + b"\x01\x01"),
    }
