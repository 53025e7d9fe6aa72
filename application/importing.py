"""Takes what a transcript tells into the record, so that only news makes events (SPEC section 14)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from application.ledger import Ledger
from application.ports import CommandKey, Loader
from application.transcript import (
    Entry,
    Interaction,
    KeptRecord,
    Message,
    Remark,
    Session,
    Transcript,
    TurnEnd,
    TurnStart,
)
from domain import jsontext, session_rules, tree_rules, turn_rules
from domain.ids import MessageId, RequestId, RoomId, SessionId, TurnId, named_id
from domain.interaction_rules import report_interaction
from domain.message import Message as KnownMessage
from domain.message import MessageAdded, counts_as_text, text_at
from domain.message_rules import report_message
from domain.reports import (
    UPDATE_BYTES_MAX,
    InteractionReport,
    MessageUpdate,
    SessionState,
    StateReport,
    TurnReport,
    is_name,
    is_surely_small,
)
from domain.session import DetailsReported, Imported, Opened, RecordKept
from domain.tool_payload import MARKER
from domain.turn import TurnStarted
from domain.work import Draft, Source, Work

CHUNK_ENTRIES_MAX: Final = 500
"""Entries of a session that are taken in with one commit (SPEC C8)."""
DEFAULT_ROOM: Final = "local"
"""The room of a transcript that records no folder."""
ORIGIN: Final = "WORKSPACE_AGENT_SESSION_ORIGIN_IMPORT"
TEXT_CHARACTERS_MAX: Final = 2**18
"""What is left of a text in a message that would be too large to keep."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The news that an import brought, and what it met on the way."""

    sessions: int = 0
    messages: int = 0
    """User and assistant texts."""
    turns: int = 0
    events: int = 0
    damaged: int = 0
    unknown: int = 0
    duplicates: int = 0
    warnings: tuple[Remark, ...] = ()

    def __add__(self, other: "ImportResult") -> "ImportResult":
        return ImportResult(
            self.sessions + other.sessions,
            self.messages + other.messages,
            self.turns + other.turns,
            self.events + other.events,
            self.damaged + other.damaged,
            self.unknown + other.unknown,
            self.duplicates + other.duplicates,
            self.warnings + other.warnings,
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """One import of one file."""

    transcript: Transcript
    import_id: str
    digest: str
    variant: str = ""
    live: bool = False

    def source(self, told: Session, offset: int = 0) -> Source:
        return Source(told.provider, self.import_id, self.digest, offset)

    def is_older(self, draft: Draft) -> bool:
        """Whether more of the file was read before: then this copy of it takes nothing back (SPEC J2)."""
        return self.transcript.read_to < draft.state.imports.get(self.import_id, 0)


def import_transcript(
    ledger: Ledger,
    transcript: Transcript,
    *,
    import_id: str,
    digest: str,
    room: str = "",
    dry_run: bool = False,
    variant: str = "",
    live: bool = False,
) -> ImportResult:
    """Take in one transcript; the same one again brings no news, a longer one the difference.

    `import_id` names the file across its versions, `digest` this version. Each session is taken in with
    one commit per CHUNK_ENTRIES_MAX entries, parents first; a run that was killed goes on when it is
    run again. With `dry_run` nothing is stored and the result is the same. `variant` names what was made
    of the same bytes, when it is not always the same. `live`: the file is being written, and a turn that is
    open at its end goes on (SPEC J3).
    """
    run = _Run(transcript, import_id, digest, variant + ":live" * live, live)
    result = ImportResult(
        damaged=transcript.damaged,
        unknown=sum(transcript.unknown.values()),
        duplicates=transcript.duplicates,
        warnings=transcript.warnings,
    )
    for told in transcript.sessions:
        where = RoomId(room or _room_of(ledger, told))
        result += _preview(ledger, run, told, where) if dry_run else _take_in(ledger, run, told, where)
    return result


def _room_of(ledger: Ledger, told: Session) -> str:
    """Where the session, or the root of it, is already; else the folder it worked in (SPEC J1)."""
    for session in (told.session_id, told.root_session_id):
        rooms = ledger.store.rooms_of(SessionId(session)) if session else []
        if len(rooms) == 1:
            return rooms[0]
    folder = told.cwd.strip()
    if not folder:
        return DEFAULT_ROOM
    return folder if is_name(folder) else named_id("folder", folder)


def _chunks(told: Session) -> list[tuple[Entry, ...]]:
    starts = range(0, max(len(told.entries), 1), CHUNK_ENTRIES_MAX)
    return [told.entries[start : start + CHUNK_ENTRIES_MAX] for start in starts]


def _take_in(ledger: Ledger, run: _Run, told: Session, room: RoomId) -> ImportResult:
    chunks = _chunks(told)
    result = ImportResult()
    had_news = False
    for index, chunk in enumerate(chunks):
        steps = _steps(run, told, chunk, is_first=index == 0)
        if index == len(chunks) - 1:
            steps.append(partial(_conclude, run, told, had_news=had_news))
        id_ = f"{run.import_id}:{run.digest}{run.variant}:{_told_beside(told)}:{index}"
        key = CommandKey("import", room, SessionId(told.session_id), id_)
        committed = ledger.run(room, _decide(run, told, steps), key, run.digest)
        news = ImportResult(**committed.answer["news"])
        had_news = had_news or news.events > 0  # A run that was killed may have had it before this one.
        if committed.events:
            result += news
        if committed.answer["refused"]:
            break
    return result


def _told_beside(told: Session) -> str:
    """Names what is told of a session beside its entries: a file next to the transcript may tell more."""
    beside = [getattr(told, one.name) for one in fields(told) if one.name != "entries"]
    return jsontext.digest(beside)


def _preview(ledger: Ledger, run: _Run, told: Session, room: RoomId) -> ImportResult:
    steps = _steps(run, told, told.entries, is_first=True)
    steps.append(partial(_conclude, run, told, had_news=False))
    committed = ledger.rehearse(room, _decide(run, told, steps))
    return ImportResult(**committed.answer["news"])


Step = Callable[[Draft], bool | None]
"""Takes something in; False: the session takes no report, so nothing of its transcript either."""


def _steps(run: _Run, told: Session, entries: tuple[Entry, ...], *, is_first: bool) -> list[Step]:
    steps: list[Step] = [partial(_begin, run, told)] if is_first else []
    return [*steps, *(partial(_take, run, told, entry) for entry in entries)]


def _decide(run: _Run, told: Session, steps: list[Step]) -> Callable[[Work, Loader], Mapping[str, Any]]:
    def decide(work: Work, _: Loader) -> Mapping[str, Any]:
        draft = work.session(SessionId(told.session_id))
        refused = draft.state.is_deleted or any(step(draft) is False for step in steps)
        if not refused:
            work.source = run.source(told)
            tree_rules.finish(work)
        return {"news": _news(work), "refused": refused}

    return decide


def _news(work: Work) -> dict[str, int]:
    events = [decided.event for decided in work.decided]
    return {
        "sessions": sum(isinstance(event, Opened) for event in events),
        "turns": sum(isinstance(event, TurnStarted) for event in events),
        "messages": sum(
            isinstance(event, MessageAdded) and counts_as_text(event.role, event.kind) for event in events
        ),
        "events": len(events),
    }


def _begin(run: _Run, told: Session, draft: Draft) -> bool:
    """Report the session itself, unless its root was deleted (SPEC S8); False: it was.

    An older copy of the file fills only what is blank.
    """
    draft.work.source = run.source(told)
    state = SessionState(
        kind="child" if told.is_child else "root",
        root_agent_session_id=told.root_session_id or told.parent_session_id,
        root_turn_id=told.root_turn_id,
        parent_agent_session_id=told.parent_session_id,
        parent_turn_id=told.parent_turn_id,
        parent_tool_call_id=told.parent_tool_call_id,
        provider=told.provider,
        provider_session_id=told.provider_session_id,
        model=_word(told.model),
        cwd=told.cwd,
        title=told.title,
        started_at_unix_ms=told.started_at_ms,
        occurred_at_unix_ms=1 if run.is_older(draft) else told.last_at_ms,
    )
    report = StateReport(
        room_id=draft.work.room,
        agent_session_id=told.session_id,
        session_origin="" if draft.state.opened else ORIGIN,
        state=state,
    )
    if not session_rules.report_state(draft, report).accepted:
        return False
    if told.forked_from_session_id and not draft.state.forked_from_session:
        draft.add(DetailsReported(forked_from_session=told.forked_from_session_id))
    return True


def _word(text: str) -> str:
    """The text where a word is wanted; blank when it is none, since a file is never refused for one."""
    word = text.strip()
    return word if is_name(word) else ""


def _take(run: _Run, told: Session, entry: Entry, draft: Draft) -> None:
    """Take in one entry; what is known already makes no event."""
    draft.work.source = run.source(told, entry.place.offset)
    match entry:
        case TurnStart():
            _start_turn(draft, entry)
        case TurnEnd():
            if entry.provisional and run.live:
                _go_on(draft, entry)
            elif not (entry.provisional and run.is_older(draft)):
                _end_turn(draft, entry)
        case Message():
            _message(draft, entry)
        case Interaction():
            _interaction(draft, entry)
        case KeptRecord():
            _keep(run, draft, entry)


def _start_turn(draft: Draft, start: TurnStart) -> None:
    """Start a turn that is not known; one that is known stays as it is until its end is read."""
    turn_id = TurnId(start.turn_id)
    if draft.turn(turn_id) is None:
        turn_rules.start(draft, turn_id, "running", start.origin, start.at_ms, start.at_ms)


def _go_on(draft: Draft, end: TurnEnd) -> None:
    """Take a guessed end back: the turn's file is being written."""
    known = draft.turn(TurnId(end.turn_id))
    if known and known.is_settled and not known.is_final:
        turn_rules.report_turn(draft, TurnReport(turn_id=end.turn_id, phase="running"), end.at_ms)


def _end_turn(draft: Draft, end: TurnEnd) -> None:
    settled_at = end.at_ms
    known = draft.turn(TurnId(end.turn_id))
    if not settled_at and known and known.is_settled and not known.is_final:
        # Nobody knows when; the guess stands until something has come that it should know of.
        if end.provisional and known.outcome == end.outcome and not draft.work.decided:
            return
        settled_at = known.settled_at + 1
    report = TurnReport(
        turn_id=end.turn_id,
        phase="settled",
        outcome=end.outcome,
        completed_at_unix_ms=settled_at,
        error_message=end.error_message,
        error_code=_word(end.error_code),
    )
    how = ("end_of_file" if end.provisional else "reported", end.provisional)
    turn_rules.report_turn(draft, report, settled_at, how)  # type: ignore[arg-type]
    if end.outcome == "completed":
        _reopen_tools(draft, TurnId(end.turn_id))


def _reopen_tools(draft: Draft, turn_id: TurnId) -> None:
    """Take back what an earlier guess closed: a turn that was completed leaves open calls as they are."""
    for message in draft.open_tools(turn_id):
        if message.provisional:
            report_message(draft, MessageUpdate(message_id=message.message_id, status="running"))


def _message(draft: Draft, told: Message) -> None:
    """Report a message as the whole file tells it; a text that went on is appended to (SPEC M5, M7)."""
    known = draft.message(MessageId(told.message_id))
    update = MessageUpdate(
        message_id=told.message_id,
        turn_id=told.turn_id or "",
        role=told.role,
        kind=told.kind,
        status="" if known and told.status == "running" else told.status,
        payload=_fitted(told.payload),
        usage=dict(told.usage) if told.usage else None,
        occurred_at_unix_ms=max(told.at_ms, told.completed_at_ms),
        started_at_unix_ms=told.at_ms,
        completed_at_unix_ms=told.completed_at_ms,
    )
    rewound = True if told.rewound else None
    if known and known.is_terminal and (added := _grown(draft, known, update)):
        appended = {"content_delta": added, "content_offset": known.text_length, "payload": None}
        update = update.model_copy(update=appended)
    report_message(draft, update, rewound=rewound)


def _grown(draft: Draft, known: KnownMessage, update: MessageUpdate) -> str:
    """What a text has gained since it was read before; blank when it did not go on."""
    text = (update.payload or {}).get("text")
    if not isinstance(text, str) or len(text) <= known.text_length:
        return ""
    stored = text_at(draft.payload(known.message_id), "/text")
    return text[len(stored) :] if text.startswith(stored) else ""


def _fitted(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload, its texts cut with a mark where it would be too large to keep (SPEC W3)."""
    whole = dict(payload)
    if is_surely_small(whole):
        return whole
    limit = TEXT_CHARACTERS_MAX
    while len(jsontext.to_bytes(whole)) > UPDATE_BYTES_MAX and limit:
        whole = _cut(whole, limit)
        limit //= 8
    return whole


def _cut(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + MARKER
    if isinstance(value, Mapping):
        return {key: _cut(item, limit) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, limit) for item in value]
    return value


def _interaction(draft: Draft, told: Interaction) -> None:
    """Report a question; one that is known and still open in the file is no news."""
    known = draft.interaction(TurnId(told.turn_id), RequestId(told.request_id))
    if known and told.output is None:
        return
    report = InteractionReport(
        request_id=told.request_id,
        turn_id=told.turn_id,
        kind=told.kind,
        status="pending" if told.output is None else "answered",
        tool_name=_word(told.tool_name),
        input=dict(told.input) or None,
        output=None if told.output is None else dict(told.output),
    )
    report_interaction(draft, report, told.at_ms)


def _keep(run: _Run, draft: Draft, record: KeptRecord) -> None:
    """Keep bytes that mean nothing here, once; any bytes are text with surrogates for what is no UTF-8."""
    place = record.place
    if place.offset + place.length <= draft.state.kept.get(run.import_id, 0):
        return
    draft.add(
        RecordKept(
            import_id=run.import_id,
            offset=place.offset,
            length=place.length,
            reason=record.reason,
            type=record.type,
            content={"raw": record.raw.decode("utf-8", "surrogateescape")},
        )
    )


def _conclude(run: _Run, told: Session, draft: Draft, *, had_news: bool) -> None:
    """Say how far the file was read, if that was news."""
    draft.work.source = run.source(told)
    if not (had_news or draft.work.decided or run.import_id not in draft.state.imports):
        return
    transcript = run.transcript
    draft.add(
        Imported(
            import_id=run.import_id,
            digest=run.digest,
            read_from=draft.state.imports.get(run.import_id, 0),
            read_to=max(transcript.read_to, draft.state.imports.get(run.import_id, 0)),
            records=transcript.records,
            damaged=transcript.damaged,
            unknown=sum(transcript.unknown.values()),
            duplicates=transcript.duplicates,
        )
    )
