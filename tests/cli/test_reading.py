"""What is recorded is read as JSON or as text, and hostile text harms neither."""

from pathlib import Path

import pytest

from infrastructure.history import in_words
from tests.cli.conftest import CHILD, PARENT, ROOM, Cli

SUMMARY_KEYS = [
    "room",
    "session",
    "kind",
    "parent",
    "status",
    "title",
    "provider",
    "turns",
    "messages",
    "toolCalls",
    "usage",
    "messageVersion",
    "version",
    "updatedAtUnixMs",
]
HOSTILE = "a\x1b[2J\x07\x9b31m\u202eb\ud800c\u2028d\x00e\nf 🌊"


def hostile(cli: Cli, room: str = "r", session: str = "s") -> None:
    with cli.ledger() as ledger:
        ledger.report_state(
            {"state": {"title": HOSTILE, "turn": {"turnId": "t", "phase": "running"}}},
            room=room,
            session=session,
        )
        update = {
            "messageId": "m",
            "turnId": "t",
            "role": "assistant",
            "kind": "text",
            "payload": {"text": HOSTILE},
        }
        ledger.report_messages({"updates": [update]}, room=room, session=session)


def is_harmless(text: str) -> bool:
    return all(char.isprintable() or char == "\n" for char in text)


# sessions list


def test_a_list_has_exactly_these_keys(filled: Cli) -> None:
    listed = filled.run("sessions", "list", "--json").objects

    assert [list(line) for line in listed] == [SUMMARY_KEYS] * 6
    child = next(line for line in listed if line["session"] == CHILD)
    assert (child["kind"], child["parent"], child["room"]) == ("child", PARENT, ROOM)


def test_a_list_is_a_plain_aligned_table_when_it_is_piped(filled: Cli) -> None:
    ran = filled.run("sessions", "list")

    head, *rows = ran.lines
    assert head.split() == ["STATUS", "SESSION", "TURNS", "MESSAGES", "TOOLS", "CHANGED", "ROOM", "TITLE"]
    assert len(rows) == 6
    assert all(row[head.index("ROOM") :].startswith(ROOM) for row in rows)
    titles = [row[head.index("TITLE") :] for row in rows]
    assert titles.index("└ Find naive times") == titles.index("Times without a zone") + 1


def test_a_list_of_one_room_leaves_out_the_others(filled: Cli) -> None:
    hostile(filled)

    assert len(filled.run("sessions", "list", "--json", "--room", "r").objects) == 1
    assert len(filled.run("sessions", "list", "--json", "--room", ROOM).objects) == 6
    assert filled.run("sessions", "list", "--json", "--room", "none").lines == []


def test_deleted_sessions_are_listed_when_asked_for(filled: Cli) -> None:
    filled.run("delete", PARENT)

    assert len(filled.run("sessions", "list", "--json").objects) == 4
    assert len(filled.run("sessions", "list", "--json", "--deleted").objects) == 6


# Naming a session


def test_an_unknown_session_is_not_found_and_one_like_it_is_suggested(filled: Cli) -> None:
    for verb in (
        ["sessions", "show"],
        ["sessions", "events"],
        ["messages"],
        ["delete"],
        ["restore"],
        ["purge"],
    ):
        ran = filled.run(*verb, PARENT[:8])

        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith(f"error: no session {PARENT[:8]}; is it {PARENT}")


def test_a_session_in_several_rooms_needs_its_room(cli: Cli) -> None:
    with cli.ledger() as ledger:
        for room in ("one", "two"):
            ledger.report_state({"state": {"title": room}}, room=room, session="s")

    ran = cli.run("sessions", "show", "s")

    assert (ran.code, ran.out) == (3, "")
    assert "--room" in ran.err
    assert "one, two" in ran.err
    assert cli.run("sessions", "show", "s", "--room", "two", "--json").objects[0]["title"] == "two"
    assert cli.run("sessions", "show", "s", "--room", "three").code == 3


# sessions show


def test_a_session_shows_its_turns_and_questions(filled: Cli) -> None:
    asked = "5e550004-7a11-4c0d-8e57-000000000004"

    ran = filled.run("sessions", "show", asked)
    (view,) = filled.run("sessions", "show", asked, "--json").objects

    assert len(view["turnList"]) == 2
    assert "interrupted" in ran.out
    assert {row.split()[0] for row in ran.lines[-3:]} == {"approval", "question", "plan"}


# sessions events


def test_a_history_says_in_words_what_happened(filled: Cli) -> None:
    lines = filled.run("sessions", "events", PARENT).lines
    events = filled.run("sessions", "events", PARENT, "--json").objects

    assert [line.split()[0] for line in lines] == [str(event["version"]) for event in events]
    assert "session.opened" in lines[0]
    assert "reported for the first time by claude-code" in lines[0]
    assert any("session.turn_settled" in line and "ended completed" in line for line in lines)
    assert [event["version"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["source"]["importId"] == f"claude-code:{PARENT}"


def test_erased_content_says_so(filled: Cli) -> None:
    filled.run("purge", PARENT, "--yes")

    lines = filled.run("sessions", "events", PARENT, "--room", ROOM).lines
    events = filled.run("sessions", "events", PARENT, "--room", ROOM, "--json").objects

    titled = next(line for line in lines if "session.titled" in line)
    assert titled.endswith("titled [content erased]")
    erased = [event for event in events if event["erased"]]
    assert erased
    assert all(event["content"] is None for event in erased)
    assert "content was destroyed" in lines[-1]
    assert filled.run("sessions", "show", PARENT, "--room", ROOM).code == 3


# messages


def test_messages_are_paged_by_version(filled: Cli) -> None:
    every = filled.run("messages", PARENT, "--json").objects
    first = filled.run("messages", PARENT, "--json", "--limit", "3")
    rest = filled.run("messages", PARENT, "--json", "--after", "3")

    assert first.err == "there are more: --after 3\n"
    assert first.objects + rest.objects == every
    assert rest.err == ""


def test_a_limit_may_span_pages(cli: Cli) -> None:
    updates = [
        {"messageId": f"m{number}", "role": "user", "kind": "session_audit", "payload": {"text": "x"}}
        for number in range(250)
    ]
    with cli.ledger() as ledger:
        ledger.report_state({"state": {"title": "long"}}, room="r", session="s")
        ledger.report_messages({"updates": updates}, room="r", session="s")

    assert len(cli.run("messages", "s", "--limit", "249", "--json").lines) == 249
    assert len(cli.run("messages", "s", "--limit", "1000", "--json").lines) == 250


def test_messages_read_as_a_conversation(filled: Cli) -> None:
    ran = filled.run("messages", PARENT)

    assert ran.lines[0].startswith("#1 v1 user text completed  2026-04-06 09:10:01Z  turn ")
    assert ran.lines[1] == "    Are we careless with time zones anywhere? Let a helper look."
    assert any(line.startswith("    Agent {") for line in ran.lines)


# Hostile text


def test_hostile_text_comes_back_equal_as_json(cli: Cli) -> None:
    hostile(cli)

    (message,) = cli.run("messages", "s", "--json").objects
    (session,) = cli.run("sessions", "list", "--json").objects
    added = next(
        event
        for event in cli.run("sessions", "events", "s", "--json").objects
        if event["topic"] == "session.message_added"
    )

    assert message["payload"]["text"] == HOSTILE
    assert session["title"] == HOSTILE.strip()
    assert added["content"]["payload"]["text"] == HOSTILE


@pytest.mark.parametrize(
    "verb", [["sessions", "list"], ["sessions", "show", "s"], ["sessions", "events", "s"], ["messages", "s"]]
)
def test_a_terminal_gets_no_control_characters(cli: Cli, verb: list[str]) -> None:
    hostile(cli)

    ran = cli.run(*verb)

    assert ran.code == 0
    assert is_harmless(ran.out)
    assert r"a\x1b[2J\x07\x9b31m\u202eb\ud800c" in ran.out


def test_hostile_ids_do_not_reach_the_terminal_in_errors(filled: Cli) -> None:
    ran = filled.run("messages", "\x1b[31mred")

    assert ran.code == 3
    assert is_harmless(ran.err)


def test_words_for_an_unknown_time_do_not_fail(cli: Cli, tmp_path: Path) -> None:
    """A report may claim any 64-bit time."""
    with cli.ledger() as ledger:
        ledger.report_state(
            {"state": {"title": "t", "startedAtUnixMs": 2**62, "occurredAtUnixMs": 2**62}},
            room="r",
            session="s",
        )
        assert all(in_words(stored) for stored in ledger.events("r", "s"))

    assert cli.run("sessions", "show", "s").code == 0
