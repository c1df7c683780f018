"""The cluster's secret key and what is computed with it."""

from base64 import b64decode
from typing import NoReturn

import pytest

from proxy.metadata.image import DelegationToken, TokensImage
from proxy.metadata.sharded_map import ShardedMap
from proxy.security.delegation_tokens import TokenSecret
from tests.support.metadata_log import token

pytestmark = pytest.mark.spec("R9")

KEY, TOKEN_ID = b"penstock-secret", "sPvNH2gzTTyWg3Fg4xBlQA"
BY_KAFKA = "nZoDkqGju5/iOLqD7lThcjirjTjOm2Cne8+00SuTTcV/enehP6K9Gu4HlrB8i4frmbGLvDl3nLyAPX6s9KdqOQ=="
"""What DelegationTokenManager of Apache Kafka 4.2.1 makes of that id under that key, in base64."""


def tokens(*ids: str) -> TokensImage:
    return TokensImage(ShardedMap({id_: token(id_) for id_ in ids}))


def test_an_hmac_is_the_one_kafka_makes_and_its_base64_is_the_password() -> None:
    secret = TokenSecret(KEY)

    assert secret.hmac(TOKEN_ID) == b64decode(BY_KAFKA)
    assert secret.password(TOKEN_ID) == BY_KAFKA


def test_a_salt_is_of_one_token_and_one_key() -> None:
    salts = {TokenSecret(key).salt(token_id) for key in (b"k", b"other") for token_id in ("t-1", "t-2")}

    assert len(salts) == 4
    assert TokenSecret(b"k").salt("t-1") == TokenSecret(b"k").salt("t-1")


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        TokenSecret(b"")


def test_a_token_is_found_by_its_hmac_as_long_as_it_is_there() -> None:
    secret, both = TokenSecret(KEY), tokens("t-1", "t-2")

    assert secret.token_of(secret.hmac("t-2"), both) == token("t-2")
    assert secret.token_of(secret.hmac("t-2"), tokens("t-1", "t-3")) is None
    assert secret.token_of(secret.hmac("t-3"), tokens("t-1", "t-3")) == token("t-3")
    assert secret.token_of(b"", both) is None
    assert secret.token_of(TokenSecret(b"other").hmac("t-1"), both) is None


def test_a_token_that_is_renewed_again_and_again_costs_no_look_at_all_others() -> None:
    secret = TokenSecret(KEY)
    mac = secret.hmac("t-1")
    assert secret.token_of(mac, tokens("t-1", "t-2")) == token("t-1")

    class Renewed(ShardedMap[str, DelegationToken]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("all tokens were looked at")

    renewed = token("t-1", expiry_timestamp_ms=3_000)

    assert secret.token_of(mac, TokensImage(Renewed({"t-1": renewed, "t-2": token("t-2")}))) == renewed
