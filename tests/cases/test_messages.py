"""Faults that others have met with messages, their sizes and what they hold."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from domain import jsontext
from domain.errors import Malformed
from tests.domain.story import (
    ROOM,
    SESSION,
    Story,
    became,
    refused,
    told,
    tool,
    update,
)


def read(story: Story, after: int) -> list[tuple[str, int]]:
    page = story.ledger.messages(ROOM, SESSION, after)
    return [(message.message_id, message.version) for message in page.messages]


def test_d01_versions_are_cursors_on_snapshots(story: Story) -> None:
    """Case D01: A reader sees each message once, at its latest version; what is ignored takes none."""
    story.turn("t1", "running")
    story.say(update("A", "a", status="completed", at=0))
    story.say(update("B", "b1", status="streaming", at=10))
    story.say(update("B", "b2", status="completed", at=20))
    stale = story.say(update("B", "stale", status="streaming", at=5))

    assert became(stale, "message") == "late"
    assert read(story, 0) == [("A", 1), ("B", 3)]
    assert read(story, 1) == [("B", 3)]
    assert story.say(update("C", "c", status="completed", at=30)).latest_version == 4
    assert read(story, 3) == [("C", 4)]


def snapshots(count: int, size: int) -> list[str]:
    """Growing snapshots of one text, the last of `size` characters."""
    whole = "".join(f"line {number}: what the agent says\n" for number in range(size // 28 + 1))[:size]
    return [whole[: size * number // count] for number in range(1, count + 1)]


def stream(story: Story, texts: list[str], at_once: int) -> None:
    """Reports each snapshot of a message; so many of them stand in one report, as clients pack them."""
    for start in range(0, len(texts), at_once):
        packed = enumerate(texts[start : start + at_once], start + 1)
        story.say(*(update("m1", text, status="streaming", at=number) for number, text in packed))


def test_d10_an_end_behind_thousands_of_snapshots(story: Story) -> None:
    """Case D10: Each of 2,048 growing snapshots is one event with what was added, so their content is the
    text once; the end behind them finds the last one.
    """
    texts = snapshots(2_048, 100_000)
    story.turn("t1", "running", at=0)
    stream(story, texts, at_once=64)

    story.turn("t1", "settled", outcome="completed", at=3_000)

    spoken = [one for one in story.events() if one.topic.startswith("session.message_")]
    added = [(one.event.content or {}).get("added", "") for one in spoken[1:]]
    assert len(spoken) == 2_048
    assert len(texts[0]) + sum(map(len, added)) == len(texts[-1])
    assert story.text("m1") == texts[-1]
    assert story.events()[-1].topic == "session.turn_settled"
    assert story.the_turn().final_assistant_message_id == "m1"


def test_g02_a_thousand_snapshots_of_a_megabyte(tmp_path: Path) -> None:
    """Case G02: 1,000 growing snapshots of a text that ends at 1 MB take at most 10 MB of files in all."""
    texts = snapshots(1_000, 1_000_000)
    with told(f"sqlite:///{tmp_path}/store.db") as story:
        story.turn("t1", "running", at=0)
        stream(story, texts, at_once=5)
        assert story.text("m1") == texts[-1]

    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000_000


def test_g08_numbers_come_back_exactly(story: Story) -> None:
    """Case G08: Integers of 64 bits, decimals and the negative zero survive as they were sent."""
    text = '{"id":2512292042121000001,"u64":18446744073709551615,"f":0.1,"neg0":-0.0}'
    story.turn("t1", "running")

    story.say(tool("m1", "completed", payload=jsontext.parse(text), at=0))

    assert jsontext.to_text(story.message("m1").payload) == text


def test_g08_what_is_no_number_is_refused(story: Story) -> None:
    """Case G08: NaN and infinities are refused with a reason when a body is parsed, and when a report is
    built by hand; of a key said twice the last counts.
    """
    with pytest.raises(Malformed):
        jsontext.parse('{"nan":NaN,"inf":1e400,"dup":1,"dup":2}')
    story.turn("t1", "running")
    for odd in (float("nan"), float("inf")):
        with refused("malformed", "message"):
            story.say(tool("m2", "completed", payload={"n": odd}))

    story.say(tool("m2", "completed", payload=jsontext.parse('{"dup":1,"dup":2}')))

    assert story.message("m2").payload == {"dup": 2}


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


@pytest.mark.parametrize("levels", [65, 200, 500, 1_000, 20_000])
def test_g09_too_deep_is_refused_and_life_goes_on(levels: int, story: Story) -> None:
    """Case G09: 64 levels are taken, more are refused with a reason, and the next report is fine."""
    story.turn("t1", "running")
    story.say(update("m64", payload=deep(64)))

    with refused("malformed", "message"):
        story.say(update("m1", payload=deep(levels)))
    story.say(update("m1", "fine"))

    assert story.message("m64").payload == deep(64)
    assert story.text("m1") == "fine"


def test_g09_too_deep_a_body_is_refused_before_it_is_a_report() -> None:
    """Case G09: The parser of bodies stops at its limit, whatever the interpreter's own is."""
    for levels in (200, 500, 1_000, 20_000):
        with pytest.raises(Malformed, match="levels deep"):
            jsontext.parse('{"in":' * levels + "1" + "}" * levels)


def test_g09_one_megabyte_is_taken_and_twenty_are_refused(story: Story) -> None:
    """Case G09: A text of 1 MB is stored; one of 20 MB is refused by name, and the next report is fine."""
    story.turn("t1", "running")
    story.say(update("m1", "x" * 1_000_000))

    with refused("too_large", "message"):
        story.say(update("m20", "x" * 20_000_000))
    story.say(update("m2", "fine"))

    assert len(story.text("m1")) == 1_000_000
    assert list(story.messages()) == ["m1", "m2"]


def test_g07_hostile_text_is_stored_under_a_plain_id(story: Story) -> None:
    """Case G07: A lone surrogate, NUL and escapes are stored, rebuilt and delivered; an id with NUL is
    refused.
    """
    text = "lone \ud83d nul \0 esc \x1b[2J"
    delivered: list[str] = []
    story.turn("t1", "running")
    with refused("invalid_id", "message"):
        story.say(update("m\0x", text, status="completed", at=0))
    story.say(update("mx", text, status="completed", at=0))

    story.ledger.rebuild()
    story.ledger.subscribe(lambda one: delivered.append(one.delta.to_json()), "all", after=0)
    story.ledger.redeliver("all")

    assert story.text("mx") == text
    assert len(delivered) == 2
    assert jsontext.from_bytes(jsontext.to_bytes(story.message("mx").payload)) == {"text": text}
