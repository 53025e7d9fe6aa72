"""Random histories of one room: few names and few times, so that everything meets everything."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st

from application.ledger import Ledger
from application.views import Reply

ROOM: Final = "room"
SESSIONS: Final = ("root", "left", "right", "leaf")
"""A root, two children of it, and a child of the first child."""
T0: Final = 1_772_355_600_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
STEPS_MIN: Final = 4
STEPS_MAX: Final = 16

LONG: Final = "Once upon a time, said 😀, there was é\u2028and \0 and \ud800 and more and more of it."
"""Snapshots are beginnings of it, deltas are pieces."""
HOSTILE: Final = ("a", "Ää", " ", "\0", "\u2028", "\ud83d", "\ude00", "x\ud800y", '"\\', "😀")


@dataclass(frozen=True)
class Step:
    """One command, and by how much the clock moves before it; plain data, so that it can be written down."""

    verb: str
    session: str
    said: Any = None
    command_id: str = ""
    moves_ms: int = 0

    def take(self, ledger: Ledger, room: str = ROOM) -> tuple[Reply, ...]:
        said, session, id_ = self.said, self.session, self.command_id
        match self.verb:
            case "state":
                return (ledger.report_state(said, room=room, session=session, command_id=id_),)
            case "messages":
                return (ledger.report_messages(said, room=room, session=session, command_id=id_),)
            case "answer":
                return (ledger.answer(room, session, *said, command_id=id_),)
            case "cancel":
                return (ledger.request_cancel(room, session, said, command_id=id_),)
            case "title":
                return (ledger.set_title(room, session, said, command_id=id_),)
            case "settings":
                return (ledger.set_settings(room, session, said, command_id=id_),)
            case "pin":
                return (ledger.set_pin(room, session, pinned=said, command_id=id_),)
            case "delete":
                return (ledger.delete(room, session, command_id=id_),)
            case "restore":
                return (ledger.restore(room, session, command_id=id_),)
            case "purge":
                return (ledger.purge(room, session, command_id=id_),)
            case "settle":
                return ledger.settle(room)
            case _:
                raise AssertionError(self.verb)

    @property
    def updates(self) -> list[Mapping[str, Any]]:
        """The message updates that it reports."""
        if self.verb == "messages":
            return list(self.said["updates"])
        return list(self.said["state"].get("messages", ())) if self.verb == "state" else []


# Words.

turn_ids = st.sampled_from(("t1", "t1", "t1", "t2", "t2", "t3"))
message_ids = st.sampled_from(("m1", "m2", "m2", "m2", "m3", "m3", "m4"))
request_ids = st.sampled_from(("q1", "q2"))
stamps = st.sampled_from(
    (0, 0, T0, T0 - HOUR_MS, T0 + 1, T0 + 1_000, T0 + MINUTE_MS, T0 + HOUR_MS, T0 + 2 * HOUR_MS)
)
"""Unknown, past, present, and an hour or more ahead."""
ENDS: Final = (2, 5, 24, len(LONG))
beginnings = st.sampled_from(tuple(LONG[:end] for end in ENDS))
texts = st.one_of(st.sampled_from(HOSTILE), beginnings)
counts = st.integers(0, 3)
CHANCE = st.integers(0, 7)
json_objects: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    (
        {},
        {"a": 1},
        {"a": 1.0, "b": None},
        {"a": True, "~/": {"b": "\0"}},
        {"a": {"b": [{"x": "😀"}, []], "c": 1.5}},
        {"a": {"c": "", "d": {}}, "b": 2**64 - 1},
        {"\ud800": "\ude00", "a": "Once"},
        {"a": "Once upon", "output": {"text": "\u2028"}},
    )
)


Fields = Mapping[str, st.SearchStrategy[Any]]
Body = dict[str, Any]


@cache
def _names(fields: tuple[str, ...], at_most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(fields), max_size=at_most, unique=True)


def some(draw: st.DrawFn, fields: Fields, at_most: int = 3) -> Body:
    """A few of the fields."""
    return {name: draw(fields[name]) for name in draw(_names(tuple(fields), at_most))}


# Parts of reports. Each is about one turn, mostly.

PHASES = st.sampled_from(
    (
        *("submitted", "submitted", "running", "running", "waiting", "settling", "settled", "settled"),
        *("working", "STREAMING", "in_progress", "active", "waiting_approval", "completed", "failure"),
        *("cancelled", "", "dreaming"),
    )
)
OUTCOMES = st.sampled_from(("completed", "success", "failed", "errored", "Cancelled", "interrupted", ""))
COMMAND = st.just({"kind": "compact", "status": "done"})
TURN_FIELDS: Final[Fields] = {
    "outcome": OUTCOMES,
    "settling": st.booleans(),
    "origin": st.sampled_from(("user_prompt", "goal_arm", "")),
    "startedAtUnixMs": stamps,
    "completedAtUnixMs": stamps,
    "capabilityRefs": st.sampled_from(
        ([{"capability": "web"}], [{"capability": "web", "source": "mcp"}, {"capability": "web"}])
    ),
    "fileChanges": json_objects,
    "error": st.sampled_from(({"message": "no \ud800", "code": "E1"}, {"code": "E2"})),
    "completedCommand": COMMAND,
    "finalAssistantMessageId": message_ids,
    "sourceGoalRevision": counts,
}


@st.composite
def turn_parts(draw: st.DrawFn, turn: str) -> Body:
    return {"turnId": turn, "phase": draw(PHASES), **some(draw, TURN_FIELDS)}


PROVIDER_PHASES = st.sampled_from(
    ("running", "completed", "completed", "completed", "failed", "", "working", "dreaming")
)
PROVIDER_TURNS = st.sampled_from(("p1", "p1", "p2", ""))
PROVIDER_FIELDS: Final[Fields] = {
    "outcome": OUTCOMES,
    "providerTurnBindingJson": json_objects,
    "errorMessage": texts,
    "errorCode": st.just("E2"),
    "completedCommand": COMMAND,
}


@st.composite
def provider_parts(draw: st.DrawFn, turn: str) -> Body:
    ids = {"rootTurnId": turn, "providerTurnId": draw(PROVIDER_TURNS)}
    return {**ids, "phase": draw(PROVIDER_PHASES), **some(draw, PROVIDER_FIELDS, 2)}


INTERACTION_KINDS = st.sampled_from(("approval", "approval", "approval", "question", "exit-plan"))
INTERACTION_STATUSES = st.sampled_from(("pending", "pending", "", "answered", "superseded"))
INTERACTION_FIELDS: Final[Fields] = {
    "toolName": st.sampled_from(("shell", "edit")),
    "input": json_objects,
    "output": json_objects,
    "metadata": json_objects,
}


@st.composite
def interaction_parts(draw: st.DrawFn, turn: str) -> Body:
    ids = {"requestId": draw(request_ids), "turnId": turn}
    words = {"kind": draw(INTERACTION_KINDS), "status": draw(INTERACTION_STATUSES)}
    return {**ids, **words, **some(draw, INTERACTION_FIELDS, 2)}


WHAT: Final = {
    "m1": ("user", "text"),
    "m2": ("assistant", "text"),
    "m3": ("assistant", "tool_call"),
    "m4": ("assistant", "reasoning"),
}
"""What a message mostly is."""
ROLES = st.sampled_from(("user", "assistant", ""))
KINDS = st.sampled_from(("text", "tool_call", "reasoning", "collaboration", "session_audit", ""))
MESSAGE_FIELDS: Final[Fields] = {
    "status": st.sampled_from(("", "streaming", "completed", "completed", "failed", "cancelled", "errored")),
    "semantics": json_objects,
    "usage": st.sampled_from(({"input": 1, "output": 2}, {"cached_input": 3, "output": 1}, {"total": 5})),
    "occurredAtUnixMs": stamps,
    "startedAtUnixMs": stamps,
    "completedAtUnixMs": stamps,
}
WAYS = st.sampled_from(("text", "text", "tool", "object", "piece", "piece", "piece", "delta", ""))
BEGINS = st.sampled_from((2, 2, 0, 5, 24))
LENGTHS = st.sampled_from((3, 1, 19, 30))
DELTAS = st.sampled_from((*HOSTILE, "nce", "Once"))
OFFSETS = st.sampled_from((None, None, 0, 1, 2, 5))
SUBMITTED = st.sampled_from(({}, {}, {"clientSubmitId": "c"}))


def said_by_message(draw: st.DrawFn) -> Body:
    """A snapshot, a piece of the long text at its true place, some delta, or nothing."""
    match draw(WAYS):
        case "text":
            return {"payload": {"text": draw(texts), **draw(SUBMITTED)}}
        case "tool":
            return {"payload": {"output": {"stdout": draw(texts), "stderr": ""}, "error": draw(texts)}}
        case "object":
            return {"payload": draw(json_objects)}
        case "piece":
            begin, length = draw(BEGINS), draw(LENGTHS)
            return {"contentDelta": LONG[begin : begin + length], "contentOffset": begin}
        case "delta":
            return {"contentDelta": draw(DELTAS), "contentOffset": draw(OFFSETS)}
        case _:
            return {}


@st.composite
def updates(draw: st.DrawFn, turn: str) -> Body:
    message = draw(message_ids)
    role, kind = WHAT[message]
    if draw(CHANCE) == 7:
        role, kind = draw(ROLES), draw(KINDS)
    ids = {"messageId": message, "turnId": turn, "role": role, "kind": kind}
    return {**ids, **said_by_message(draw), **some(draw, MESSAGE_FIELDS)}


# Reports.

_CHILD = {"kind": "child", "rootAgentSessionId": "root"}


def _relations(parent: str) -> st.SearchStrategy[Body]:
    child = {**_CHILD, "parentAgentSessionId": parent}
    to_t1 = {**child, "rootTurnId": "t1"}
    odd = ({**child, "rootTurnId": "t2"}, {"rootTurnId": "t2"}, {"kind": "root"})
    return st.sampled_from(({}, to_t1, to_t1, {**to_t1, "parentTurnId": "t1"}, child, *odd))


RELATIONS: Final[Mapping[str, st.SearchStrategy[Body]]] = {
    "root": st.sampled_from(({}, {}, {}, {"kind": "root"}, {**_CHILD, "parentAgentSessionId": "root"})),
    "left": _relations("root"),
    "right": _relations("root"),
    "leaf": _relations("left"),
}
DETAILS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "title": texts,
    "model": st.sampled_from(("opus", "haiku")),
    "cwd": texts,
    "provider": st.just("claude-code"),
    "providerSessionId": st.sampled_from(("s-1", "left")),
    "settings": json_objects,
    "capabilities": st.lists(st.sampled_from(("web", "shell")), max_size=2),
    "runtimeContext": json_objects,
    "lifecycleStatus": st.sampled_from(("running", "completed", "failed", "")),
    "currentPhase": st.sampled_from(("working", "idle", "waiting_input", "")),
    "lastError": texts,
    "startedAtUnixMs": stamps,
    "endedAtUnixMs": stamps,
}
patches = st.fixed_dictionaries(
    {"set": json_objects, "unset": st.lists(st.sampled_from(("a", "b", "c")), max_size=2)}
)


AMOUNT = st.sampled_from((1, 1, 2))
PARTS = st.sampled_from(("", "", "turns", "provider", "provider", "interactions", "messages", "all"))
MESSAGE_TURNS = st.sampled_from(("t1", "t1", "t1", "", "t2"))


@st.composite
def states(draw: st.DrawFn, session: str) -> Body:
    """A state report, most parts of which are about one turn."""
    focus = draw(turn_ids)
    state = {**draw(RELATIONS[session]), **some(draw, DETAILS, 2), "occurredAtUnixMs": draw(stamps)}
    if "runtimeContext" not in state and draw(CHANCE) == 7:
        state["runtimeContextPatch"] = draw(patches)
    if draw(CHANCE):
        state["turn"] = draw(TURN_PARTS[focus])
    parts = draw(PARTS)
    if parts in ("turns", "all"):
        state["turns"] = [draw(TURN_PARTS[draw(turn_ids)]) for _ in range(draw(AMOUNT))]
    if parts in ("provider", "all"):
        state["rootProviderTurn"] = draw(PROVIDER_PARTS[focus])
    if parts in ("interactions", "all"):
        state["interactions"] = [draw(INTERACTION_PARTS[focus]) for _ in range(draw(AMOUNT))]
    if parts in ("messages", "all"):
        state["messages"] = [draw(UPDATES[focus]) for _ in range(draw(AMOUNT))]
    return {"state": state}


@st.composite
def message_reports(draw: st.DrawFn) -> Body:
    return {"updates": [draw(UPDATES[draw(MESSAGE_TURNS)]) for _ in range(draw(AMOUNT))]}


TURNS: Final = ("t1", "t2", "t3")
TURN_PARTS = {turn: turn_parts(turn) for turn in TURNS}
PROVIDER_PARTS = {turn: provider_parts(turn) for turn in TURNS}
INTERACTION_PARTS = {turn: interaction_parts(turn) for turn in TURNS}
UPDATES = {turn: updates(turn) for turn in ("", *TURNS)}
STATES = {session: states(session) for session in SESSIONS}
MESSAGE_REPORTS = message_reports()
answers = st.tuples(turn_ids, request_ids, st.sampled_from(({"ok": True}, {"ok": False}, {})))

VERBS = st.sampled_from(
    (
        *("state",) * 24,
        *("messages",) * 12,
        *("answer", "restore") * 4,
        *("delete", "cancel", "settle", "pin") * 2,
        *("title", "settings", "purge"),
    )
)
COMMAND_IDS = st.sampled_from(("", "", "", "c1", "c2"))
MOVES_MS = st.sampled_from((0, 1, 1_000, MINUTE_MS, -5_000))


sessions = st.sampled_from(("root", "root", "root", "left", "left", *SESSIONS))


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Any command on any session."""
    verb = draw(VERBS)
    if verb == "settle":
        return Step(verb, "", moves_ms=draw(MOVES_MS))
    session = draw(sessions)
    said = _said(draw, verb, session)
    return Step(verb, session, said, draw(COMMAND_IDS), draw(MOVES_MS))


def _said(draw: st.DrawFn, verb: str, session: str) -> Any:
    match verb:
        case "state":
            return draw(STATES[session])
        case "messages":
            return draw(MESSAGE_REPORTS)
        case "answer":
            return draw(answers)
        case "cancel":
            return draw(turn_ids)
        case "title":
            return draw(texts)
        case "settings":
            return draw(json_objects)
        case "pin":
            return draw(st.booleans())
        case _:
            return None


def _opening(session: str, *messages: dict[str, Any], **state: Any) -> Step:
    turn = {"turnId": "t1", "phase": "running", "capabilityRefs": [{"capability": "shell"}]}
    times = {"startedAtUnixMs": T0, "endedAtUnixMs": T0}
    return Step("state", session, {"state": {**state, **times, "turn": turn, "messages": list(messages)}})


def _message(message: str, **more: Any) -> dict[str, Any]:
    role, kind = WHAT[message]
    told = {"occurredAtUnixMs": T0, "usage": {"input": 2, "output": 1}}
    return {"messageId": message, "turnId": "t1", "role": role, "kind": kind, **told, **more}


TREE: Final = (
    _opening(
        "root",
        _message("m1", payload={"text": "Once", "clientSubmitId": "c"}),
        _message("m2", payload={"text": "On"}),
        _message("m3", payload={"input": {"cmd": "ls"}}),
        kind="root",
        turns=[{"turnId": "t2", "phase": "submitted"}],
        interactions=[{"requestId": "q1", "turnId": "t1", "kind": "approval"}],
    ),
    _opening("left", **_CHILD, parentAgentSessionId="root", rootTurnId="t1"),
)
"""A root at work, with messages, a question, a turn that waits its turn and a child at work."""
_SETTLED = Step("state", "root", {"state": {"turn": {"turnId": "t1", "phase": "settled"}}})
_ENDED = Step(
    "messages", "root", {"updates": [{"messageId": one, "status": "completed"} for one in ("m1", "m2", "m3")]}
)
_COMPLETED = {"rootTurnId": "t1", "providerTurnId": "p1", "phase": "completed"}
OPENINGS = st.sampled_from(
    (
        (),
        TREE,
        (*TREE, Step("settle", "", moves_ms=1)),
        (*TREE, Step("settle", "", moves_ms=1), _SETTLED),
        (*TREE, _ENDED),
        (*TREE, Step("delete", "root")),
        (*TREE, Step("state", "root", {"state": {"rootProviderTurn": _COMPLETED}})),
        (
            Step("state", "root", {"state": {"lifecycleStatus": "completed"}}),
            *(Step("pin", "root", pinned) for pinned in (True, False, True)),
        ),
    )
)
"""Nothing; a tree at work, left over, all settled, its messages ended, deleted, or with its root waiting.

The last is a session that has ended, pinned.
"""


@st.composite
def histories(draw: st.DrawFn, steps_max: int = STEPS_MAX) -> list[Step]:
    """Steps in any order, some of them again later; most histories begin with a tree."""
    told = [*draw(OPENINGS), *draw(st.lists(steps(), min_size=STEPS_MIN, max_size=steps_max))]
    again = draw(st.lists(st.integers(0, len(told) - 1), max_size=3))
    return [*told, *(told[index] for index in again)]
