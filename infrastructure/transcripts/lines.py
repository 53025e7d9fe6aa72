"""Lines of a transcript file: whole records, damage and a torn tail, each with its place in bytes.

Whatever the bytes are, reading them yields records and reports and raises nothing.

What JSON allows and a store cannot carry is kept by reversible rules:

- A byte that is not UTF-8 stands as the lone surrogate U+DC00 + byte (PEP 383); the record is flagged.
- An integer beyond 64 bits, a decimal beyond the range of a double, NaN and Infinity stand as text in
  their original spelling; the record lists the first of them.
- Of duplicate keys in one object the last one wins.
"""

import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from application.transcript import Json, Place

LINE_BYTES_MAX = 64 * 1024 * 1024
"""A longer line is reported without being held in memory."""
KEPT_BYTES_MAX = 1024 * 1024
"""Of one damaged piece at most this much is kept; its place still tells the whole length."""
NESTING_MAX = 64
"""Objects and lists inside one another, the record itself included."""
PIECES_PER_LINE_MAX = 256
"""Attempts at splitting one damaged line; what is left after them counts as lost."""
SPELLINGS_MAX = 10
SPELLING_CHARS_MAX = 100
"""Of the numbers kept as text a report shows so many, and this much; the record holds all of them."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SKIP_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of the file; all but a few are objects."""

    value: Json
    place: Place
    raw: bytes
    invalid_utf8: bool = False
    numbers_as_text: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """Bytes of a damaged line that no record could be read from; `raw` is cut at KEPT_BYTES_MAX."""

    place: Place
    raw: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that is not one whole record. Its recovered records follow it."""

    place: Place
    reason: str
    recovered: int
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True)
class Torn:
    """An unfinished record at the end of the file: not damage, its writer may still be at it."""

    place: Place


def read_lines(source: BinaryIO | bytes, offset: int = 0) -> Iterator[Record | Damage | Torn]:
    """Read `source` from byte `offset`, the start of a line, to its end."""
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    stream.seek(offset)
    parser = _Parser()
    while line := stream.readline(LINE_BYTES_MAX + 1):
        start, offset = offset, offset + len(line)
        complete = line.endswith(b"\n")
        if len(line) > LINE_BYTES_MAX and not complete:
            rest, complete = _skip_line(stream)
            offset += rest
            yield _overlong(line, Place(start, offset - start), complete)
            continue
        if start == 0 and line.startswith(BYTE_ORDER_MARK):
            start, line = len(BYTE_ORDER_MARK), line[len(BYTE_ORDER_MARK) :]
        line = line.rstrip(b"\r\n")
        if line and not line.isspace():
            yield from parser.parse(line, start, complete)


def read_document(source: BinaryIO | bytes) -> Iterator[Record | Damage | Torn]:
    """Read `source` as one JSON document; one that is cut or no JSON counts as unfinished.

    A document is written anew as a whole, so what is wrong with it now may be right the next time.
    """
    data = source if isinstance(source, bytes) else source.read()
    start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
    document = data[start:].rstrip(b"\0\t\r\n ")
    if document.strip():
        yield _Parser().document(document, start)


def read_value(text: str) -> Json:
    """A JSON text inside a record; raises ValueError when it is none, or nested too deep."""
    return _Parser().value(text)


def _skip_line(stream: BinaryIO) -> tuple[int, bool]:
    """Read past the rest of a line: how many bytes, and whether it ended."""
    skipped = 0
    while chunk := stream.readline(SKIP_BYTES):
        skipped += len(chunk)
        if chunk.endswith(b"\n"):
            return skipped, True
    return skipped, False


def _overlong(head: bytes, place: Place, complete: bool) -> Damage | Torn:
    if not complete:
        return Torn(place)
    return Damage(place, f"longer than {LINE_BYTES_MAX} bytes", 0, (Lost(place, head[:KEPT_BYTES_MAX]),))


class _NestedTooDeep(ValueError):
    """A value inside more than NESTING_MAX others."""


class _Parser:
    """Parses lines; its JSON decoders note the numbers they keep as text."""

    def __init__(self) -> None:
        self._spellings: list[str] = []
        self._strict = self._decoder(strict=True)
        # Raw control characters inside strings are no JSON, yet no reason to lose a damaged line's record.
        self._lenient = self._decoder(strict=False)

    def parse(self, line: bytes, offset: int, complete: bool) -> Iterable[Record | Damage | Torn]:
        try:
            record = self._record(line, offset, self._strict)
        except _NestedTooDeep:
            place = Place(offset, len(line))
            lost = (Lost(place, line[:KEPT_BYTES_MAX]),)
            return (Damage(place, f"nested deeper than {NESTING_MAX} levels", 0, lost),)
        except ValueError:
            return self._salvage(line, offset, complete)
        # Only an object says where it ends: `12` may still become `123`.
        if not complete and not isinstance(record.value, dict):
            return (Torn(record.place),)
        return (record,)

    def document(self, data: bytes, offset: int) -> Record | Torn:
        try:
            return self._record(data, offset, self._lenient)
        except ValueError:
            return Torn(Place(offset, len(data)))

    def value(self, text: str) -> Json:
        try:
            value = self._strict.decode(text)
        except RecursionError:
            raise _NestedTooDeep from None
        if _nested_too_deep(value):
            raise _NestedTooDeep
        return value

    def _record(self, raw: bytes, offset: int, decoder: json.JSONDecoder) -> Record:
        self._spellings.clear()
        invalid_utf8 = False
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text, invalid_utf8 = raw.decode(errors="surrogateescape"), True
        try:
            value = decoder.decode(text)
        except RecursionError:
            raise _NestedTooDeep from None
        if raw.count(b"{") + raw.count(b"[") > NESTING_MAX and _nested_too_deep(value):
            raise _NestedTooDeep
        return Record(value, Place(offset, len(raw)), raw, invalid_utf8, tuple(self._spellings))

    def _salvage(self, line: bytes, offset: int, complete: bool) -> Iterator[Record | Damage | Torn]:
        """Recover the whole records of a line that is none; the tail of an unfinished line is torn."""
        records: list[Record] = []
        lost: list[Lost] = []
        for start, end, whole in self._pieces(line, complete):
            piece, at = line[start:end], offset + start
            record = self._recovered(piece, at) if whole else None
            if record:
                records.append(record)
            else:
                lost.append(Lost(Place(at, len(piece)), piece[:KEPT_BYTES_MAX]))
        end_of_line = offset + len(line)
        torn = lost.pop() if not complete and lost and _end(lost[-1].place) == end_of_line else None
        if complete or len(records) > 1 or lost:
            place = Place(offset, (torn.place.offset if torn else end_of_line) - offset)
            yield Damage(place, _reason(records, lost), len(records), tuple(lost))
        yield from records
        if torn:
            yield Torn(torn.place)

    def _recovered(self, piece: bytes, offset: int) -> Record | None:
        try:
            return self._record(piece, offset, self._lenient)
        except ValueError:
            return None

    def _pieces(self, line: bytes, complete: bool) -> Iterator[tuple[int, int, bool]]:
        """Split a line into (start, end, whether it is a whole object).

        An unfinished line is read only as far as whole objects follow one another from its start: what
        looks like a record further in may be a value inside the record that is still being written.
        """
        text = line.decode("latin-1")  # one character a byte; JSON's own signs are the same in UTF-8
        at = lost_from = 0
        for _ in range(PIECES_PER_LINE_MAX):
            start = at + _filler_length(text, at)
            if end := self._object_end(text, start):
                if text[lost_from:start].strip(_BLANKS):
                    yield lost_from, start, False
                yield start, end, True
                at = lost_from = end
            else:
                boundary = _RECORD_START.search(text, start + 1) if complete else None
                if boundary is None:
                    break
                at = boundary.start()
        if text[lost_from:].strip(_BLANKS):
            yield lost_from, len(text), False

    def _object_end(self, text: str, start: int) -> int:
        """Where the non-empty object that starts here ends; 0 when there is none."""
        if not text.startswith("{", start):
            return 0
        try:
            value, end = self._lenient.raw_decode(text, start)
        except (ValueError, RecursionError):
            return 0
        return end if value else 0

    def _decoder(self, strict: bool) -> json.JSONDecoder:
        return json.JSONDecoder(
            strict=strict,
            parse_int=self._integer,
            parse_float=self._decimal,
            parse_constant=self._as_text,
        )

    def _integer(self, spelling: str) -> int | str:
        if len(spelling) <= 18:
            return int(spelling)
        if len(spelling) <= 20 and -(2**63) <= int(spelling) < 2**64:
            return int(spelling)
        return self._as_text(spelling)

    def _decimal(self, spelling: str) -> float | str:
        value = float(spelling)
        return self._as_text(spelling) if math.isinf(value) else value

    def _as_text(self, spelling: str) -> str:
        if len(self._spellings) < SPELLINGS_MAX:
            self._spellings.append(spelling[:SPELLING_CHARS_MAX])
        return spelling


_BLANKS = " \t\r\n"
_FILLER = re.compile(rf"[\x00{_BLANKS}]*")

_RECORD_START = re.compile(r'(?<=\})\{|\{"parentUuid"|(?<![:,\[ ])\{"(?:timestamp|type)"')
"""Where a record may start inside a damaged line: after a closing brace, or with the first key of a
record. Content blocks start with "type" as well, but behind the `:`, `,` or `[` of their record."""


def _filler_length(text: str, at: int) -> int:
    filler = _FILLER.match(text, at)
    return len(filler.group()) if filler else 0


def _nested_too_deep(value: Json) -> bool:
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(NESTING_MAX):
        containers = [
            inner
            for outer in containers
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not containers:
            return False
    return True


def _reason(records: list[Record], lost: list[Lost]) -> str:
    if not lost:
        return "several records on one line" if len(records) > 1 else "control characters"
    if all(not piece.raw.strip(b"\0") for piece in lost):
        return "NUL bytes"
    return "a cut record" if records else "no record"


def _end(place: Place) -> int:
    return place.offset + place.length
