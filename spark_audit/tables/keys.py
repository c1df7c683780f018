"""The keys of the jobs: the secret of HMAC chains, public keys, and the private key that signs runs.

A run of the manifest (manifest.py) is signed by one of three: a note (c2sp.org/signed-note) of `--run-key`,
HMAC-SHA256 with `--chain-key`, or nothing, which shows accidents only. Only the driver uses keys. What reads
notes and key files is imported where public keys are used: without them, no other package of Penstock's is
needed.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from spark_audit import schema as S
from spark_audit.tables.files import AuditError, read_chain_key

if TYPE_CHECKING:
    from proxy.audit.checkpoints import Checkpoint, Signer
    from proxy.metadata.signing_keys import PublicKey

_TIME_BYTES, _COSIGNATURE_BYTES = 8, 72
_NOT_VALID_THEN = "is signed with its key at a time at which that was not valid"
CAME_LATE = "got into the topic when its key was not valid any more"
_LATE_MS = 300_000
"""A checkpoint is in the topic within less, unless its process could not ship it."""
PLAIN, KEYED, SIGNED = "sha256", "hmac-sha256", "ed25519"
"""Values of `signed_with` of a run, and the first two of `audit.chain` of a process."""
_NOTE = ',"note":'


@dataclass(frozen=True, slots=True)
class Keys:
    """Public keys, and what else was passed with them."""

    public: Sequence[PublicKey]
    chain: bytes | None = None
    run: Signer | None = None


PublicKeys: TypeAlias = Sequence["PublicKey"]
Key = bytes | Keys | None
"""What proves a trail and its runs: public keys, or the secret of the chain alone, or nothing."""


def read_keys(chain: str | None, public: str | None, run: str | None) -> Key:
    """Read the files of --chain-key, --public-keys and --run-key. AuditError if they cannot be used.

    Public keys of controllers alone prove no trail: what they have signed is the metadata log.
    """
    secret = read_chain_key(chain)
    if public is None:
        if run is not None:
            raise AuditError("--run-key: pass --public-keys, too, so that the run can be verified")
        return secret
    from proxy.audit.checkpoints import Signer
    from proxy.metadata.signing_keys import METADATA, RUN, KeyFileError, SigningKey, read_public_keys

    try:
        keys = [each for each in read_public_keys(Path(public)) if each.role != METADATA]
        if run is None:
            return Keys(keys, secret) if keys else secret
        private = SigningKey.load(Path(run))
    except KeyFileError as error:
        raise AuditError(str(error)) from error
    for each in keys:
        if each.role == RUN and each.raw == private.public.public_bytes_raw():
            return Keys(keys, secret, Signer(each.name, private))
    raise AuditError(f"--run-key {run}: {public} does not have its public key with `role: {RUN}`")


def secret_of(key: Key) -> bytes | None:
    """Return the secret of HMAC chains."""
    return key.chain if isinstance(key, Keys) else key


def sealed(start: str, content: Mapping[str, object], key: Key, before: str | None) -> tuple[str, str]:
    """Return the text of a run up to its link, and the link, which follows from `start`.

    `before` is `signed_with` of the run before. AuditError if the key that signed it is not there.
    """
    signer, secret = (key.run if isinstance(key, Keys) else None), secret_of(key)
    if signer is None and (before == SIGNED or (isinstance(key, Keys) and secret is None)):
        raise AuditError("this job signs a run of the manifest: pass the key of the job with --run-key")
    kind = SIGNED if signer else KEYED if secret else PLAIN
    body = json.dumps({**content, "signed_with": kind}, separators=(",", ":"))[:-1]
    if signer is not None:
        secret = None
        body += _NOTE + json.dumps(signer.signed(_statement(start + body, content)))
    return body, digest(start + body, secret)


def fits(
    start: str,
    body: str,
    link: str,
    content: Mapping[str, object],
    key: Key,
    signed: Mapping[bytes, int] = MappingProxyType({}),
) -> bool:
    """Return whether a run follows from `start`, and is signed with a key that is valid at the run's time.

    And at the times of the runs before it that other keys have `signed` (key -> the time of its newest run):
    the owner of a key that has ended chooses the time.
    """
    if content.get("signed_with") == SIGNED and isinstance(key, Keys):
        from proxy.audit.checkpoints import SignedNote

        note, time_ms = content.get("note"), content.get("time_ms")
        unsigned = body.removesuffix(_NOTE + json.dumps(note))
        parsed = SignedNote.parse(note) if isinstance(note, str) and unsigned != body else None
        if parsed is None or parsed.text != _statement(start + unsigned, content) or type(time_ms) is not int:
            return False
        own = signers(content, key)
        others = signed.keys() - {each.raw for each in own}
        at_ms = max([time_ms, *(signed[raw] for raw in others)])
        return digest(start + body, None) == link and any(each.is_valid_at(at_ms) for each in own)
    secret = secret_of(key)
    if isinstance(key, Keys) and secret is None:
        return False
    return hmac.compare_digest(digest(start + body, secret).encode(), link.encode())


def signers(content: Mapping[str, object], key: Key) -> list[PublicKey]:
    """Return the keys of jobs with which a run is signed: one, with as many periods as it has."""
    note = content.get("note")
    if not isinstance(key, Keys) or not isinstance(note, str):
        return []
    from proxy.audit.checkpoints import SignedNote
    from proxy.metadata.signing_keys import RUN

    parsed = SignedNote.parse(note)
    of_jobs = [each for each in key.public if each.role == RUN]
    return [each for each in of_jobs if parsed is not None and parsed.signer(each.name, [each])]


def require_valid(key: Key, time_ms: int) -> None:
    """AuditError if the key of the job signs nothing at this time: each later job would reject the run."""
    if isinstance(key, Keys) and key.run is not None:
        own = [each for each in key.public if each.raw == key.run.public]
        if not any(each.is_valid_at(time_ms) for each in own):
            periods = ", ".join(
                f"{moment(each.not_before_ms)} to {moment(each.not_after_ms)}" for each in own
            )
            raise AuditError(
                f"--run-key: its public key is valid from {periods}, and the clock says {moment(time_ms)}:"
                " set the clock, or pass a key that is valid now"
            )


def moment(time_ms: int) -> str:
    """Return a time as text; a key without an end has one that no calendar has."""
    known_ms = min(max(time_ms, 0), S.LAST_TIME_MS)
    return datetime.fromtimestamp(known_ms / 1000, UTC).isoformat(timespec="seconds")


def digest(text: str, secret: bytes | None) -> str:
    """Return the hash in hex, with the secret if there is one."""
    # JSON that somebody has edited may have half of a character.
    message = text.encode(errors="surrogatepass")
    return sha256(message).hexdigest() if secret is None else hmac.new(secret, message, sha256).hexdigest()


def _statement(text: str, content: Mapping[str, object]) -> str:
    hashed = b64encode(sha256(text.encode()).digest()).decode()
    return f"penstock.audit/runs\n{content.get('run')}\n{hashed}\ntime {content.get('time_ms')}\n"


def read_checkpoint(message: str, keys: PublicKeys, appended_ms: int = 0) -> tuple[Checkpoint | None, str]:
    """Return what a note says, and why its signature does not count; "" if it does.

    CAME_LATE if it counts by its own time only, which the owner of the key chooses. `appended_ms` is when the
    topic got it.
    """
    from proxy.audit.checkpoints import Checkpoint, SignedNote, is_key_of
    from proxy.metadata.signing_keys import AUDIT

    note, checkpoint = SignedNote.parse(message), Checkpoint.parse(message)
    if note is None or checkpoint is None:
        return None, "is no signed checkpoint"
    audit = [each for each in keys if each.role == AUDIT]
    signer = note.signer(checkpoint.proxy_id, audit)
    if signer is None:
        return checkpoint, "is signed with an unknown key, or was altered"
    own = [each for each in audit if each.raw == signer.raw and is_key_of(each, checkpoint.proxy_id)]
    if not own:
        return checkpoint, f"is signed with the key of {signer.name}"
    valid = [each for each in own if each.is_valid_at(checkpoint.time_ms)]
    if not valid:
        return checkpoint, _NOT_VALID_THEN
    came_late = all(each.not_after_ms < appended_ms - _LATE_MS for each in valid)
    return checkpoint, CAME_LATE if came_late else ""


def why_not_its_own(message: str, proxy_id: str, keys: PublicKeys) -> str:
    """Return why a note is not what this process has signed; "" if it is, or if none of its keys is known."""
    from proxy.audit.checkpoints import is_key_of
    from proxy.metadata.signing_keys import AUDIT

    is_known = any(each.role == AUDIT and is_key_of(each, proxy_id) for each in keys)
    return read_checkpoint(message, keys)[1] if is_known else ""


def valid_from(keys: PublicKeys) -> dict[str, int]:
    """Return the name of each process with a key -> when the first one became valid."""
    from proxy.metadata.signing_keys import AUDIT

    audit = sorted((each.name, -each.not_before_ms) for each in keys if each.role == AUDIT)
    return {name: -before_ms for name, before_ms in audit}


class Cosignature(NamedTuple):
    """One line below a checkpoint of another process."""

    name: str
    why: str
    """Why it does not count; "" if it does, UNKNOWN if that cannot be said."""


UNKNOWN = "unknown"


def read_cosignatures(message: str, keys: PublicKeys) -> list[Cosignature]:
    """Return the cosignatures of a note (c2sp.org/tlog-cosignature, version 1)."""
    from proxy.audit.checkpoints import COSIGNATURE_TYPE, SignedNote, is_key_of, key_id
    from proxy.metadata.signing_keys import AUDIT

    note = SignedNote.parse(message)
    if note is None:
        return []
    found = []
    for name, identifier, value in note.signatures:
        own = [each for each in keys if each.role == AUDIT and is_key_of(each, name)]
        own = [each for each in own if key_id(name, COSIGNATURE_TYPE, each.raw) == identifier]
        if not own:
            # The author's own signature is shorter.
            found += [Cosignature(name, UNKNOWN)] if len(value) == _COSIGNATURE_BYTES else []
            continue
        time_s, signature = int.from_bytes(value[:_TIME_BYTES], "big"), value[_TIME_BYTES:]
        text = f"cosignature/v1\ntime {time_s}\n{note.text}".encode()
        signed = [each for each in own if each.verifies(signature, text)]
        # The time is that of the second in which it was signed.
        bounds = time_s * 1000, time_s * 1000 + 999
        why = "" if any(each.is_valid_at(at) for each in signed for at in bounds) else _NOT_VALID_THEN
        found.append(Cosignature(name, why if signed else "was altered, or is of another checkpoint"))
    return found
