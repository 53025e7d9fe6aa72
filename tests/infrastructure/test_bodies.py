"""Bodies are read up to their bound, packed or not."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from infrastructure.bodies import BadEncoding, BodyTooLarge, read_body

TEXT = b"what the tide brings " * 500


def read(body: bytes, encoding: str = "", bytes_max: int = 1_000_000, piece_bytes: int = 7) -> bytes:
    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(body), piece_bytes):
            yield body[begin : begin + piece_bytes]

    return asyncio.run(read_body(pieces(), encoding, bytes_max))


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_a_body_comes_whole_in_whatever_pieces(piece_bytes: int) -> None:
    assert read(TEXT, piece_bytes=piece_bytes) == TEXT
    assert read(gzip.compress(TEXT), "gzip", piece_bytes=piece_bytes) == TEXT
    assert read(gzip.compress(TEXT) + gzip.compress(b"!"), "X-Gzip ", piece_bytes=piece_bytes) == TEXT + b"!"


@pytest.mark.parametrize("piece_bytes", [1, 7, 100_000])
def test_a_body_may_have_just_as_many_bytes_as_allowed(piece_bytes: int) -> None:
    size = len(TEXT)

    assert read(TEXT, "identity", size, piece_bytes) == TEXT
    assert read(gzip.compress(TEXT), "gzip", size, piece_bytes) == TEXT
    with pytest.raises(BodyTooLarge):
        read(TEXT, "identity", size - 1, piece_bytes)
    with pytest.raises(BodyTooLarge):
        read(gzip.compress(TEXT), "gzip", size - 1, piece_bytes)


def test_nothing_may_be_sent_in_any_packing() -> None:
    assert read(b"") == read(b"", "gzip") == read(gzip.compress(b""), "gzip") == b""


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(TEXT, "gzip"), (gzip.compress(TEXT)[:-9], "gzip"), (zlib.compress(TEXT), "gzip"), (TEXT, "br")],
)
def test_a_body_that_is_not_packed_as_it_says_is_refused(body: bytes, encoding: str) -> None:
    with pytest.raises(BadEncoding):
        read(body, encoding)


def test_endless_packing_is_no_way_around_the_bound() -> None:
    """Members that unpack to nothing count by what was sent."""
    with pytest.raises(BodyTooLarge):
        read(gzip.compress(b"") * 1000, "gzip", bytes_max=10_000)
