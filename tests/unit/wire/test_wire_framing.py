"""Frames out of a byte stream."""

import pytest

from proxy.wire.errors import WireError
from proxy.wire.header import FrameDecoder

pytestmark = pytest.mark.spec("O6")

STREAM = b"\x00\x00\x00\x03abc" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x01d"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_frames_are_cut_the_same_however_the_bytes_arrive(size: int) -> None:
    decoder = FrameDecoder(max_frame_bytes=3)

    frames = [f for at in range(0, len(STREAM), size) for f in decoder.feed(STREAM[at : at + size])]

    assert frames == [b"abc", b"", b"d"]


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_frames_do_not_share_the_buffer_they_came_in(buffer_type: type) -> None:
    assert FrameDecoder(max_frame_bytes=3).feed(buffer_type(STREAM)) == [b"abc", b"", b"d"]


@pytest.mark.parametrize(
    ("prefix", "length"), [(b"\x00\x00\x00\x04", 4), (b"\x7f\xff\xff\xff", 2_147_483_647), (b"\xff" * 4, -1)]
)
def test_a_bad_length_is_refused_before_the_body_arrives(prefix: bytes, length: int) -> None:
    with pytest.raises(WireError, match=f"frame of {length} bytes, limit 3"):
        FrameDecoder(max_frame_bytes=3).feed(prefix)
