"""The client's first message of OAUTHBEARER, read and written."""

import pytest

from proxy.security.sasl.oauthbearer_message import ClientFirst, MessageError

pytestmark = pytest.mark.spec("R9")

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="

READ = [
    # The examples of RFC 7628, sections 4.1 and 4.3.
    (
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer "
        + TOKEN.encode()
        + b"\x01\x01",
        ClientFirst(TOKEN, "user@example.com", {"host": "server.example.com", "port": "143"}),
    ),
    (
        b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer \x01\x01",
        "auth is not a bearer token",
    ),
    (b"n,,\x01auth=Bearer abc\x01\x01", ClientFirst("abc")),
    (b"n,,\x01auth=bearer abc\x01\x01", ClientFirst("abc")),
    (b"n,,\x01auth=BEARER    a-._~+/1==\x01\x01", ClientFirst("a-._~+/1==")),
    (b"n,,\x01auth=Bearer one\x01auth=Bearer two\x01\x01", ClientFirst("two")),
    (b"n,,\x01k=a=b,c \t\r\n\x01auth=Bearer abc\x01\x01", ClientFirst("abc", "", {"k": "a=b,c \t\r\n"})),
    (b"n,a=a=2Cb=3Dc,\x01auth=Bearer abc\x01\x01", ClientFirst("abc", "a=2Cb=3Dc")),
]
MALFORMED = "malformed client first message"
REFUSED = [
    (b"", MALFORMED),
    (b"\x01", MALFORMED),
    (b"n,,\x01\x01", "the message has no auth"),
    (b"n,,\x01host=x\x01\x01", "the message has no auth"),
    (b"n,,\x01Auth=Bearer abc\x01\x01", "the message has no auth"),
    (b"n,,\x01auth=Bearer abc\x01", MALFORMED),
    (b"n,,\x01auth=Bearer abc", MALFORMED),
    (b"n,,auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,,\x01auth=Bearer abc\x01\x01x", MALFORMED),
    (b"n,,\x01auth=Bearer abc\x01\x01\n", MALFORMED),
    (b"y,,\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"p=tls-unique,,\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,a=,\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,a=a=b,\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,a=a,b,\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,,\x01auth=\x01\x01", MALFORMED),
    (b"n,,\x01k1=a\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,,\x01=a\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,,\x01k=\x00\x01auth=Bearer abc\x01\x01", MALFORMED),
    (b"n,,\x01auth=Basic abc\x01\x01", "auth is not a bearer token"),
    (b"n,,\x01auth=Bearerabc\x01\x01", "auth is not a bearer token"),
    (b"n,,\x01auth=Bearer a b\x01\x01", "auth is not a bearer token"),
    (b"n,,\x01auth=Bearer a,b\x01\x01", "auth is not a bearer token"),
    (b"n,,\x01auth=Bearer ==\x01\x01", "auth is not a bearer token"),
    (b"n,,\x01auth=Bearer a=b\x01\x01", "auth is not a bearer token"),
    ("n,a=ü,\x01auth=Bearer abc\x01\x01".encode(), "the message is not ASCII"),
    (b"\xff\xfe", "the message is not ASCII"),
]


def read(message: bytes) -> ClientFirst | str:
    try:
        return ClientFirst.parse(message)
    except MessageError as error:
        return str(error)


@pytest.mark.parametrize(("message", "expected"), [*READ, *REFUSED])
def test_a_first_message_is_read_as_kafka_reads_it(message: bytes, expected: ClientFirst | str) -> None:
    assert read(message) == expected


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (ClientFirst("abc"), b"n,,\x01auth=Bearer abc\x01\x01"),
        (
            ClientFirst("abc", "alice", {"host": "x"}),
            b"n,a=alice,\x01auth=Bearer abc\x01host=x\x01\x01",
        ),
    ],
)
def test_what_is_written_can_be_read(message: ClientFirst, written: bytes) -> None:
    assert message.encode() == written
    assert ClientFirst.parse(written) == message


@pytest.mark.parametrize("token", ["", "a !b", "a\x01auth=Bearer b", "secret,", "ü"])
def test_a_token_that_no_message_can_carry_is_refused_without_being_told(token: str) -> None:
    with pytest.raises(ValueError, match="bearer message") as raised:
        ClientFirst(token).encode()
    assert not token or token not in str(raised.value)


def test_a_message_in_a_traceback_or_a_log_line_does_not_show_its_token() -> None:
    assert "abc" not in repr(ClientFirst("abc"))
