"""The hash chain over one boot's records: it can be made again from the lines alone, as they were."""

import hashlib
import hmac
import json

import pytest

from proxy.audit.chain import Chain, link, sealed
from proxy.audit.record import AuditEvent, Author, Encoder

pytestmark = pytest.mark.spec("D2")

AUTHOR = Author(role="proxy", proxy_id="proxy-1", boot_id="cafe")
SECRET = b"0123456789abcdef0123456789abcdef"


def boot(secret: bytes | None = None, count: int = 4) -> list[bytes]:
    chain, encoder, lines = Chain(AUTHOR.key, secret), Encoder(AUTHOR), []
    for number in range(count):
        body = encoder.body(AuditEvent(event="authorization", count=number), number, 1_795_348_800_000)
        chain.last = chain.after(body)
        lines.append(sealed(body, chain.last))
    return lines


def fits(lines: list[bytes], secret: bytes | None = None) -> bool:
    """As docs/audit.md has it, with nothing of proxy.audit."""

    def digest(data: bytes) -> str:
        if secret is None:
            return hashlib.sha256(data).hexdigest()
        return hmac.new(secret, data, hashlib.sha256).hexdigest()

    last = digest(b"proxy-1/cafe")
    for line in lines:
        body, mark, chain = line.rpartition(b',"chain":"')
        last = digest(last.encode() + body)
        if not mark or chain != last.encode() + b'"}':
            return False
    return True


@pytest.mark.parametrize("secret", [None, SECRET])
def test_the_chain_is_the_documented_one(secret: bytes | None) -> None:
    lines = boot(secret)

    assert fits(lines, secret)
    assert all(json.loads(line)["chain"] == line[-66:-2].decode() for line in lines)


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_a_record_that_was_altered_does_not_fit(position: int) -> None:
    lines = boot()
    lines[position] = lines[position].replace(b'"count":%d' % position, b'"count":9')

    assert not fits(lines)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_record_that_was_taken_out_or_moved_shows_in_the_one_after_it(position: int) -> None:
    lines = boot()
    without = lines[:position] + lines[position + 1 :]
    moved = [*without, lines[position]]

    assert not fits(without)
    assert not fits(moved)


def test_without_the_secret_no_chain_can_be_made_that_fits() -> None:
    assert not fits(boot(), SECRET)
    assert not fits(boot(SECRET[::-1]), SECRET)


def test_a_record_of_another_boot_does_not_fit() -> None:
    assert Chain(b"proxy-1/cafe").last != Chain(b"proxy-1/f00d").last


def test_a_link_names_boot_sequence_and_chain_and_of_version_1_no_chain() -> None:
    last = boot()[-1]

    assert link(last) == f"cafe/3/{last[-66:-2].decode()}"
    assert link(b'{"data":{"boot_id":"old","sequence":41}}') == "old/41/"
