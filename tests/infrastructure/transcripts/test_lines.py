"""The line reader: whole records, damage and torn tails, each with its place."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from application.transcript import Place
from infrastructure.transcripts import lines
from infrastructure.transcripts.lines import Damage, Lost, Record, Torn, read_lines


def values(data: bytes) -> list[Any]:
    return [line.value for line in read_lines(data) if isinstance(line, Record)]


def damages(data: bytes) -> list[Damage]:
    return [line for line in read_lines(data) if isinstance(line, Damage)]


def test_a_record_knows_its_place_and_its_bytes() -> None:
    assert list(read_lines(b'{"a":1}\n\n{"b":2}\r\n')) == [
        Record({"a": 1}, Place(0, 7), b'{"a":1}'),
        Record({"b": 2}, Place(9, 7), b'{"b":2}'),
    ]


def test_a_file_object_is_read_from_an_offset() -> None:
    assert list(read_lines(io.BytesIO(b'{"a":1}\n{"b":2}\n'), 8)) == [
        Record({"b": 2}, Place(8, 7), b'{"b":2}')
    ]


def test_a_byte_order_mark_is_no_damage() -> None:
    assert list(read_lines(b'\xef\xbb\xbf{"a":1}\n')) == [Record({"a": 1}, Place(3, 7), b'{"a":1}')]


def test_a_last_record_without_a_newline_is_a_record() -> None:
    assert values(b'{"a":1}\n{"b":2}') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("tail", [b'{"b":"cut', b"12", b"\0\0\0", b'{"b":{"type":"x","y":1},"c'])
def test_an_unfinished_last_line_is_torn_not_damaged(tail: bytes) -> None:
    *_, last = read_lines(b'{"a":1}\n' + tail)

    assert last == Torn(Place(8, len(tail)))


def test_a_torn_tail_behind_a_whole_record_starts_where_the_record_ends() -> None:
    assert list(read_lines(b'{"a":1}{"b":')) == [Record({"a": 1}, Place(0, 7), b'{"a":1}'), Torn(Place(7, 5))]


def test_two_records_on_one_line_are_both_recovered() -> None:
    damage, *records = read_lines(b'{"a":1}{"b":2}\n')

    assert damage == Damage(Place(0, 14), "several records on one line", 2, ())
    assert [record.place for record in records] == [Place(0, 7), Place(7, 7)]


@pytest.mark.parametrize("first_key", ["parentUuid", "timestamp", "type"])
def test_a_record_behind_a_cut_one_is_recovered(first_key: str) -> None:
    whole = json.dumps({first_key: "x"}, separators=(",", ":")).encode()

    damage, record = read_lines(b'{"parentUuid":"0b00' + whole + b"\n")

    assert isinstance(damage, Damage)
    assert damage.lost == (Lost(Place(0, 19), b'{"parentUuid":"0b00'),)
    assert record == Record({first_key: "x"}, Place(19, len(whole)), whole)


def test_a_content_block_of_a_cut_record_is_no_record() -> None:
    cut = b'{"type":"user","message":{"content":[{"type":"text","text":"hi"}],"uu\n'

    (damage,) = read_lines(cut)

    assert isinstance(damage, Damage)
    assert damage.recovered == 0


def test_nul_bytes_before_a_record_are_kept_as_damage() -> None:
    damage, record = read_lines(b"\0" * 64 + b'{"a":1}\n')

    assert damage == Damage(Place(0, 71), "NUL bytes", 1, (Lost(Place(0, 64), b"\0" * 64),))
    assert record == Record({"a": 1}, Place(64, 7), b'{"a":1}')


def test_control_characters_inside_a_string_do_not_lose_the_record() -> None:
    damage, record = read_lines(b'{"a":"x\ty"}\n')

    assert isinstance(damage, Damage)
    assert record == Record({"a": "x\ty"}, Place(0, 11), b'{"a":"x\ty"}')


def test_bytes_that_are_not_utf8_come_back() -> None:
    (record,) = read_lines(b'{"a":"\xff\xfe \xe2\x82\xac"}\n')

    assert isinstance(record, Record)
    assert record.invalid_utf8
    assert record.value == {"a": "\udcff\udcfe €"}
    assert record.value["a"].encode(errors="surrogateescape") == b"\xff\xfe \xe2\x82\xac"


@pytest.mark.parametrize("text", ["\ud83d", "\0", "\u2028", "\u202eabc", "e\u0301"])
def test_hostile_text_is_text(text: str) -> None:
    assert values(json.dumps({"a": text}).encode() + b"\n") == [{"a": text}]


def test_duplicate_keys_last_wins() -> None:
    assert values(b'{"a":1,"a":2}\n') == [{"a": 2}]


@pytest.mark.parametrize(
    ("spelling", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551616", "18446744073709551616"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9" * 5000, "9" * 5000),
        ("1e400", "1e400"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("0.1", 0.1),
    ],
)
def test_a_number_beyond_64_bits_is_kept_as_it_is_spelt(spelling: str, value: object) -> None:
    (record,) = read_lines(f'{{"a":{spelling}}}\n'.encode())

    assert isinstance(record, Record)
    assert record.value == {"a": value}
    assert record.numbers_as_text == ((spelling[:100],) if isinstance(value, str) else ())


@pytest.mark.parametrize("levels", [lines.NESTING_MAX + 1, 2_000, 200_000])
def test_deep_nesting_is_refused_and_kept(levels: int) -> None:
    line = b'{"a":' * levels + b"1" + b"}" * levels

    damage, record = read_lines(line + b'\n{"b":2}\n')

    assert isinstance(damage, Damage)
    assert damage.place == Place(0, len(line))
    assert damage.lost[0].raw == line[: lines.KEPT_BYTES_MAX]
    assert isinstance(record, Record)


def test_nesting_within_the_limit_is_read() -> None:
    levels = lines.NESTING_MAX

    assert len(values(b"[" * levels + b"]" * levels + b"\n")) == 1


def test_many_brackets_in_text_are_no_nesting() -> None:
    assert values(json.dumps({"a": "{[" * 500}).encode() + b"\n") == [{"a": "{[" * 500}]


def test_an_overlong_line_is_reported_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 100)
    monkeypatch.setattr(lines, "KEPT_BYTES_MAX", 10)
    monkeypatch.setattr(lines, "SKIP_BYTES", 7)

    damage, record = read_lines(b'"' + b"x" * 1000 + b'"\n{"a":1}\n')

    assert damage == Damage(
        Place(0, 1003), "longer than 100 bytes", 0, (Lost(Place(0, 1003), b'"xxxxxxxxx'),)
    )
    assert record == Record({"a": 1}, Place(1003, 7), b'{"a":1}')


@given(st.binary(max_size=400))
def test_any_bytes_give_a_report(data: bytes) -> None:
    list(read_lines(data))


JSON_PIECES = st.sampled_from(
    [b'{"type":"a"}', b'{"a":', b"}", b"]", b"[", b'"', b"\\", b"\n", b"\0", b"\xff", b"1", b" "]
)


@given(st.lists(JSON_PIECES, max_size=60).map(b"".join))
def test_no_byte_of_a_broken_line_is_lost(data: bytes) -> None:
    """Records, lost pieces and the torn tail cover everything but blank space, and do not overlap."""
    covered = bytearray(len(data))
    for line in read_lines(data):
        pieces = line.lost if isinstance(line, Damage) else (line,)
        for piece in pieces:
            for at in range(piece.place.offset, piece.place.offset + piece.place.length):
                assert not covered[at]
                covered[at] = 1

    assert all(covered[at] or data[at : at + 1].isspace() for at in range(len(data)))
