"""Reads the body of an answer up to a bound, which also holds for what it unpacks to."""

import zlib
from collections.abc import AsyncIterator
from typing import Final

ENCODINGS: Final = "gzip"
"""What a caller may say that it accepts."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class BodyTooLarge(Exception):
    """There is more than may be read."""


class BadEncoding(Exception):
    """The body is not packed as its headers say."""


async def read_body(parts: AsyncIterator[bytes], encoding: str, bytes_max: int) -> bytes:
    """The whole unpacked body.

    Raises BodyTooLarge at the first byte too many, unpacked or not, and BadEncoding.
    """
    match encoding.strip().lower():
        case "" | "identity":
            unpack = None
        case "gzip" | "x-gzip":
            unpack = _Gunzip()
        case other:
            raise BadEncoding(f"the body is packed as {other[:20]!r}, which was not asked for")
    body = bytearray()
    packed_bytes = 0
    async for part in parts:
        packed_bytes += len(part)
        body += part if unpack is None else unpack.feed(part, bytes_max + 1 - len(body))
        if len(body) > bytes_max or packed_bytes > bytes_max:
            raise BodyTooLarge
    if unpack is not None and not unpack.is_whole:
        raise BadEncoding("the packed body ends early")
    return bytes(body)


class _Gunzip:
    """Unpacks gzip, one member after the other, never more at once than it is asked for."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._has_begun = False

    @property
    def is_whole(self) -> bool:
        return self._member.eof or not self._has_begun

    def feed(self, packed: bytes, bytes_max: int) -> bytes:
        """What a part unpacks to, up to `bytes_max`; the rest of a larger one is lost."""
        unpacked = bytearray()
        try:
            while packed and len(unpacked) < bytes_max:
                if self._member.eof:
                    self._member = zlib.decompressobj(_GZIP)
                self._has_begun = True
                unpacked += self._member.decompress(packed, bytes_max - len(unpacked))
                packed = self._member.unused_data
        except zlib.error:
            raise BadEncoding("the body is not gzip, as its headers say") from None
        return bytes(unpacked)
