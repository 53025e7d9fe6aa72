"""The verbs that read: `sessions list`, `show` and `events`, and `messages`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from infrastructure.cli.options import db_option, json_option, opened, room_of, room_option
from infrastructure.cli.remote import asked, service_url, summaries, url_option
from infrastructure.cli.text import (
    GAP,
    STATUS_STYLES,
    WIDE,
    Column,
    note,
    on_narrow_terminal,
    on_terminal,
    say,
    say_json,
    table,
    wrapped,
)
from infrastructure.text import counted, short, shown, when

if TYPE_CHECKING:
    from application.ledger import Ledger
    from application.ports import StoredEvent
    from application.views import MessageView, SessionSummary, SessionView

ID_WIDTH: Final = 36
"""Of a UUID: a sub-agent's id is its parent's, a colon and its own, so it folds behind the parent's."""
MESSAGES_DEFAULT: Final = 100
RESULT_LINES_MAX: Final = 10
"""Lines of a tool's result that are written for people; --json has them all."""


@click.group()
def sessions() -> None:
    """List sessions, show one, tell its history."""


@sessions.command("list")
@click.option("--room", default=None, metavar="ROOM", help="Only the sessions of this room.")
@click.option("--deleted", is_flag=True, help="Deleted sessions too.")
@url_option
@json_option
@db_option
def list_(room: str | None, deleted: bool, url: str | None, as_json: bool) -> None:
    """List sessions, the one that changed last first, sub-agents behind their parents.

    A service tells nothing of deleted ones.
    """
    if where := service_url(url):
        if deleted:
            raise click.UsageError("a service does not list deleted sessions; name its store with --db")
        with asked(where) as client:
            found = tuple(summaries(client, room))
    else:
        with opened() as ledger:
            found = ledger.sessions(room, deleted=deleted)
    if as_json:
        for summary in found:
            say_json(summary.to_dict())
    elif on_terminal():
        _list_by_room(found)
    else:
        columns = (*SESSION_COLUMNS[:-1], Column("ROOM"), SESSION_COLUMNS[-1])
        rows = [_session_cells(summary, depth) for summary, depth in _nested(found)]
        table(
            columns,
            [
                (*cells[:-1], shown(summary.room), cells[-1])
                for cells, (summary, _) in zip(rows, _nested(found), strict=True)
            ],
        )


SESSION_COLUMNS: Final = (
    Column("STATUS", styles=STATUS_STYLES),
    Column("SESSION", fold_at=ID_WIDTH),
    Column("TURNS", right=True, from_width=WIDE),
    Column("MESSAGES", right=True, from_width=WIDE),
    Column("TOOLS", right=True, from_width=WIDE),
    Column("CHANGED", from_width=WIDE),
    Column("TITLE", cut=True),
)


def _list_by_room(found: "Sequence[SessionSummary]") -> None:
    """One table a room: a narrow terminal has no place for its name on every line."""
    for room in dict.fromkeys(summary.room for summary in found):
        inside = [summary for summary in found if summary.room == room]
        say(f"room {shown(room)}")
        table(SESSION_COLUMNS, [_session_cells(summary, depth) for summary, depth in _nested(inside)])
        say()


def _session_cells(summary: "SessionSummary", depth: int) -> tuple[str, ...]:
    return (
        summary.status,
        shown(summary.session),
        str(summary.turns),
        str(summary.messages),
        str(summary.tool_calls),
        when(summary.updated_at_unix_ms),
        ("└ " * min(depth, 1)).rjust(2 * depth) + short(summary.title),
    )


def _nested(found: "Sequence[SessionSummary]") -> "Iterator[tuple[SessionSummary, int]]":
    """Each session with how deep it stands below those listed, children behind their parents."""
    listed = {(one.room, one.session) for one in found}
    children: dict[tuple[str, str], list[SessionSummary]] = {}
    tops: list[SessionSummary] = []
    for one in found:
        parent = (one.room, one.parent)
        (children.setdefault(parent, []) if one.parent and parent in listed else tops).append(one)
    waiting = [(one, 0) for one in reversed(tops)]
    while waiting:
        one, depth = waiting.pop()
        yield one, depth
        waiting += [(child, depth + 1) for child in reversed(children.pop((one.room, one.session), []))]
    for rest in children.values():  # sessions that name each other as parents
        yield from ((one, 0) for one in rest)


@sessions.command()
@click.argument("session", metavar="ID")
@room_option
@json_option
@db_option
def show(session: str, room: str, as_json: bool) -> None:
    """Show a session as it is now, with its turns and what it asked."""
    from domain.errors import NotFound

    with opened() as ledger:
        where = room_of(ledger, session, room)
        view = ledger.session(where, session)
    if view is None:
        raise NotFound(
            f"nothing is left of session {session} but its history;"
            f" reprise sessions events {session} --room {where}"
        )
    if as_json:
        say_json(view.to_dict())
        return
    facts = _facts(view)
    width = max(map(len, facts))
    for name, value in facts.items():
        if value:
            say(f"{name:<{width}}{GAP}{shown(value)}")
    if view.turn_list:
        say()
        table(TURN_COLUMNS, [_turn_cells(turn) for turn in view.turn_list])
    if view.interaction_list:
        say()
        table(INTERACTION_COLUMNS, [_interaction_cells(asked) for asked in view.interaction_list])


def _facts(view: "SessionView") -> dict[str, str]:
    forked = view.forked_from or {}
    return {
        "session": view.session,
        "room": view.room,
        "title": view.title,
        "status": view.status + (", deleted" if view.deleted_at_unix_ms else ""),
        "kind": view.kind,
        "parent": view.parent,
        "forked from": forked.get("session", ""),
        "provider": " ".join(filter(None, (view.provider, view.model))),
        "folder": view.cwd or "",
        "error": view.last_error or "",
        "counts": ", ".join(
            (
                counted(view.turns, "turn"),
                counted(view.messages, "message"),
                counted(view.tool_calls, "tool call"),
            )
        ),
        "tokens": ", ".join(f"{name} {number:,}" for name, number in view.usage.items()),
        "started": when(view.started_at_unix_ms),
        "last event": when(view.last_event_at_unix_ms),
        "changed": when(view.updated_at_unix_ms),
        "deleted": when(view.deleted_at_unix_ms) if view.deleted_at_unix_ms else "",
        "version": f"{view.version}, messages at {view.message_version}",
    }


TURN_COLUMNS: Final = (
    Column("TURN", fold_at=ID_WIDTH),
    Column("PHASE"),
    Column("OUTCOME", styles=STATUS_STYLES),
    Column("STARTED", from_width=WIDE),
    Column("SETTLED", from_width=WIDE),
    Column("ERROR", cut=True),
)
INTERACTION_COLUMNS: Final = (
    Column("KIND"),
    Column("STATUS"),
    Column("TOOL"),
    Column("ASKED", from_width=60),
    Column("REQUEST", cut=True),
)


def _turn_cells(turn: Any) -> tuple[str, ...]:
    outcome = (turn.outcome or "-") + (", provisional" if turn.provisional else "")
    return (
        shown(turn.turn_id),
        turn.phase,
        outcome,
        when(turn.started_at_unix_ms),
        when(turn.settled_at_unix_ms),
        short(turn.error or turn.error_code or ""),
    )


def _interaction_cells(asked: Any) -> tuple[str, ...]:
    return (
        asked.kind,
        asked.status,
        shown(asked.tool_name or ""),
        when(asked.requested_at_unix_ms),
        shown(asked.request_id),
    )


@sessions.command("events")
@click.argument("session", metavar="ID")
@room_option
@json_option
@db_option
def events_(session: str, room: str, as_json: bool) -> None:
    """Tell a session's history: version, position, time, topic, and what happened.

    A session's events count by version, all events of the store by position. The history of a purged
    session is found with --room.
    """
    from infrastructure.history import as_json_object

    with opened() as ledger:
        for stored in ledger.events(room_of(ledger, session, room), session):
            if as_json:
                say_json(as_json_object(stored))
            else:
                _tell_event(stored)


def _tell_event(stored: "StoredEvent") -> None:
    from infrastructure.history import in_words

    words = in_words(stored)
    head = f"{stored.version:>5}{GAP}at {stored.position:<7}{GAP}{when(stored.recorded_at)}{GAP}"
    if on_terminal():
        say(head + stored.topic)
        for line in wrapped(words, " " * 7):
            say(line)
    else:
        say(f"{head}{stored.topic:<30}{GAP}{words}")


@click.command()
@click.argument("session", metavar="ID")
@room_option
@click.option(
    "--after", default=0, metavar="N", type=click.IntRange(0), help="Only messages above version N."
)
@click.option(
    "--limit",
    default=MESSAGES_DEFAULT,
    metavar="N",
    show_default=True,
    type=click.IntRange(1),
    help="At most so many.",
)
@json_option
@db_option
def messages(session: str, room: str, after: int, limit: int, as_json: bool) -> None:
    """Print a session's messages.

    Those that changed last stand at the end: every change gives a message the session's next version. To
    see what changed since, ask again with the last version as --after.
    """
    with opened() as ledger:
        found = _pages(ledger, room_of(ledger, session, room), session, after)
        for message in islice(found, limit):
            after = message.version
            if as_json:
                say_json(message.to_dict())
            else:
                _tell_message(message)
        if next(found, None):
            note(f"there are more: --after {after}")


def _pages(ledger: "Ledger", room: str, session: str, after: int) -> "Iterator[MessageView]":
    while True:
        page = ledger.messages(room, session, after, MESSAGES_DEFAULT)
        yield from page.messages
        if not page.has_more:
            return
        after = page.latest_version


def _tell_message(message: "MessageView") -> None:
    said = [f"#{message.id}", f"v{message.version}", message.role, message.kind, message.status or ""]
    if message.rewound:
        said.append("(rewound)")
    turn = f"turn {message.turn_id}" if message.turn_id and not on_narrow_terminal() else ""
    say(
        shown(GAP.join(filter(None, (" ".join(filter(None, said)), when(message.occurred_at_unix_ms), turn))))
    )
    for line in _body(message.payload):
        say(f"    {line}".rstrip())
    say()


def _body(payload: Mapping[str, Any]) -> Iterable[str]:
    """What a message says, as lines."""
    if name := payload.get("toolName"):
        yield short(f"{name} {_compact(payload.get('input'))}", 160)
    if (text := payload.get("text")) is not None:
        yield from _lines(text)
    for key in ("output", "error"):
        if key in payload:
            yield f"{key}:"
            lines = _lines(_result(payload[key]))
            yield from (f"  {line}" for line in lines[:RESULT_LINES_MAX])
            if len(lines) > RESULT_LINES_MAX:
                yield f"  … {counted(len(lines) - RESULT_LINES_MAX, 'more line')}"
    if attached := payload.get("attachments"):
        yield f"attached: {counted(len(attached), 'thing')}"


def _result(value: Any) -> Any:
    return value.get("text", value) if isinstance(value, Mapping) else value


def _lines(value: Any) -> list[str]:
    text = value if isinstance(value, str) else _compact(value)
    return [shown(line, lines=True) for line in text.split("\n")]


def _compact(value: Any) -> str:
    from domain import jsontext

    return "" if value is None else jsontext.to_text(value)
