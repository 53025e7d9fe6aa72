"""Pages are read as JSON is, whatever comes."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from application.remote import BadRow, RemoteMessage
from infrastructure.remote_pages import NotAPage, read_agents, read_messages

TEXTS = st.text(st.characters(codec=None), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.fixed_dictionaries(
    {"messageId": VALUES, "version": VALUES},
    optional={"payload": VALUES, "role": VALUES, "id": VALUES, "occurredAtUnixMs": VALUES},
)


@given(rows=st.lists(MESSAGES | VALUES, max_size=6), indent=st.sampled_from([None, 1, "\t"]))
def test_each_row_of_a_page_is_a_message_or_keeps_its_bytes(
    rows: list[Any], indent: int | str | None
) -> None:
    """P4: nothing is lost, and the order stays."""
    page = read_messages(json.dumps({"hasMore": False, "messages": rows, "x": 1}, indent=indent).encode())

    assert len(page.rows) == len(rows)
    for place, (row, sent) in enumerate(zip(page.rows, rows, strict=True)):
        if isinstance(row, BadRow):
            assert row.index == place
            assert json.dumps(json.loads(row.raw)) == json.dumps(sent)
        else:
            assert row.message_id == sent["messageId"].strip()
            assert row.version == int(sent["version"])


@given(body=st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
@example(b'{"messages": ' + b"[" * 100_000)
@example(b'{"messages": [' + b"9" * 5_000 + b"]}")
@example(b'{"messages": [], 5: 6}')
@example(b'{"messages": [1,]}')
@example(b'{"messages": [1 2]}')
@example(b'{"messages": []')
@example(b"{,}")
def test_what_is_no_page_is_told_and_never_raises_otherwise(body: bytes) -> None:
    for read in (read_messages, read_agents):
        with pytest.raises(NotAPage):
            read(body)


def test_of_a_name_that_stands_twice_the_last_counts() -> None:
    page = read_messages(b'{"messages": [5], "messages": [{"messageId": "m", "version": 3, "version": 4}]}')

    assert page.rows == (RemoteMessage(message_id="m", version=4),)


def test_camel_case_wins_unless_it_is_null() -> None:
    row = {"messageId": "camel", "message_id": "snake", "turnId": None, "turn_id": "t", "version": 1}

    (message,) = read_messages(json.dumps({"messages": [row]}).encode()).rows

    assert message == RemoteMessage(message_id="camel", turn_id="t", version=1)


def test_control_characters_inside_texts_are_taken_as_they_are() -> None:
    (message,) = read_messages(b'{"messages": [{"messageId": "m", "version": 1, "status": "a\tb"}]}').rows

    assert isinstance(message, RemoteMessage)
    assert message.status == "a\tb"
