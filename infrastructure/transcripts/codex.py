"""Reads one Codex rollout into neutral facts.

`$CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl` holds a session, and so does a file in
`archived_sessions`. The modules beside this one say what a record is (`codex_records`) and which records
are copies of another session (`codex_copies`).

Texts stand twice, as what the model was told (response_item) and as what the user was shown (event_msg),
without a common id and in either order. Each is counted at its first telling (`Echoes`). What stands under
the user's name without having been shown was put in by the client: it waits until that is certain.
"""

import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO, Final, Literal

from application.transcript import Json, Transcript
from infrastructure.transcripts.account import Account
from infrastructure.transcripts.codex_copies import Copies
from infrastructure.transcripts.codex_records import (
    CALLS,
    QUIET_EVENTS,
    QUIET_ITEMS,
    QUIET_RECORDS,
    RESULTS,
    Item,
    arguments_of,
    attachments_of,
    is_codex,
    is_injected,
    joined,
    result_of,
    texts_of,
    tool_name_of,
    usage_of,
)
from infrastructure.transcripts.conversation import Conversation, add_usage
from infrastructure.transcripts.drafts import NO_USAGE, Draft, Usage
from infrastructure.transcripts.fields import as_count, as_object, as_text, bounded
from infrastructure.transcripts.format import Format
from infrastructure.transcripts.ids import UUID_PATTERN, derived_id, usable_id
from infrastructure.transcripts.lines import Damage, Record, Torn, read_lines

PROVIDER: Final = "codex"
HOME_VARIABLE: Final = "CODEX_HOME"
"""Codex's folder, when it is not `~/.codex`."""
HEADER_RECORDS_MAX: Final = 20
"""So far into a file its session_meta is looked for; it is the first record but in damaged files."""

Side = Literal["shown", "told"]


def read_codex(source: BinaryIO | bytes, path: str = "") -> Transcript:
    """All that the rollout at `path` tells.

    The path is never opened: it names the session where no record does.
    """
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    reading = _Reading(_session_id(stream, path))
    for line in read_lines(stream):
        match line:
            case Record():
                reading.record(line)
            case Damage():
                reading.damage(line)
            case Torn():
                return reading.transcript(read_to=line.place.offset, torn=True)
    return reading.transcript(read_to=stream.tell(), torn=False)


def _session_id(stream: BinaryIO, path: str) -> str:
    first = b""
    for number, line in enumerate(read_lines(stream)):
        if not isinstance(line, Record):
            continue
        first = first or line.raw
        item = Item.of(line)
        own = usable_id(as_text(item.payload.get("id")) or as_text(item.payload.get("session_id")))
        if item.kind == "session_meta" and own:
            return own
        if number >= HEADER_RECORDS_MAX:
            break
    return usable_id(named_session(path)) or derived_id("nameless file", first.decode("latin-1"))


def named_session(path: str) -> str:
    """The session that a file is named for: its uuid, else the name as a whole."""
    stem = PurePosixPath(path.replace("\\", "/")).name.removesuffix(".jsonl")
    ids = UUID_PATTERN.findall(stem)
    return ids[-1] if ids else stem


class Echoes:
    """Tells the second telling of a text within a turn from a new text."""

    def __init__(self) -> None:
        self._expected: Counter[tuple[Side, str, str]] = Counter()

    def is_echo(self, side: Side, what: str, text: str) -> bool:
        """Whether the other side has told this before, and this side not yet."""
        key = (side, what, _squeezed(text))
        found = self._expected[key] > 0
        self._expected[key] -= found
        return found

    def expect(self, side: Side, what: str, text: str) -> None:
        """A text was told by `side`; the other one may tell it as well."""
        other: Side = "told" if side == "shown" else "shown"
        self._expected[other, what, _squeezed(text)] += 1

    def forget(self) -> None:
        """A new turn begins: what is told in it is new."""
        self._expected.clear()


def _squeezed(text: str) -> str:
    """Both sides spell a text alike, but for blanks."""
    return "".join(text.split())


class _Reading:
    """One rollout while it is read."""

    def __init__(self, session_id: str) -> None:
        self._account = Account()
        self._talk = Conversation(session_id)
        self._copies = Copies()
        self._echoes = Echoes()
        self._about: dict[str, str] = {}
        self._announced = False
        """Whether the open turn was begun by a record of its own: prompts join it then."""
        self._events_seen = self._prompts_shown = False
        self._unshown: list[Item] = []
        """User texts that only the model was told, so far."""
        self._totals: Mapping[str, Json] = {}
        self._fresh: Draft | None = None
        """What the model wrote first since tokens were last counted."""
        self._latest: Draft | None = None
        self._failed_calls: set[str] = set()
        self._turn_ids: list[str] = []

    def record(self, record: Record) -> None:
        self._account.record(record)
        if not isinstance(record.value, dict):
            self._talk.keep(record.place, "unknown", "no object", record.raw)
            return
        item = Item.of(record)
        if self._copies.is_copy(item):
            if item.type == "token_count":
                self._usage_of(item)
            return
        self._talk.saw(item.at_ms)
        self._take(item)

    def damage(self, damage: Damage) -> None:
        for lost in self._account.damage(damage):
            self._talk.keep(lost.place, "damaged", "", lost.raw)

    def transcript(self, read_to: int, torn: bool) -> Transcript:
        missing = [draft.place for draft in self._talk.calls_missing()]
        self._account.tally(
            "unknown_tool_call", "with the result of a tool call that is not in the file", missing
        )
        if self._copies.count:
            self._account.remark(
                "copied_records",
                f"records owned by {self._copies.source}, in whose file they are read: {self._copies.count}",
            )
        self._about["forked_from_session_id"] = usable_id(self._copies.source) if self._copies.source else ""
        session = self._talk.session(PROVIDER, provider_session_id=self._talk.session_id, **self._about)
        return Transcript(
            sessions=(session,) if session else (),
            records=self._account.records,
            read_to=read_to,
            torn=torn,
            damaged=self._account.damaged,
            duplicates=self._copies.count,
            unknown=dict(self._talk.unknown),
            warnings=self._account.warnings,
        )

    def _take(self, item: Item) -> None:
        match item.kind:
            case "session_meta":
                self._meta(item.payload)
            case "turn_context":
                self._talk.model = as_text(item.payload.get("model")) or self._talk.model
                self._talk.cwd = self._talk.cwd or as_text(item.payload.get("cwd"))
            case "response_item":
                self._response(item)
            case "event_msg":
                self._event(item)
            case "compacted":
                text = as_text(item.payload.get("message"))
                self._talk.note(item, self._talk.derived("compacted"), "compacted", text)
            case quiet if quiet in QUIET_RECORDS:
                pass
            case _:
                self._unknown(item)

    def _unknown(self, item: Item) -> None:
        self._talk.keep(item.place, "unknown", item.name, item.raw)

    def _meta(self, payload: Mapping[str, Json]) -> None:
        """The first session_meta is the file's own; a fork's second one is its source's."""
        if self._about:
            return
        self._talk.cwd = as_text(payload.get("cwd"))
        spawn = as_object(as_object(as_object(payload.get("source")).get("subagent")).get("thread_spawn"))
        parent = as_text(spawn.get("parent_thread_id")) or as_text(payload.get("parent_thread_id"))
        root = as_text(payload.get("session_id"))
        self._about = {"parent_session_id": usable_id(parent)}
        if parent:
            self._about["root_session_id"] = usable_id(
                root if root not in ("", payload.get("id")) else parent
            )
            self._talk.title = as_text(spawn.get("agent_nickname")) or as_text(spawn.get("agent_role"))

    # What the model was told, and what it answered.

    def _response(self, item: Item) -> None:
        match item.type:
            case "message":
                self._message(item)
            case "reasoning":
                self._thoughts(item)
            case "agent_message":
                text = joined(texts_of(item.payload))
                self._talk.note(item, self._talk.derived("agent_message"), "agent_message", text)
            case call if call in CALLS:
                self._call(item)
            case result if result in RESULTS:
                self._result(item)
            case quiet if quiet in QUIET_ITEMS:
                pass
            case _:
                self._unknown(item)

    def _message(self, item: Item) -> None:
        role = as_text(item.payload.get("role"))
        texts = texts_of(item.payload)
        if role == "assistant":
            self._answers(item, "told", texts)
        elif role == "user":
            self._user(item, joined(texts))
        else:
            self._talk.note(item, self._talk.derived("note"), role or "client", joined(texts))

    def _user(self, item: Item, text: str) -> None:
        if is_injected(text):
            self._injected(item)
        elif self._echoes.is_echo("told", "user", text):
            pass
        elif self._events_seen:
            self._unshown.append(item)
        else:
            self._prompt(item, text)
            self._echoes.expect("told", "user", text)

    def _injected(self, item: Item) -> None:
        text = joined(texts_of(item.payload))
        self._talk.note(item, self._talk.derived("note"), "client", text)

    def _prompt(self, item: Item, text: str, attached: list[Json] | None = None) -> Draft:
        if self._talk.turns.open is None or not self._announced:
            self._start(item, self._talk.derived("turn"))
            self._announced = False
        turn_id = self._talk.turns.join(item)
        draft = self._talk.text(item, self._talk.numbered(turn_id, "user"), turn_id, "user", text)
        attached = attachments_of(item.payload) if attached is None else attached
        if attached:
            draft.payload["attachments"] = bounded(attached, item.place.length)
        self._talk.turns.saw(item, "other")
        return draft

    def _start(self, item: Item, turn_id: str) -> None:
        self._talk.turns.start(turn_id, item)
        self._turn_ids.append(turn_id)
        self._echoes.forget()

    def _settle_unshown(self) -> None:
        """The agent went on: a text it did not show was no prompt, if it shows prompts at all."""
        waiting, self._unshown = self._unshown, []
        for item in waiting:
            if self._prompts_shown:
                self._injected(item)
            else:
                self._prompt(item, joined(texts_of(item.payload)))

    def _answers(self, item: Item, side: Side, texts: list[str]) -> None:
        self._settle_unshown()
        for text in texts:
            if not self._echoes.is_echo(side, "assistant", text):
                turn_id = self._talk.turns.join(item)
                message_id = self._talk.numbered(turn_id, "assistant")
                self._wrote(self._talk.text(item, message_id, turn_id, "assistant", text))
                self._echoes.expect(side, "assistant", text)
        self._talk.turns.saw(item, "text")

    def _thoughts(self, item: Item) -> None:
        texts = texts_of(item.payload, "summary") or texts_of(item.payload)
        if texts:
            self._reasoning(item, "told", texts)
            return
        self._settle_unshown()
        self._thought(item, "").payload["encrypted"] = True

    def _reasoning(self, item: Item, side: Side, texts: list[str]) -> None:
        self._settle_unshown()
        for text in texts:
            if not self._echoes.is_echo(side, "reasoning", text):
                self._thought(item, text)
                self._echoes.expect(side, "reasoning", text)
        self._talk.turns.saw(item, "other")

    def _thought(self, item: Item, text: str) -> Draft:
        turn_id = self._talk.turns.join(item)
        message_id = self._talk.numbered(turn_id, "reasoning")
        draft = self._talk.text(item, message_id, turn_id, "assistant", text, "reasoning")
        self._wrote(draft)
        self._talk.turns.saw(item, "other")
        return draft

    def _wrote(self, draft: Draft) -> None:
        self._fresh = self._fresh or draft
        self._latest = draft

    def _call(self, item: Item) -> None:
        self._settle_unshown()
        call_id = _call_id(item) or self._talk.derived("call")
        turn_id = self._talk.turns.join(item)
        call = self._talk.call(item, call_id, turn_id, tool_name_of(item), arguments_of(item.payload))
        self._wrote(call)
        if item.type == "web_search_call":
            failed = item.payload.get("status") == "failed"
            self._talk.finish(item, call, "failed" if failed else "completed", {})
        elif item.type == "image_generation_call":
            self._talk.finish(item, call, "completed", {"text": as_text(item.payload.get("revised_prompt"))})
        self._talk.heed(item, call)

    def _result(self, item: Item) -> None:
        call_id = (
            _call_id(item) or self._talk.open_call_named(tool_name_of(item)) or self._talk.derived("call")
        )
        call = self._talk.call_draft(item, call_id, self._talk.turns.join(item))
        result = result_of(item.payload, known_to_fail=call_id in self._failed_calls)
        self._talk.finish(item, call, result.status, {"text": result.text}, result.refusal)
        self._talk.heed(item, call)

    # What the user was shown.

    def _event(self, item: Item) -> None:
        payload = item.payload
        self._events_seen = self._events_seen or item.type != "error"
        match item.type:
            case "user_message":
                self._shown_prompt(item, as_text(payload.get("message")), _images(payload))
            case "agent_message":
                self._answers(item, "shown", texts_of(payload, "message"))
            case "agent_reasoning" | "agent_reasoning_raw_content":
                self._reasoning(item, "shown", texts_of(payload, "text"))
            case "item_completed":
                self._completed_item(item, as_object(payload.get("item")))
            case "task_started" | "turn_started":
                self._task_started(item)
            case "task_complete" | "turn_complete" | "turn.completed":
                self._task_complete(item)
            case "turn_aborted":
                self._settle_unshown()
                self._talk.turns.end(item, "interrupted")
            case "token_count":
                self._count(item, self._usage_of(item))
            case "error":
                self._error(item)
            case "thread_rolled_back":
                self._rolled_back(as_count(payload.get("num_turns")))
            case "thread_name_updated":
                name = as_text(payload.get("thread_name")) or as_text(payload.get("name"))
                self._talk.title = name or self._talk.title
            case "exec_command_end" | "mcp_tool_call_end" | "patch_apply_end":
                self._tool_end(item)
            case kind if kind in QUIET_EVENTS or kind.startswith("collab_"):
                pass
            case _:
                self._unknown(item)

    def _shown_prompt(self, item: Item, text: str, attached: list[Json]) -> None:
        """A prompt as the user typed it; the model was told it already, or is told it next."""
        if is_injected(text) or item.payload.get("kind") in {"user_instructions", "environment_context"}:
            return
        self._prompts_shown = True
        for waiting in self._unshown:
            if _squeezed(joined(texts_of(waiting.payload))) == _squeezed(text):
                self._unshown.remove(waiting)
                self._settle_unshown()
                self._prompt(waiting, text)
                return
        self._settle_unshown()
        if self._echoes.is_echo("shown", "user", text):
            return
        self._prompt(item, text, attached)
        self._echoes.expect("shown", "user", text)

    def _completed_item(self, item: Item, done: Mapping[str, Json]) -> None:
        """Newer histories show texts as items."""
        match done.get("type"):
            case "UserMessage":
                self._shown_prompt(item, joined(texts_of(done)), [])
            case "AgentMessage":
                self._answers(item, "shown", texts_of(done))
            case "Reasoning":
                self._reasoning(item, "shown", texts_of(done, "summary_text"))
            case _:
                pass

    def _task_started(self, item: Item) -> None:
        self._settle_unshown()
        turn_id = usable_id(as_text(item.payload.get("turn_id"))) or self._talk.derived("turn")
        if self._talk.turns.latest_id != turn_id:
            self._start(item, turn_id)
        self._announced = True

    def _task_complete(self, item: Item) -> None:
        last = texts_of(item.payload, "last_agent_message") or texts_of(item.payload, "message")
        self._settle_unshown()
        turn = self._talk.turns.open
        if last and (turn is None or not self._talk.has_text(turn.turn_id)):
            self._start_anew_if_ended(item)
            self._answers(item, "shown", last)
        self._talk.turns.end(item, "completed")
        self._announced = False

    def _start_anew_if_ended(self, item: Item) -> None:
        if self._talk.turns.open is None:
            self._start(item, self._talk.derived("turn"))

    def _error(self, item: Item) -> None:
        error = as_object(item.payload.get("error"))
        text = next(
            (
                as_text(source[name])
                for source in (item.payload, error)
                for name in ("message", "text")
                if name in source
            ),
            "",
        )
        info = item.payload.get("codex_error_info")
        code = as_text(error.get("kind")) or as_text(info) or next(iter(as_object(info)), "") or "error"
        self._settle_unshown()
        self._talk.failure(item, self._talk.derived("error"), code, text)

    def _tool_end(self, item: Item) -> None:
        """How a tool ended; what the model saw of it comes in a record of its own."""
        payload = item.payload
        code, result = payload.get("exit_code"), as_object(payload.get("result"))
        if payload.get("success") is False or "Err" in result or (isinstance(code, int) and code != 0):
            self._failed_calls.add(_call_id(item))

    def _rolled_back(self, turns: int) -> None:
        """The user took the last turns back; they stay in history."""
        standing = [turn_id for turn_id in self._turn_ids if turn_id not in self._talk.rewound]
        self._talk.rewound.update(standing[len(standing) - min(turns, len(standing)) :])

    # Tokens.

    def _usage_of(self, item: Item) -> Usage:
        """What the last answer cost; nothing when the totals are those told before."""
        info = as_object(item.payload.get("info"))
        totals, last = as_object(info.get("total_token_usage")), as_object(info.get("last_token_usage"))
        before = self._totals
        if totals:
            if totals == before:
                return NO_USAGE
            self._totals = totals
        if last:
            return usage_of(last)
        if totals:
            pairs = zip(usage_of(totals), usage_of(before), strict=True)
            return Usage(*(max(now - then, 0) for now, then in pairs))
        return usage_of(info)

    def _count(self, item: Item, usage: Usage) -> None:
        """Tokens stand on what the model wrote first for them, else on the latest, else on a note."""
        carrier = self._fresh or self._latest
        self._fresh = None
        if usage == NO_USAGE:
            return
        if carrier is None:
            carrier = self._talk.note(item, self._talk.derived("tokens"), "token_count", "")
            self._latest = carrier
        add_usage(carrier, usage)


def _call_id(item: Item) -> str:
    for name in ("call_id", "tool_call_id", "id"):
        if found := usable_id(as_text(item.payload.get(name))):
            return found
    return ""


def _images(payload: Mapping[str, Json]) -> list[Json]:
    found: list[Json] = []
    for name in ("images", "local_images"):
        images = payload.get(name)
        found += [{"type": name, "image": image} for image in images] if isinstance(images, list) else []
    return found


def _folders(environment: Mapping[str, str], home: Path) -> list[Path]:
    own = Path(environment.get(HOME_VARIABLE) or home / ".codex").expanduser()
    return [own / "sessions", own / "archived_sessions"]


def _is_named(path: PurePath) -> bool:
    return path.suffix == ".jsonl"


def _claims(_: PurePath, first: Mapping[str, Json]) -> bool:
    return is_codex(first)


FORMAT: Final = Format(
    kind=PROVIDER,
    title="Codex",
    folders=_folders,
    is_named=_is_named,
    claims=_claims,
    read=lambda stream, path, _: read_codex(stream, path),
    import_name=lambda path: PurePosixPath(path.replace("\\", "/")).name.removesuffix(".jsonl"),
    beside=lambda _: None,
    deletes=lambda *_: "",
)
