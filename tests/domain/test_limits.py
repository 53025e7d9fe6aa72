"""Limits, and what text and numbers go through unharmed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from domain import jsontext
from domain.errors import Malformed
from domain.ids import ID_LENGTH_MAX
from domain.message_rules import MESSAGE_BYTES_MAX
from domain.reports import UPDATE_BYTES_MAX
from tests.domain.story import ROOM, SESSION, Story, became, delta, refused, told, tool, update

LIMIT = 64


def nested(levels: int) -> Any:
    """An object of so many levels, the outermost counted."""
    value: Any = 1
    for level in range(levels):
        value = {"in": value} if level % 2 else [value]
    return {"in": value} if isinstance(value, list) else value


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


# Ids.


@pytest.mark.parametrize("id_", ["x" * ID_LENGTH_MAX, "ä" * ID_LENGTH_MAX, "a b/c%\n\u2028😀", "'; --"])
def test_an_id_may_be_any_text_of_512_characters(id_: str, story: Story) -> None:
    """W3: Ids have at most 512 characters, of any kind but NUL and lone surrogates."""
    story.report(id_, turn={"turn_id": id_, "phase": "running"}, messages=[update(id_, "x", turn=id_)])
    story.ask(id_, id_, session=id_)

    assert story.message(id_, id_).turn_id == id_
    assert story.asked(id_, id_, id_).status == "pending"


@pytest.mark.parametrize("id_", ["x" * (ID_LENGTH_MAX + 1), "a\0b", "\ud83d", "a\udc00"])
@pytest.mark.parametrize("what", ["session", "turn", "message", "request"])
def test_other_ids_are_refused(what: str, id_: str, story: Story) -> None:
    """W3: Longer ids, and ids with NUL or a lone surrogate, are refused wherever they stand."""
    story.turn("t1", "running")
    reports: dict[str, Callable[[], object]] = {
        "session": lambda: story.ledger.report_state({"state": {}}, room=ROOM, session=id_),
        "turn": lambda: story.turn(id_, "running"),
        "message": lambda: story.say(update(id_, "x")),
        "request": lambda: story.ask(id_),
    }
    with refused("invalid_id"):
        reports[what]()


@pytest.mark.parametrize("id_", ["", " ", "\n\t"])
def test_a_report_names_its_room_and_its_session(id_: str, story: Story) -> None:
    """W3: A blank id is none."""
    with refused("missing_identity"):
        story.ledger.report_state({"state": {}}, room=ROOM, session=id_)
    with refused("missing_identity"):
        story.ledger.report_messages({"updates": []}, room=id_, session=SESSION)


def test_address_and_body_may_not_contradict_each_other(story: Story) -> None:
    """W3: The address names room and session; another id in the body is refused."""
    with refused("id_mismatch"):
        story.body(SESSION, {"agentSessionId": "other", "state": {}})
    with refused("id_mismatch"):
        story.body(SESSION, {"roomId": "other", "state": {}})


# Nesting.


@pytest.mark.parametrize("field", ["settings", "runtime_context"])
def test_64_levels_are_stored_in_a_state(field: str, story: Story) -> None:
    """W3: Nesting is counted from the object itself; 64 levels come back equal, 65 are refused."""
    report: dict[str, Any] = {field: deep(LIMIT)}
    story.report(**report)

    assert getattr(story.session(), field) == deep(LIMIT)
    report = {field: deep(LIMIT + 1)}
    with refused("malformed"):
        story.report(**report)


@pytest.mark.parametrize("levels", [65, 200, 500, 1_000, 20_000])
def test_deeper_payloads_are_refused(levels: int, story: Story) -> None:
    """W3: However deep a payload is, it is refused with a reason, and the next report is taken."""
    story.turn("t1", "running")

    with refused("malformed", "message"):
        story.say(update("m1", payload=deep(levels)))

    story.say(update("m1", payload=deep(LIMIT)))
    assert story.message("m1").payload == deep(LIMIT)


def test_lists_count_as_levels(story: Story) -> None:
    """W3: A list is a level as an object is."""
    story.turn("t1", "running")
    story.say(update("m1", payload=nested(LIMIT - 1)))
    with refused("malformed", "message"):
        story.say(update("m1", payload=nested(LIMIT + 1)))


# Size.


def test_an_update_of_4_mib_is_the_largest(story: Story) -> None:
    """W3: One update is at most 4 MiB as it is stored; a larger one is refused and named."""
    story.turn("t1", "running")
    story.say(update("m1", "x" * (UPDATE_BYTES_MAX - 1_000)))

    with refused("too_large", "message"):
        story.say(update("m2", "x" * (UPDATE_BYTES_MAX + 1)))
    with refused("too_large", "message"):
        story.say(delta("m2", "x" * (UPDATE_BYTES_MAX + 1)))
    with refused("too_large", "message"):
        story.say(update("m2", "\0" * (UPDATE_BYTES_MAX // 6 + 1)))
    assert UPDATE_BYTES_MAX == 4 * 2**20


def test_tool_texts_are_cut_before_they_are_measured(story: Story) -> None:
    """W3: A tool's endless output is no reason to refuse it."""
    story.turn("t1", "running")

    story.say(tool("call", payload={"output": {"text": "x" * 20_000_000}}))

    text = story.message("call").payload["output"]["text"]
    assert len(text) == 2**20
    assert text.endswith("[Output truncated]")
    with refused("too_large", "message"):
        story.say(tool("call", payload={"input": {"text": "x" * 20_000_000}}))


def test_a_merged_message_of_8_mib_is_the_largest(story: Story) -> None:
    """W3: A message may grow to 8 MiB; what would make it larger is refused, and the message stays."""
    story.turn("t1", "running")
    piece = "x" * 3_000_000
    story.say(delta("m1", piece))
    story.say(delta("m1", piece))

    with refused("too_large", "message"):
        story.say(delta("m1", piece))
    with refused("too_large", "message"):
        story.say(update("m1", payload={"more": piece}))

    assert len(story.text("m1")) == 6_000_000
    assert MESSAGE_BYTES_MAX == 8 * 2**20


# Text and numbers.

HOSTILE = [
    "lone \ud83d surrogate",
    "\ude00\ud83d the wrong way round",
    "nul \0 byte",
    "escape \x1b[31m",
    "separators \u2028 \u2029 \x85",
    "bidi \u202eabc",
    "e\u0301 combining",
    "bytes \udcff\udcfe",
    "\\u0000 \\ud83d no escapes",
    "\U0010ffff",
    "",
    "  ",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_any_text_comes_back_equal(text: str, where: str, tmp_path: Path) -> None:
    """X1: Whatever text JSON can carry is stored and returned equal, also as a key and behind a rebuild."""
    url = "memory://" if where == "memory" else f"sqlite:///{tmp_path}/store.db"
    with told(url) as story:
        story.turn("t1", "running")
        story.report(settings={text: [text]})
        story.say(update("m1", payload={"text": text, "deep": {text: [text]}}))
        story.say(delta("m1", text or "x", len(text)))
        story.ledger.rebuild()

        payload = story.message("m1").payload
        assert payload["deep"] == {text: [text]}
        assert payload["text"] == jsontext.join_halves(text + (text or "x"))
        assert story.session().settings == {text: [text]}
        assert list(story.ledger.deltas())


@pytest.mark.parametrize("text", HOSTILE)
def test_stored_text_is_one_reversible_spelling(text: str) -> None:
    """X1: Content is JSON text in UTF-8 in which stands as an escape what UTF-8 cannot carry."""
    spelled = jsontext.to_bytes({"text": text})

    assert jsontext.from_bytes(spelled) == {"text": text}
    assert spelled.decode("utf-8")
    assert b"\0" not in spelled
    assert jsontext.to_bytes(jsontext.from_bytes(spelled)) == spelled


@pytest.mark.parametrize(
    "number",
    [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2_512_292_042_121_000_001, 0.1, 1e300, 5e-324, -0.0],
)
def test_numbers_of_64_bits_come_back_exactly(number: float, story: Story) -> None:
    """X2: Integers up to 64 bits, signed and unsigned, are exact, and decimals are the nearest double."""
    story.turn("t1", "running")

    story.say(update("m1", payload={"n": number, "more": [number]}))

    stored = story.message("m1").payload["n"]
    assert (stored, type(stored), str(stored)) == (number, type(number), str(number))


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, float("inf"), float("-inf"), float("nan")])
def test_other_numbers_are_refused(number: float, story: Story) -> None:
    """X2: Larger integers, NaN and the infinities are refused, with a way out."""
    story.turn("t1", "running")

    with refused("malformed", "message"):
        story.say(update("m1", payload={"n": {"deep": [number]}}))
    assert story.messages() == {}


@pytest.mark.parametrize(
    "text", ["NaN", "Infinity", "-Infinity", "1e400", "18446744073709551616", "[" * 9999]
)
def test_they_are_refused_when_a_body_is_parsed(text: str) -> None:
    """X2: What cannot be stored does not get past the parser of bodies, nor does endless nesting."""
    with pytest.raises(Malformed):
        jsontext.parse(text if text.startswith("[") else f'{{"n": {text}}}')


def test_of_duplicate_keys_the_last_wins() -> None:
    """X2: One key said twice means what it said last."""
    assert jsontext.parse('{"dup": 1, "dup": 2}') == {"dup": 2}


def test_a_number_is_no_truth_value(story: Story) -> None:
    """X2: True is not 1, so the one replaces the other."""
    story.turn("t1", "running")
    story.say(update("m1", payload={"n": 1}))

    assert became(story.say(update("m1", payload={"n": True})), "message") == "applied"
    assert story.message("m1").payload["n"] is True
