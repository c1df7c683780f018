"""Hashed passwords of the users file."""

import pytest

from proxy.security.passwords import hash_password, verify_password

pytestmark = pytest.mark.spec("R9")

SALT = bytes(range(16))


def test_a_password_is_verified_against_its_hash_and_no_other() -> None:
    stored = hash_password("geheim ÿ", SALT)

    assert verify_password("geheim ÿ", stored)
    assert not verify_password("geheim", stored)
    assert not verify_password("", stored)


def test_a_hash_shows_neither_the_password_nor_the_same_text_for_another_salt() -> None:
    one, other = (hash_password("geheim", salt) for salt in (SALT, SALT[::-1]))

    assert one != other
    assert "geheim" not in one


def test_a_hash_of_the_test_vector_of_rfc_7914_is_verified() -> None:
    # RFC 7914, section 12: P="pleaseletmein", S="SodiumChloride", N=16384, r=8, p=1, 64 bytes.
    stored = (
        "scrypt$14$8$1$U29kaXVtQ2hsb3JpZGU=$"
        "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw=="
    )

    assert verify_password("pleaseletmein", stored)
    assert not verify_password("pleaseletmeout", stored)


@pytest.mark.parametrize(
    "stored",
    [
        "",
        "geheim",
        "scrypt$14$8$1$c2FsdA==",
        "bcrypt$14$8$1$c2FsdA==$aGFzaGhhc2hoYXNoaGFzaA==",
        "scrypt$x$8$1$c2FsdA==$aGFzaGhhc2hoYXNoaGFzaA==",
        "scrypt$30$8$1$c2FsdA==$aGFzaGhhc2hoYXNoaGFzaA==",
        "scrypt$14$0$1$c2FsdA==$aGFzaGhhc2hoYXNoaGFzaA==",
        "scrypt$14$8$99$c2FsdA==$aGFzaGhhc2hoYXNoaGFzaA==",
        "scrypt$14$8$1$c2FsdA==$aGFzaA==",
        "scrypt$14$8$1$c2FsdA==$",
        "scrypt$14$8$1$?$aGFzaGhhc2hoYXNoaGFzaA==",
    ],
)
def test_what_is_no_hash_of_ours_is_refused_rather_than_compared(stored: str) -> None:
    with pytest.raises(ValueError, match=r"hash|cost|int|base64|Only"):
        verify_password("geheim", stored)


def test_a_short_salt_is_refused() -> None:
    with pytest.raises(ValueError, match="8 bytes"):
        hash_password("geheim", SALT[:8])
