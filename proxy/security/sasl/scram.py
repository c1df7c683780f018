"""SCRAM-SHA-256 and -512, server side (RFC 5802), with credentials as Kafka stores them.

There are two tokens: the client's name and nonce, then its proof. An unknown user gets a salt made from the
name, and fails where a wrong password fails, after the same work: clients cannot learn which users exist.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from proxy.metadata.image import DelegationToken, ScramImage
from proxy.metadata.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    looks_like_kafkas,
    salt_of,
)
from proxy.security.delegation_tokens import ITERATIONS, TokenLogins
from proxy.security.principal import USER_TYPE, Principal, parse_principal
from proxy.security.sasl.exchange import (
    MAX_TOKEN_BYTES,
    Accepted,
    Challenge,
    Deferred,
    Outcome,
    Rejected,
    shown,
)
from proxy.security.sasl.plain import WRONG_AUTHZID

# RFC 5802, section 7. `n` and `y` mean no channel binding; `p` requests it, and `m` announces an extension
# that has to be understood: neither matches. A name has "," and "=" only escaped. All repetitions are
# possessive: an unauthenticated client's input is never backtracked.
_NAME = r"(?:[^,=\0]++|=2C|=3D)++"
_NONCE = r"[\x21-\x2b\x2d-\x7e]++"
_EXTENSIONS = r"(?:,(?!p=)[A-Za-z]++=[^,\0]++)*+"
_BASE64 = r"(?:[A-Za-z0-9/+]{4})*+(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)

WRONG_NONCE = (
    "the nonce of the client-final message is not the server's; librdkafka before 2.6.1 (and programs built"
    " on it, such as kcat) sends a wrong one: upgrade it, or set sasl.scram.nonce.check: lax on this listener"
)


@dataclass(frozen=True, slots=True)
class _Claim:
    """The claimed identity, and the credential that would prove it."""

    name: str
    principal: Principal
    credential: ScramCredential
    certain_failure: str = ""
    """Why no proof can succeed, which the client learns only after sending one; "": one can."""


@dataclass(frozen=True, slots=True)
class _State:
    """The state after the first token."""

    gs2_header: str
    client_first_bare: str
    server_first: str
    nonce: str
    claim: _Claim | str
    """The claim; for a delegation token only its id, until the proof is checked."""


@dataclass(frozen=True, slots=True)
class _Proof:
    """The contents of the last token."""

    auth_message: bytes
    proof: bytes


@dataclass(frozen=True, slots=True, order=True)
class Usual:
    """What most known users have, and unknown ones too, so that they do not differ."""

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = 0
    """0: salts are like those of Kafka's tools."""

    def salt(self, digest: bytes) -> bytes:
        return hashlib.shake_256(digest).digest(self.salt_bytes) if self.salt_bytes else salt_of(digest)


_DEFAULT = Usual()


class ScramExchange:
    """One SCRAM login.

    `lookup` returns the credential of a user name, None for an unknown one; `tokens` has the delegation
    tokens, for clients with tokenauth=true (None: they are disabled). `server_nonce` is printable ASCII
    without a comma and must never repeat; `dummy_salt_key` is that of SaltKey; `usual` is what
    unknown users get. `checks_nonce`: reject a client-final message
    without the nonce of server-first, as RFC 5802 wants it and Kafka does since 3.7.2 and 3.8.1. The proof
    covers that nonce in any case, as a part of server-first.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Callable[[str], ScramCredential | None],
        server_nonce: str,
        dummy_salt_key: bytes,
        tokens: TokenLogins | None = None,
        usual: Usual = _DEFAULT,
        *,
        checks_nonce: bool = True,
    ) -> None:
        self._mechanism = mechanism
        self._lookup = lookup
        self._server_nonce = server_nonce
        self._dummy_salt_key = dummy_salt_key
        self._tokens = tokens
        self._usual = usual
        self._checks_nonce = checks_nonce
        self._state: _State | None = None
        self._over = False

    def respond(self, token: bytes, now_ms: int) -> Outcome:
        outcome = self._respond(token, now_ms)
        self._over = not isinstance(outcome, Challenge)
        return outcome

    def _respond(self, token: bytes, now_ms: int) -> Outcome:
        if self._over:
            return Rejected("", "a token after the end of the exchange")
        if len(token) > MAX_TOKEN_BYTES:
            return Rejected("", f"a token of {len(token)} bytes, limit {MAX_TOKEN_BYTES}")
        try:
            message = bytes(token).decode()
        except UnicodeDecodeError:
            return Rejected("", "the token is not UTF-8")
        return self._first(message) if self._state is None else self._final(message, self._state, now_ms)

    def _first(self, message: str) -> Challenge | Rejected:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            return Rejected("", "malformed client-first message")
        username = _unescaped(match["name"])
        if match["authzid"] is not None and _unescaped(match["authzid"]) != username:
            return Rejected(
                WRONG_AUTHZID, f"{shown(username)} asked to act as {shown(_unescaped(match['authzid']))}"
            )
        claim, salt, iterations = self._claimed(username, by_token=_by_token(match["extensions"]))
        nonce = match["nonce"] + self._server_nonce
        server_first = f"r={nonce},s={b64encode(salt).decode()},i={iterations}"
        self._state = _State(match["gs2"], match["bare"], server_first, nonce, claim)
        return Challenge(server_first.encode())

    def _final(self, message: str, begun: _State, now_ms: int) -> Accepted | Rejected | Deferred:
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            return Rejected("", "malformed client-final message")
        if self._checks_nonce and match["nonce"] != begun.nonce:
            name = begun.claim if isinstance(begun.claim, str) else begun.claim.name
            return Rejected("", f"{shown(name)}: {WRONG_NONCE}")
        if b64decode(match["binding"]) != begun.gs2_header.encode():
            return Rejected("", "the channel binding is not that of the client-first message")
        auth_message = f"{begun.client_first_bare},{begun.server_first},{match['unproven']}".encode()
        proof = _Proof(auth_message, b64decode(match["proof"]))
        if isinstance(begun.claim, str):
            return self._by_token(begun.claim, proof, now_ms)
        return self._settled(begun.claim, proof, now_ms)

    def _by_token(self, token_id: str, proof: _Proof, now_ms: int) -> Deferred:
        assert self._tokens is not None
        token = self._tokens.token(token_id)
        certain_failure = "no such delegation token" if token is None else ""
        if token is not None and now_ms >= token.expiry_timestamp_ms:
            certain_failure = "the delegation token has expired"
        work = partial(self._settled_by_token, self._tokens, token_id, token, certain_failure, proof, now_ms)
        return Deferred(work, user=token_id, hashes=True)

    def _settled_by_token(
        self,
        tokens: TokenLogins,
        token_id: str,
        token: DelegationToken | None,
        certain_failure: str,
        proof: _Proof,
        now_ms: int,
    ) -> Accepted | Rejected:
        """Check in another thread: the credential takes some ms, also for an unknown id."""
        credential = tokens.credential(self._mechanism, token_id)
        owner = Principal(USER_TYPE, token_id) if token is None else parse_principal(token.owner)
        principal = Principal(owner.principal_type, owner.name, token_authenticated=True)
        outcome = self._settled(_Claim(token_id, principal, credential, certain_failure), proof, now_ms)
        if token is None or isinstance(outcome, Rejected):
            return outcome
        return Accepted(
            principal,
            outcome.token,
            token.expiry_timestamp_ms,
            still_valid=partial(tokens.still_valid, token),
        )

    def _settled(self, claim: _Claim, proof: _Proof, now_ms: int) -> Accepted | Rejected:
        proven = self._proves(claim.credential, proof)
        signature = self._hmac(claim.credential.server_key, proof.auth_message)
        fault = claim.certain_failure or ("" if proven else "wrong proof")
        if fault:
            return Rejected("", f"{shown(claim.name)}: {fault}", user=claim.name)
        if claim.credential.has_ended(now_ms):
            return Rejected("", f"{shown(claim.name)}: its credential has ended")
        # A credential that was set again has another salt, even with the same password.
        still_valid = partial(self._still, claim.name, claim.credential)
        until_ms = claim.credential.until_ms
        return Accepted(claim.principal, b"v=" + b64encode(signature), until_ms, still_valid)

    def _still(self, username: str, credential: ScramCredential) -> bool:
        return self._lookup(username) == credential

    def _claimed(self, username: str, *, by_token: bool) -> tuple[_Claim | str, bytes, int]:
        """Return the claim, and the salt and iterations for the client."""
        if by_token and self._tokens is not None:
            return username, self._tokens.salt(username), ITERATIONS
        claim = self._no_token(username) if by_token else self._user_claim(username)
        return claim, claim.credential.salt, claim.credential.iterations

    def _user_claim(self, username: str) -> _Claim:
        principal = Principal(USER_TYPE, username)
        # Computed for known users too: their first response must take as long.
        dummy = self._dummy_credential(username)
        credential = self._lookup(username)
        if credential is None:
            return _Claim(username, principal, dummy, certain_failure="no such credential")
        if credential.iterations < MIN_ITERATIONS:
            return _Claim(username, principal, dummy, certain_failure="its credential has too few iterations")
        return _Claim(username, principal, credential)

    def _no_token(self, token_id: str) -> _Claim:
        principal, dummy = Principal(USER_TYPE, token_id), self._dummy_credential(token_id)
        return _Claim(token_id, principal, dummy, certain_failure="no such delegation token")

    def _dummy_credential(self, username: str) -> ScramCredential:
        """Return a credential with the same salt at each attempt."""
        digest = self._hmac(self._dummy_salt_key, username.encode())
        return ScramCredential(self._usual.salt(digest), digest, digest, self._usual.iterations)

    def _proves(self, credential: ScramCredential, said: _Proof) -> bool:
        signature = self._hmac(credential.stored_key, said.auth_message)
        if len(said.proof) != len(signature):
            return False
        client_key = (int.from_bytes(signature) ^ int.from_bytes(said.proof)).to_bytes(len(signature))
        stored_key = hashlib.new(self._mechanism.hash_name, client_key).digest()
        return hmac.compare_digest(stored_key, credential.stored_key)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._mechanism.hash_name)


class UsualCredentials:
    """What most credentials of a mechanism have."""

    def __init__(self, mechanism: ScramMechanism) -> None:
        self._mechanism = mechanism
        self._image: ScramImage | None = None
        self._usual = _DEFAULT

    def of(self, image: ScramImage) -> Usual:
        """Return it from a sample of the image's credentials; computed once for each image."""
        if image is not self._image:
            keys = (key for key in image.credentials if key[0] is self._mechanism)
            found = Counter(map(_form, (image.credentials[key] for key in islice(keys, _SAMPLE))))
            self._image = image
            usual = max(found, key=lambda each: (found[each], each), default=_DEFAULT)
            self._usual = replace(usual, iterations=max(MIN_ITERATIONS, usual.iterations))
        return self._usual


def _form(credential: ScramCredential) -> Usual:
    salt = credential.salt
    return Usual(credential.iterations, 0 if looks_like_kafkas(salt) else min(len(salt), MAX_TOKEN_BYTES))


class SaltKey:
    """The key of the salts for unknown users, which are to be the same from all proxies and after a restart.

    Known users have the same salts everywhere: an unknown one with two would be recognised by them.
    """

    def __init__(self, secret: bytes | None, random: bytes) -> None:
        """`secret`: of all processes; None: there is none. `random`: for as long as there are no users."""
        self._secret, self._random = secret, random
        self._image: ScramImage | None = None
        self._key = random

    def of(self, image: ScramImage) -> bytes:
        """Return the key; without a secret one of the first two users' keys. None of them knows both."""
        if self._secret is not None:
            return self._secret
        if image is not self._image:
            found = [image.credentials[key] for key in image.first]
            keys = b"".join(each.stored_key + each.server_key for each in found)
            self._key = hashlib.sha256(keys).digest() if keys else self._random
            self._image = image
        return self._key


_SAMPLE = 1_000


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _by_token(extensions: str) -> bool:
    pairs = dict(extension.split("=", 1) for extension in extensions.split(",")[1:])
    return pairs.get("tokenauth", "").lower() == "true"
