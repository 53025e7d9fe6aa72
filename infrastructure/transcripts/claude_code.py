"""Reads one Claude Code transcript file into neutral facts.

`~/.claude/projects/<folder>/<session>.jsonl` holds a session, `<session>/subagents/agent-<id>.jsonl` a
sub-agent of it. Each file is read by itself, and a sub-agent's own file names its parent, so the order of
reading files does not matter. The modules beside this one decide what a record is
(`claude_records`), where turns end (`turns`), which rows are one message (`claude_messages`) and
which ids are derived (`ids`, `claude_ids`); this one decides which session a record belongs to.
"""

import io
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from application.transcript import Json, Place, Transcript
from infrastructure.transcripts.account import Account
from infrastructure.transcripts.claude_conversation import PROVIDER, Conversation, Link
from infrastructure.transcripts.claude_copies import Copies
from infrastructure.transcripts.claude_ids import SourcePath, child_session_id
from infrastructure.transcripts.claude_records import Kind, Row, kind_of
from infrastructure.transcripts.claude_rewinds import rewound_turns
from infrastructure.transcripts.claude_sidechains import Sidechains
from infrastructure.transcripts.fields import as_object, as_text
from infrastructure.transcripts.format import Format, settings_in
from infrastructure.transcripts.ids import derived_id, usable_id
from infrastructure.transcripts.lines import Damage, Record, Torn, read_lines

FOLDER_VARIABLE: Final = "CLAUDE_CONFIG_DIR"
"""Claude Code's folder, when it is not `~/.claude`."""
CLEANUP_DAYS: Final = 30
"""After so many days Claude Code deletes transcripts, unless it is told otherwise."""
CLEANUP_DAYS_FAR: Final = 3_650
META_TOOL_CALL_KEYS = ("toolUseId", "toolUseID", "parentToolUseID")
"""Where a sub-agent's meta file may name the call that started it."""
NO_OBJECT = "no object"
"""The type of a line that holds another JSON value than an object."""


def read_claude_code(source: BinaryIO | bytes, path: str = "", meta: bytes = b"") -> Transcript:
    """All that the file at `path` tells; `meta` is the content of a sub-agent's `agent-<id>.meta.json`.

    The path is never opened: it names the session where the records do not, or not with one voice. A file
    is read as a stream that can seek; a record is let go when its messages have what they need of it.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    reading = _reading(_rows(stream), SourcePath(path), _meta_fields(meta))
    for line in read_lines(stream):
        match line:
            case Record():
                reading.record(line)
            case Damage():
                reading.damage(line)
            case Torn():
                return reading.transcript(read_to=line.place.offset, torn=True)
    return reading.transcript(read_to=stream.tell(), torn=False)


def _rows(stream: BinaryIO) -> Iterator[Row]:
    lines = (line for line in read_lines(stream) if isinstance(line, Record))
    return (Row.of(line) for line in lines if isinstance(line.value, dict))


def _meta_fields(meta: bytes) -> Mapping[str, Json]:
    first = next(read_lines(meta), None)
    return as_object(first.value) if isinstance(first, Record) else {}


def _reading(rows: Iterator[Row], path: SourcePath, meta: Mapping[str, Json]) -> "_Reading":
    """Who owns the file is known before it is read; looking for it seldom takes more than a few rows."""
    if not path.agent_id:
        own_id = own_session_id(rows, path)
        session_id = usable_id(own_id)
        return _Reading(own_id, Conversation(session_id, session_id, Link()), of_sub_agent=False)
    first = next((row for row in rows if row.session_id.strip()), None)
    own_id = first.session_id if first else path.parent_session_uuid
    agent_id = usable_id((first.agent_id if first else "") or path.agent_id)
    parent = usable_id(own_id)
    call_id = next((as_text(meta[key]) for key in META_TOOL_CALL_KEYS if as_text(meta.get(key))), "")
    link = Link(parent_session_id=parent, parent_tool_call_id=usable_id(call_id), root_session_id=parent)
    title = as_text(meta.get("description"))
    agent = Conversation(child_session_id(parent, agent_id), agent_id, link, title)
    return _Reading(own_id, agent, of_sub_agent=True)


def own_session_id(rows: Iterator[Row], path: SourcePath) -> str:
    """The session a file belongs to.

    A file is named for its session, so its name decides where any record agrees or none says anything. In a
    file renamed since then most records say it, the later of two equals: a resumed session copied but the
    prompts of another under their old id, and copied them first.
    """
    first_raw, carried = b"", Counter[str]()
    for row in rows:
        first_raw = first_raw or row.raw
        if row.session_id and row.session_id == path.session_uuid:
            return row.session_id
        if row.session_id.strip():
            carried[row.session_id] += 1
    most = max(reversed(carried), key=carried.__getitem__, default="")
    return most or path.stem.strip() or derived_id("nameless file", first_raw.decode("latin-1"))


class _Reading:
    """One file while it is read: every record is handed to the session it belongs to."""

    def __init__(self, own_id: str, main: Conversation, of_sub_agent: bool) -> None:
        self._main = main
        self._of_sub_agent = of_sub_agent
        self._sidechains = Sidechains(main)
        self._copies = Copies(own_id)
        self._titles = Titles()
        self._account = Account()
        self._digests: dict[str, int] = {}
        self._parents: dict[str, str] = {}
        self._orphans: list[tuple[str, Place]] = []
        """Parents not seen when their child was read, with the child's place."""
        self._untimed: list[Place] = []
        self._prompts: list[tuple[str, str]] = []
        """The uuids of the prompts with their parents'."""
        self._duplicates = 0

    def record(self, record: Record) -> None:
        self._account.record(record)
        if isinstance(record.value, dict):
            self._row(Row.of(record))
        else:
            self._main.unknown[NO_OBJECT] += 1
            self._main.keep(record.place, "unknown", NO_OBJECT, record.raw)

    def damage(self, damage: Damage) -> None:
        for lost in self._account.damage(damage):
            self._main.keep(lost.place, "damaged", "", lost.raw)

    def transcript(self, read_to: int, torn: bool) -> Transcript:
        conversations = [self._main, *self._sidechains.conversations]
        self._remark_once(conversations)
        self._main.title = self._titles.best(self._parents) or self._main.title
        self._main.forked_from = usable_id(self._copies.source_session_id)
        rewound = rewound_turns(self._prompts, self._parents)
        told = [conversation.session(rewound) for conversation in conversations]
        repeated = sum(conversation.messages.repeated_blocks for conversation in conversations)
        return Transcript(
            sessions=tuple(session for session in told if session),
            records=self._account.records,
            read_to=read_to,
            torn=torn,
            damaged=self._account.damaged,
            duplicates=self._duplicates + self._copies.count + repeated,
            unknown=dict(sum((conversation.unknown for conversation in conversations), Counter())),
            warnings=self._account.warnings,
        )

    def _row(self, row: Row) -> None:
        self._check_parent_and_time(row)
        if row.uuid and self._stands_already(row):
            return
        kind = kind_of(row)
        self._titles.read(row)
        if not self._of_sub_agent and self._copies.is_copy(row, kind):
            return
        in_sidechain = row.sidechain and not self._of_sub_agent
        conversation = self._sidechains.of(row, kind) if in_sidechain else self._main
        if kind is Kind.PROMPT and not in_sidechain:
            self._prompts.append((row.uuid, row.parent))
        for call in conversation.take(row, kind):
            self._sidechains.called(conversation, call)

    def _stands_already(self, row: Row) -> bool:
        """A record written twice counts once; of two different ones with one uuid the first is the record."""
        digest = hash(row.raw)
        if row.uuid not in self._digests:
            self._digests[row.uuid] = digest
            self._parents[row.uuid] = row.parent
            return False
        if self._digests[row.uuid] == digest:
            self._duplicates += 1
        else:
            self._main.keep(row.place, "conflict", row.type, row.raw)
            text = f"record {row.uuid} stands twice and differs; the first counts"
            self._account.remark("conflict", text, row.place)
        return True

    def _check_parent_and_time(self, row: Row) -> None:
        if row.parent and row.parent not in self._parents:
            self._orphans.append((row.parent, row.place))
        if not row.at_ms and row.fields.get("timestamp"):
            self._untimed.append(row.place)

    def _remark_once(self, conversations: Sequence[Conversation]) -> None:
        """What is said once a file, with a count."""
        orphans = [place for parent, place in self._orphans if parent not in self._parents]
        self._account.tally("unknown_parent", "with a parent that is not in the file", orphans)
        self._account.tally("unknown_time", "with a time that cannot be read", self._untimed)
        results = [draft.place for c in conversations for draft in c.messages.calls_missing()]
        self._account.tally(
            "unknown_tool_call", "with the result of a tool call that is not in the file", results
        )
        if self._copies.count:
            source, count = self._copies.source_session_id, self._copies.count
            self._account.remark(
                "copied_records", f"records owned by {source}, in whose file they are read: {count}"
            )


class Titles:
    """The names a session was given: by the user, by the model, or as a summary of it."""

    def __init__(self) -> None:
        self._custom = ""
        self._generated = ""
        self._summaries: list[tuple[str, str]] = []

    def read(self, row: Row) -> None:
        match row.type:
            case "custom-title":
                self._custom = as_text(row.fields.get("customTitle")) or self._custom
            case "ai-title":
                self._generated = as_text(row.fields.get("aiTitle")) or self._generated
            case "summary":
                leaf = as_text(row.fields.get("leafUuid"))
                self._summaries.append((leaf, as_text(row.fields.get("summary"))))

    def best(self, uuids: Container[str]) -> str:
        """A summary may be another session's: one whose leaf is in the file goes before the others."""
        own = [summary for leaf, summary in self._summaries if leaf in uuids]
        others = [summary for _, summary in self._summaries]
        return self._custom or self._generated or next(reversed(own or others), "")


def _own_folder(environment: Mapping[str, str], home: Path) -> Path:
    return Path(environment.get(FOLDER_VARIABLE) or home / ".claude").expanduser()


def _import_name(path: str) -> str:
    """A sub-agent's id repeats across sessions, so the session whose folder it stands in goes before it."""
    source = SourcePath(path)
    parent = source.parent_session_uuid if source.agent_id else ""
    return "/".join(filter(None, (parent, source.stem)))


def _deletes(environment: Mapping[str, str], home: Path) -> str:
    path = _own_folder(environment, home) / "settings.json"
    days = settings_in(path).get("cleanupPeriodDays", CLEANUP_DAYS)
    if not isinstance(days, int) or days >= CLEANUP_DAYS_FAR:
        return ""
    return f"deletes transcripts after {days} days (cleanupPeriodDays in {path})"


FORMAT: Final = Format(
    kind=PROVIDER,
    title="Claude Code",
    folders=lambda environment, home: [_own_folder(environment, home) / "projects"],
    is_named=lambda path: path.suffix == ".jsonl",
    claims=lambda _, first: "sessionId" in first and "projectHash" not in first,
    read=read_claude_code,
    import_name=_import_name,
    beside=lambda path: path.with_suffix(".meta.json"),
    deletes=_deletes,
)
