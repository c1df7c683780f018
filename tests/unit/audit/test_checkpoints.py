"""Checkpoints as signed notes: the bytes that C2SP's documents and Go's implementation have."""

from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from proxy.audit.chain import author_of, witnessed_end
from proxy.audit.checkpoints import Checkpoint, SignedNote, Signer, StateInEffect, is_key_of, key_id
from proxy.audit.witnesses import Witness
from proxy.metadata.signing_keys import (
    AUDIT,
    RUN,
    KeyFileError,
    PublicKey,
    PublicKeys,
    SigningKey,
    read_public_keys,
)
from tests.support.signing import pem, private_key, public_key, signing_key

pytestmark = pytest.mark.spec("D14")

PETER = SigningKey(
    Ed25519PrivateKey.from_private_bytes(b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:])
)
"""The key of the example of golang.org/x/mod/sumdb/note."""
PETERS_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6"
    "KE6RyyBwJnAM=\n"
)
NOW_MS = 1_795_435_200_000
LINK = "ab" * 32
CHECKPOINT = Checkpoint(
    "proxy-1", "cafe", 12, LINK, NOW_MS, StateInEffect("__penstock_metadata", 7, b"d" * 32)
)
SIGNER, KEYS = Signer("proxy-1", signing_key("proxy-1")), [public_key("other"), public_key("proxy-1")]


def test_a_note_is_signed_and_verified_as_gos_module_does_it() -> None:
    text = PETERS_NOTE.partition("\n\n")[0] + "\n"
    peter = PublicKey(PETER.public, AUDIT, "PeterNeumann")

    assert Signer("PeterNeumann", PETER).signed(text) == PETERS_NOTE
    note = SignedNote.parse(PETERS_NOTE)
    assert note is not None
    assert note.text == text
    assert note.signer("PeterNeumann", [peter]) == peter


def test_the_id_of_a_key_is_that_of_gos_verifier_key() -> None:
    vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    name, identifier, encoded = vkey.split("+", 2)

    assert key_id(name, b"\x01", b64decode(encoded)[1:]).hex() == identifier


def test_a_cosignature_is_over_the_text_of_the_example_in_c2sps_document() -> None:
    body = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    note = Signer("log", signing_key("log")).signed(body)

    cosigned = Signer("witness", signing_key("witness")).cosigned(note, 1_679_315_147_999)

    line = cosigned.removeprefix(note)
    assert line.startswith("\u2014 witness ")
    raw = b64decode(line.split(" ")[2])
    assert raw[:4] == key_id("witness", b"\x04", signing_key("witness").public.public_bytes_raw())
    assert int.from_bytes(raw[4:12], "big") == 1_679_315_147
    private_key("witness").public_key().verify(raw[12:], f"cosignature/v1\ntime 1679315147\n{body}".encode())
    parsed = SignedNote.parse(cosigned)
    assert parsed is not None
    assert parsed.signer("log", [public_key("log")]) is not None
    # It is no signature of the witness's own.
    assert parsed.signer("witness", [public_key("witness")]) is None


def test_a_checkpoint_has_the_lines_of_c2sps_document_and_is_read_again() -> None:
    text = CHECKPOINT._replace(stops=True).text()

    assert text.split("\n") == [
        "penstock.audit/proxy-1/cafe",
        "12",
        "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s=",
        f"time {NOW_MS}",
        "metadata __penstock_metadata 7 ZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGQ=",
        "stops",
        "",
    ]
    for each in (CHECKPOINT, CHECKPOINT._replace(stops=True), CHECKPOINT._replace(state=None, size=0)):
        assert Checkpoint.parse(each.text()) == each
        assert Checkpoint.parse(SIGNER.cosigned(SIGNER.signed(each.text()), NOW_MS)) == each


@pytest.mark.parametrize(
    "text",
    [
        "",
        PETERS_NOTE,
        CHECKPOINT.text() + "more\n",
        CHECKPOINT.text().replace("\n12\n", "\n012\n"),
        CHECKPOINT.text().replace("penstock.audit/", "penstock.audits/"),
        CHECKPOINT.text().replace("/cafe", "/ca/fe"),
        CHECKPOINT.text().replace("q6ur", "q6u"),
        CHECKPOINT.text()[:-1],
        "penstock.audit/a/b\n" + CHECKPOINT.text(),
    ],
)
def test_no_other_text_is_a_checkpoint(text: str) -> None:
    assert Checkpoint.parse(text) is None


@pytest.mark.parametrize(
    "note",
    [
        "",
        CHECKPOINT.text(),
        CHECKPOINT.text() + "\n",
        SIGNER.signed(CHECKPOINT.text())[:-1],
        SIGNER.signed(CHECKPOINT.text()).replace("\u2014", "-"),
        SIGNER.signed(CHECKPOINT.text()) + "\u2014 proxy-1 AAAA\n",
        SIGNER.signed(CHECKPOINT.text()) + "\u2014 proxy-1 !\n",
    ],
)
def test_what_has_no_signatures_at_its_end_is_no_note(note: str) -> None:
    assert SignedNote.parse(note) is None


def test_only_the_text_name_and_key_that_were_signed_are_verified() -> None:
    signed = SIGNER.signed(CHECKPOINT.text())
    other_text = signed.replace("\n12\n", "\n13\n")
    swapped = Signer("proxy-1", signing_key("other")).signed(CHECKPOINT.text())
    as_another = Signer("proxy-2", signing_key("proxy-1")).signed(CHECKPOINT.text())

    def verified(note: str) -> bool:
        parsed = SignedNote.parse(note)
        assert parsed is not None
        return parsed.signer("proxy-1", [public_key("proxy-1")]) is not None

    assert [verified(each) for each in (signed, other_text, swapped, as_another)] == [
        True,
        False,
        False,
        False,
    ]


def test_a_worker_signs_with_the_key_of_its_proxy_and_nobody_else_does() -> None:
    key = public_key("proxy-1")

    names = ("proxy-1", "proxy-1.w0", "proxy-1.w12", "proxy-1.w", "proxy-1.wx", "proxy-11", "xproxy-1")
    assert [is_key_of(key, name) for name in names] == [True, True, True, False, False, False, False]
    assert not is_key_of(public_key("proxy.1"), "proxy-1")


def test_the_end_of_a_trail_may_be_a_checkpoint() -> None:
    note = SIGNER.signed(CHECKPOINT.text())

    assert witnessed_end(note.encode()) == note
    assert author_of(note) == author_of(f"proxy-1/cafe/11/{LINK}") == "proxy-1/cafe"
    for other in (CHECKPOINT.text(), PETERS_NOTE, note + "x"):
        assert witnessed_end(other.encode()) is None


def test_processes_with_keys_hear_each_others_checkpoints() -> None:
    note = SIGNER.signed(CHECKPOINT.text())
    one, other = Witness("proxy-1/cafe", lambda: note), Witness("proxy-2/b007", lambda: "")

    assert other.hear(one.message(), 0, 0)
    assert not one.hear(one.message(), 0, 0)
    assert other.due(0) == [note]


def test_the_lines_before_a_key_say_whose_it_is_and_when_it_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "keys.pub"
    lines = ("# The first one", "name: proxy-1", "role: audit", "not-before: 2026-11-27T00:00:00Z")
    until = ("name:auditor", "role:  run", "not-after: 2026-11-27T01:00:00+01:00")
    path.write_text(pem("controller-1") + pem("one", *lines) + pem("two", *until))

    metadata, audit, run = read_public_keys(path)

    assert (metadata.role, metadata.name) == ("metadata", "")
    assert (audit.name, audit.role, audit.not_before_ms) == ("proxy-1", AUDIT, 1_795_737_600_000)
    assert (run.name, run.role, run.not_after_ms) == ("auditor", RUN, 1_795_737_600_000)
    valid = [
        (each.is_valid_at(1_795_737_599_999), each.is_valid_at(1_795_737_600_001)) for each in (audit, run)
    ]
    assert valid == [(False, True), (True, False)]
    # The key of a proxy, or of a job, makes no policy.
    keys = PublicKeys.load(path)
    assert [signing_key(name).id in keys for name in ("controller-1", "one", "two")] == [True, False, False]
    path.write_text(pem("one", *lines))
    with pytest.raises(KeyFileError, match="has no public key with role metadata"):
        PublicKeys.load(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("role: audit",), "a key with role audit needs a name"),
        (("name: a b", "role: audit"), "name 'a b': only letters"),
        (("name: a", "role: everything"), "role 'everything': must be one of metadata, audit, run"),
        (("name: a", "owner: b"), "'owner: b': must be `name:`"),
        (("name: a", "name: b"), "'name: b': must be `name:`"),
        (("not-after: 2026-11-27T00:00:00Z",), "signatures of the metadata log have no time"),
        (("name: a", "role: audit", "not-after: tomorrow"), "Invalid isoformat string: 'tomorrow'"),
        (("name: a", "role: audit", "not-after: 2026-11-27T00:00:00"), "has no time zone"),
    ],
)
def test_what_cannot_be_said_of_a_key_is_named(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    path = tmp_path / "keys.pub"
    path.write_text(pem("one", *lines))

    with pytest.raises(KeyFileError, match=r"keys\.pub: ") as raised:
        read_public_keys(path)

    assert said in str(raised.value)
