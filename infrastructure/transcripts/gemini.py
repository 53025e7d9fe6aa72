"""Reads one Gemini CLI session file into neutral facts.

`~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl` grows by lines: messages, which are written again
under their id when they change, `$set` for the session's own fields and `$rewindTo` for going back. Older
files are one JSON document, `.json`, written anew each time. Either becomes the same list of messages.

A message stays where it first stood and counts as it was told last. What was taken back stays in the
history. Going back to a message that nobody knows takes nothing back.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final

from application.transcript import Json, MessageStatus, Place, Transcript
from infrastructure.transcripts.account import Account
from infrastructure.transcripts.conversation import Conversation
from infrastructure.transcripts.drafts import NO_USAGE, Draft, Usage
from infrastructure.transcripts.fields import as_count, as_object, as_text, bounded
from infrastructure.transcripts.format import Format, settings_in
from infrastructure.transcripts.ids import UUID_PATTERN, derived_id, reasoning_id, usable_id
from infrastructure.transcripts.lines import Damage, Record, Torn, read_document, read_lines
from infrastructure.transcripts.times import time_ms

PROVIDER: Final = "gemini"
HOME_VARIABLE: Final = "GEMINI_CLI_HOME"
"""Where the folder `.gemini` is, when it is not the user's home."""
KNOWN_TYPES: Final = frozenset({"error", "gemini", "info", "user", "warning"})
CANCELED_NOTES: Final = frozenset({"Request cancelled.", "User cancelled the request."})
"""What the client notes when the user stopped the agent; compared with the whole text."""
REFUSAL: Final = "[Operation Cancelled] Reason: User did not allow tool call"

_STATUSES: Final[Mapping[str, MessageStatus]] = {
    "success": "completed",
    "error": "failed",
    "cancelled": "canceled",
}
"""Every other status is one of a call that is still open."""
_INJECTED_STARTS = ("<session_context>", "This is the Gemini CLI. We are setting up the context")


def read_gemini(source: BinaryIO | bytes, path: str = "", beside: bytes = b"") -> Transcript:
    """All that the session file at `path` tells; `beside` is the folder that the project's marker names.

    The path is never opened: it names the session where no record does, and a sub-agent's parent.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    account, log = Account(), _Log()
    torn, read_to = False, 0
    lines = read_document(stream) if path.endswith(".json") else read_lines(stream)
    for line in lines:
        match line:
            case Record():
                account.record(line)
                log.take(line)
            case Damage():
                log.lost += [(lost.place, "damaged", "", lost.raw) for lost in account.damage(line)]
            case Torn():
                torn, read_to = True, line.place.offset
    for place in log.unknown_rewinds:
        account.remark("unknown_rewind", "goes back to a message that is not in the file", place)
    return _told(log, account, path, beside, torn=torn, read_to=read_to if torn else stream.tell())


@dataclass(slots=True)
class _Told:
    """A message as it was told last, where it stood first."""

    message_id: str
    fields: Mapping[str, Json]
    place: Place
    size: int
    tellings: int = 1
    rewound: bool = False
    carrier: str = ""
    """Which part of it carries its usage: the first that it ever had."""

    @property
    def at_ms(self) -> int:
        return time_ms(self.fields.get("timestamp"))

    @property
    def uuid(self) -> str:
        return self.message_id

    @property
    def type(self) -> str:
        return as_text(self.fields.get("type"))

    @property
    def text(self) -> str:
        return _text(self.fields.get("content"))


@dataclass(slots=True)
class _Log:
    """The messages and the session's own fields, as the lines of a file change them."""

    about: dict[str, Json] = field(default_factory=dict)
    messages: dict[str, _Told] = field(default_factory=dict)
    unknown_rewinds: list[Place] = field(default_factory=list)
    lost: list[tuple[Place, str, str, bytes]] = field(default_factory=list)
    """Records without a meaning here and pieces of damage: place, reason, type, bytes."""
    nameless: int = 0

    def take(self, record: Record) -> None:
        fields = as_object(record.value)
        if "$rewindTo" in fields:
            self._rewind(as_text(fields["$rewindTo"]), record.place)
        elif isinstance(fields.get("id"), str) and "type" in fields:
            self._message(fields, record, len(record.raw))
        elif "$set" in fields:
            self._set(as_object(fields["$set"]), record, replaces=True)
        elif "sessionId" in fields:
            self._set(fields, record, replaces=False)
        else:
            kind = as_text(fields.get("type")) or ("no object" if not fields else "no type")
            self.lost.append((record.place, "unknown", kind, record.raw))

    def _rewind(self, message_id: str, place: Place) -> None:
        if message_id not in self.messages:
            self.unknown_rewinds.append(place)
            return
        ids = list(self.messages)
        for later in ids[ids.index(message_id) :]:
            self.messages[later].rewound = True

    def _set(self, fields: Mapping[str, Json], record: Record, *, replaces: bool) -> None:
        """A checkpoint's messages are the conversation from then on; the others were taken back."""
        self.about.update({name: value for name, value in fields.items() if name != "messages"})
        messages = fields.get("messages")
        if not isinstance(messages, list):
            return
        told = [message for message in messages if isinstance(message, dict)]
        named = {as_text(message.get("id")) for message in told}
        if replaces:
            for known in self.messages.values():
                known.rewound |= known.message_id not in named
        for message in told:
            self._message(message, record, len(record.raw) // len(told))

    def _message(self, fields: Mapping[str, Json], record: Record, size: int) -> None:
        kind = as_text(fields.get("type"))
        if kind not in KNOWN_TYPES:
            self.lost.append((record.place, "unknown", kind or "no type", record.raw))
            return
        message_id = usable_id(as_text(fields.get("id")))
        if not message_id:
            self.nameless += 1
            message_id = derived_id(as_text(self.about.get("sessionId")), "message", self.nameless)
        known = self.messages.get(message_id)
        if known is None:
            known = self.messages[message_id] = _Told(message_id, fields, record.place, size)
        elif fields != known.fields:
            known.fields = {**known.fields, **fields}
            known.tellings += 1
            known.size = max(known.size, size)
        known.carrier = known.carrier or _first_part(known.fields)


def _first_part(fields: Mapping[str, Json]) -> str:
    if any(_thoughts(fields)):
        return "reasoning"
    if _text(fields.get("content")):
        return "text"
    return "call" if fields.get("toolCalls") else ""


def _told(log: _Log, account: Account, path: str, beside: bytes, *, torn: bool, read_to: int) -> Transcript:
    source = PurePosixPath(path.replace("\\", "/"))
    session_id = usable_id(as_text(log.about.get("sessionId"))) or usable_id(source.name.split(".")[0])
    talk = Conversation(session_id or derived_id("nameless file", account.records))
    telling = _Telling(talk)
    for place, reason, kind, raw in log.lost:
        talk.keep(place, "unknown" if reason == "unknown" else "damaged", kind, raw)
    messages = list(log.messages.values())
    last_ms = time_ms(log.about.get("lastUpdated"))
    for message, later in zip_longest(messages, messages[1:]):
        telling.take(message, later.at_ms if later else last_ms)
    talk.saw(time_ms(log.about.get("startTime")))
    talk.saw(last_ms)
    talk.title = as_text(log.about.get("summary"))
    talk.cwd = _folder(log.about, beside)
    parent = source.parent.name if UUID_PATTERN.fullmatch(source.parent.name) else ""
    is_child = log.about.get("kind") == "subagent" and parent != talk.session_id
    session = talk.session(
        PROVIDER,
        provider_session_id=talk.session_id,
        parent_session_id=parent if is_child else "",
        root_session_id=parent if is_child else "",
    )
    return Transcript(
        sessions=(session,) if session else (),
        records=account.records,
        read_to=read_to,
        torn=torn,
        damaged=account.damaged,
        unknown=dict(talk.unknown),
        warnings=account.warnings,
    )


def _folder(about: Mapping[str, Json], beside: bytes) -> str:
    directories = about.get("directories")
    first = as_text(directories[0]) if isinstance(directories, list) and directories else ""
    return first or beside.decode(errors="surrogateescape").strip()


class _Telling:
    """Tells the messages of a file, in their order, to its conversation."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk

    def take(self, message: _Told, later_ms: int) -> None:
        self._talk.saw(message.at_ms)
        match message.type:
            case "user":
                self._user(message)
            case "gemini":
                self._answer(message, later_ms)
            case "error":
                self._talk.failure(message, message.message_id, "error", message.text)
            case "info" | "warning":
                if message.text in CANCELED_NOTES:
                    self._talk.turns.end(message, "interrupted")
                self._talk.note(message, message.message_id, message.type, message.text)

    def _user(self, message: _Told) -> None:
        """A prompt's record names both its turn and its message."""
        if message.text.startswith(_INJECTED_STARTS):
            self._talk.note(message, message.message_id, "client", message.text)
            return
        self._talk.turns.start(message.message_id, message)
        draft = self._talk.text(message, message.message_id, message.message_id, "user", message.text)
        self._rewind(message, draft)
        parts = message.fields.get("content")
        attached = [part for part in parts if not _is_text(part)] if isinstance(parts, list) else []
        if attached:
            draft.payload["attachments"] = bounded(attached, message.size)

    def _answer(self, message: _Told, later_ms: int) -> None:
        """What the model thought, wrote and called; a text may change until the next message stands."""
        self._talk.model = as_text(message.fields.get("model")) or self._talk.model
        turn_id = self._talk.turns.join(message)
        drafts: dict[str, Draft] = {}
        thought = "\n\n".join(filter(None, _thoughts(message.fields)))
        if thought:
            name = reasoning_id(message.message_id)
            drafts["reasoning"] = self._talk.text(message, name, turn_id, "assistant", thought, "reasoning")
        if message.text:
            drafts["text"] = self._talk.text(message, message.message_id, turn_id, "assistant", message.text)
        for draft in drafts.values():
            draft.completed_at_ms = max(message.at_ms, later_ms) + message.tellings - 1
        self._talk.turns.saw(message, "text" if message.text else "other")
        for number, call in enumerate(_objects(message.fields.get("toolCalls"))):
            draft = self._call(message, call, number, turn_id)
            drafts.setdefault("call", draft)
        for draft in drafts.values():
            self._rewind(message, draft)
        usage = usage_of(as_object(message.fields.get("tokens")))
        if usage != NO_USAGE and drafts:
            carrier = drafts.get(message.carrier) or next(iter(drafts.values()))
            carrier.usage = carrier.usage.at_greatest(usage)

    def _call(self, message: _Told, fields: Mapping[str, Json], number: int, turn_id: str) -> Draft:
        """A call and, once there is one, its result."""
        moment = _Moment(time_ms(fields.get("timestamp")) or message.at_ms, message.place)
        call_id = usable_id(as_text(fields.get("id"))) or f"{message.message_id}:call-{number + 1}"
        call = self._talk.call(moment, call_id, turn_id, as_text(fields.get("name")), fields.get("args"))
        status = _STATUSES.get(as_text(fields.get("status")))
        if status:
            text, shown = _result_text(fields.get("result")), as_text(fields.get("resultDisplay"))
            details = (
                {"details": bounded({"display": shown}, message.size)} if shown not in ("", text) else {}
            )
            refusal = text if status == "canceled" and text.startswith(REFUSAL) else ""
            self._talk.finish(moment, call, status, {"text": text} | details, refusal)
        self._talk.heed(moment, call)
        self._rewind(message, call)
        return call

    def _rewind(self, message: _Told, draft: Draft) -> None:
        draft.rewound |= message.rewound


@dataclass(frozen=True, slots=True)
class _Moment:
    """A part of a message that has a time of its own."""

    at_ms: int
    place: Place
    uuid: str = ""


def usage_of(tokens: Mapping[str, Json]) -> Usage:
    """Tokens as Gemini counts them: input with what came from the cache; thoughts and tools apart."""
    read = as_count(tokens.get("input"))
    cached = min(as_count(tokens.get("cached")), read)
    return Usage(
        input=read - cached + as_count(tokens.get("tool")),
        cached_input=cached,
        output=as_count(tokens.get("output")) + as_count(tokens.get("thoughts")),
    )


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = (part if isinstance(part, str) else as_text(as_object(part).get("text")) for part in content)
    return "".join(texts)


def _is_text(part: Json) -> bool:
    return isinstance(part, str) or isinstance(as_object(part).get("text"), str)


def _thoughts(fields: Mapping[str, Json]) -> Iterator[str]:
    for thought in _objects(fields.get("thoughts")):
        subject, description = as_text(thought.get("subject")), as_text(thought.get("description"))
        yield ": ".join(filter(None, (subject, description)))


def _objects(value: Json) -> list[Mapping[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _result_text(result: Json) -> str:
    """What the model saw of a result."""
    texts = []
    for part in result if isinstance(result, list) else [result]:
        response = as_object(as_object(as_object(part).get("functionResponse")).get("response"))
        said = response.get("output", response.get("error"))
        texts.append(said if isinstance(said, str) else _text(part))
    return "\n\n".join(filter(None, texts))


def _folders(environment: Mapping[str, str], home: Path) -> list[Path]:
    return [_own_folder(environment, home) / "tmp"]


def _own_folder(environment: Mapping[str, str], home: Path) -> Path:
    return Path(environment.get(HOME_VARIABLE) or home).expanduser() / ".gemini"


def _is_named(path: PurePath) -> bool:
    """Whether a file is named as sessions are: other JSON lies about in the same folders."""
    return path.name.startswith("session-") and path.suffix in {".json", ".jsonl"}


def _claims(path: PurePath, first: Mapping[str, Json]) -> bool:
    return path.suffix == ".json" or {"sessionId", "projectHash"} <= first.keys()


def _beside(path: Path) -> Path:
    """The project's marker, in the folder above `chats`, names the folder that the agent worked in."""
    return next(
        (up.parent / ".project_root" for up in path.parents if up.name == "chats"), path / ".project_root"
    )


def _import_name(path: str) -> str:
    """A session continued in the newer form has a file of either form, which are imports of their own."""
    source = PurePosixPath(path.replace("\\", "/"))
    parent = source.parent.name if UUID_PATTERN.fullmatch(source.parent.name) else ""
    return "/".join(filter(None, (parent, source.name.removesuffix(".jsonl"))))


def _deletes(environment: Mapping[str, str], home: Path) -> str:
    path = _own_folder(environment, home) / "settings.json"
    general = as_object(settings_in(path).get("general"))
    retention = as_object(general.get("sessionRetention"))
    if retention.get("enabled") is not True:
        return ""
    limits = {"maxAge": "older than {}", "maxCount": "beyond the latest {}"}
    told = [text.format(retention[name]) for name, text in limits.items() if retention.get(name)]
    which = f" {' and '.join(told)}" if told else ""
    return f"deletes sessions{which} (general.sessionRetention in {path})"


FORMAT: Final = Format(
    kind=PROVIDER,
    title="Gemini CLI",
    folders=_folders,
    is_named=_is_named,
    claims=_claims,
    read=read_gemini,
    import_name=_import_name,
    beside=_beside,
    deletes=_deletes,
)
