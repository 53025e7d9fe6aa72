"""What runtimes report, as it comes in: the wire's shapes, trimmed, bounded and filled, but not judged.

A report is checked here once; what follows trusts its types. Whether a turn exists, a word is known or a
part comes late is for the decisions. Names may be camelCase or snake_case; camelCase wins when both stand.
(SPEC section 11, S2, W3, X1, X2)
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NoReturn, TypeVar

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from domain import jsontext
from domain.errors import Malformed, Rejected
from domain.ids import ID_LENGTH_MAX
from domain.jsontext import Json

UPDATE_BYTES_MAX: Final = 4 * 2**20
"""Stored bytes of one message update (SPEC W3)."""
BOUNDED_FIELDS_BYTES_MAX: Final = 32 * 2**10
"""Stored bytes of an update's ids, words, times and counts, at the very most."""
NUMBER_MIN: Final = -(2**63)
NUMBER_MAX: Final = 2**63 - 1
"""Times, offsets and counts go into signed columns of 64 bits; numbers inside payloads need not."""
NUMBER_DIGITS_MAX: Final = 20
"""Characters of a number sent as text, its sign included."""
PROTECTED_CONTEXT: Final = frozenset(
    ("visible", "imported", "capabilities", "capabilitiesReported", "usage", "goal")
)
"""Context keys that no patch may touch (SPEC S2)."""


# Values.


class _Refusal(ValueError):
    """A value that no report may carry; its reason becomes the rejection's."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


_KINDS: Final = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    str: "text",
    list: "a list",
    dict: "an object",
}


def _unexpected(expected: str, value: object) -> str:
    """Names a value's kind and not the value, which may be private or huge."""
    return f"expected {expected}, got {_KINDS.get(type(value), type(value).__name__)}"


def _refuse(expected: str, value: object) -> NoReturn:
    raise _Refusal("invalid", _unexpected(expected, value))


def _text(value: object) -> str:
    """What somebody wrote, as given: white space, NUL and lone surrogates included."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    _refuse("text", value)


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _prose(value: object) -> str:
    """Text as given, except that white space alone is blank."""
    text = _text(value)
    return "" if text.isspace() else text


def _error_text(value: object) -> str:
    """An error's text, which some runtimes wrap into an object."""
    return _prose(value.get("message") if isinstance(value, Mapping) else value)


def _trimmed(value: object) -> str:
    return _text(value).strip()


def is_name(text: str) -> bool:
    """Whether a trimmed text can name something in every database and every address."""
    if len(text) > ID_LENGTH_MAX or "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


_NAME: Final = f"at most {ID_LENGTH_MAX} characters without NUL and lone surrogates"


def _id(value: object) -> str:
    """An identity, trimmed; blank if absent."""
    text = _trimmed(value)
    if not is_name(text):
        raise _Refusal("invalid_id", f"expected an id of {_NAME}")
    return text


def _word(value: object) -> str:
    """A word of an open vocabulary, trimmed; blank if absent."""
    text = _trimmed(value)
    if not is_name(text):
        raise _Refusal("invalid", f"expected a word of {_NAME}")
    return text


def _integer(value: object) -> int:
    """A whole number or its decimal text; null and blank text are 0."""
    if type(value) is int:
        number = value
    elif value is None or (isinstance(value, str) and not value.strip()):
        return 0
    elif isinstance(value, str):
        number = _decimal(value.strip())
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    else:
        _refuse("an integer", value)
    if not NUMBER_MIN <= number <= NUMBER_MAX:
        raise _Refusal("invalid", "expected an integer of at most 64 bits, signed")
    return number


def _decimal(text: str) -> int:
    digits = text[1:] if text[0] in "+-" else text
    if len(text) > NUMBER_DIGITS_MAX or not (digits.isascii() and digits.isdigit()):
        raise _Refusal("invalid", "expected an integer, got text that is none")
    return int(text)


def _count(value: object) -> int:
    number = _integer(value)
    if number < 0:
        raise _Refusal("invalid", "expected an integer of at least 0")
    return number


def _time(value: object) -> int:
    """Unix milliseconds; a time before 1970 is as unknown as none."""
    return max(_integer(value), 0)


def _offset(value: object) -> int | None:
    """Where a delta starts; blank means unknown, which is not the beginning."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return _count(value)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    _refuse("true or false", value)


def _json(value: Json) -> Json:
    """Any JSON that can be stored and returned equal."""
    try:
        jsontext.check(value, "value")
    except Malformed as error:
        raise _Refusal("malformed", str(error).removeprefix("value: ")) from None
    return value


def _object(value: object) -> dict[str, Json] | None:
    """A JSON object, its nesting counted from itself; None if absent."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        _refuse("an object", value)
    _json(value)
    return value if isinstance(value, dict) else dict(value)


def _object_or_empty(value: object) -> dict[str, Json]:
    return _object(value) or {}


_USAGE_NAMES: Final = (
    ("input", "input"),
    ("cached_input", "cachedInput"),
    ("cachedInput", "cachedInput"),
    ("output", "output"),
    ("total", "total"),
)
"""Accepted and kept names of token counts; of two for one count the later wins."""


def _usage(value: object) -> dict[str, int] | None:
    """The token counts of a message, under their wire names; other keys are dropped."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        _refuse("an object", value)
    return {kept: _count(value[name]) for name, kept in _USAGE_NAMES if value.get(name) is not None}


def _document(value: object) -> object:
    """A null document is the empty one."""
    return {} if value is None else value


def _items(value: object) -> object:
    """A null list is the empty one."""
    return () if value is None else value


def _capabilities(value: object) -> tuple[str, ...] | None:
    """Capabilities stand in an object under `values`; the object alone says that there are none."""
    if value is None:
        return None
    values = _items(value.get("values")) if isinstance(value, Mapping) else value
    if not isinstance(values, list | tuple):
        _refuse("a list", values)
    return tuple(_word(item) for item in values)


# pydantic's own text refuses lone surrogates, and its numbers take booleans; hence plain validators.
Text = Annotated[str, PlainValidator(_text)]
Prose = Annotated[str, PlainValidator(_prose)]
ErrorText = Annotated[str, PlainValidator(_error_text)]
Trimmed = Annotated[str, PlainValidator(_trimmed)]
Id = Annotated[str, PlainValidator(_id)]
Word = Annotated[str, PlainValidator(_word)]
Integer = Annotated[int, PlainValidator(_integer)]
Time = Annotated[int, PlainValidator(_time)]
Flag = Annotated[bool, PlainValidator(_flag)]
JsonObject = Annotated[dict[str, Any] | None, PlainValidator(_object)]


# Shapes. Every field has a default, so `model_construct` builds a trusted one from the fields that matter.
# Lists fail fast: a body of nothing but mistakes costs one mistake.


class _Shape(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
    )


class Source(_Shape):
    """Where a report comes from; fills what the report itself leaves blank."""

    provider: Word = ""
    provider_session_id: Id = ""
    session_created_at_unix_ms: Time = 0
    agent_id: Id = ""
    agent_target_id: Id = ""
    device_id: Id = ""
    cwd: Trimmed = ""
    session_origin: Word = ""


class ContextPatch(_Shape):
    """Top-level keys of the runtime context to set and to unset; unset wins."""

    set: Annotated[dict[str, Any], PlainValidator(_object_or_empty)] = Field(default_factory=dict)
    unset: Annotated[tuple[Text, ...], FailFast(), BeforeValidator(_items)] = ()

    @model_validator(mode="after")
    def _leaves_protected_keys_alone(self) -> "ContextPatch":
        if touched := PROTECTED_CONTEXT.intersection((*self.set, *self.unset)):
            raise _Refusal("protected_context", f"a patch may not touch {', '.join(sorted(touched))}")
        return self


class CapabilityRef(_Shape):
    """A capability that a turn used, and where it came from."""

    capability: Word = ""
    source: Word = ""


class CompletedCommand(_Shape):
    """The command whose end a turn reports."""

    kind: Word = ""
    status: Word = ""


class TurnReport(_Shape):
    """What a runtime says about one turn."""

    turn_id: Id = ""
    phase: Word = ""
    outcome: Word = ""
    settling: Flag = False
    origin: Word = ""
    capability_refs: Annotated[tuple[CapabilityRef, ...], FailFast(), BeforeValidator(_items)] = ()
    completed_command: CompletedCommand | None = None
    file_changes: JsonObject = None
    error_message: Prose = Field(
        default="", validation_alias=AliasChoices("errorMessage", AliasPath("error", "message"))
    )
    error_code: Word = Field(
        default="", validation_alias=AliasChoices("errorCode", AliasPath("error", "code"))
    )
    started_at_unix_ms: Time = 0
    completed_at_unix_ms: Time = 0
    final_assistant_message_id: Id = ""
    # The last four are kept as data and decide nothing.
    active_turn_id: Id = ""
    source_goal_operation_id: Id = ""
    source_goal_revision: Integer = 0
    source_goal_repair_epoch: Integer = 0


class ProviderTurnReport(_Shape):
    """What a runtime says about the provider's own turn behind a root turn."""

    root_turn_id: Id = ""
    provider_turn_id: Id = ""
    provider_turn_binding_json: Annotated[Any, PlainValidator(_json)] = None
    phase: Word = ""
    outcome: Word = ""
    completed_command: CompletedCommand | None = None
    error_message: Prose = ""
    error_code: Word = ""


class InteractionReport(_Shape):
    """What a runtime says about an approval, a question or a plan."""

    request_id: Id = ""
    turn_id: Id = ""
    kind: Word = ""
    status: Word = ""
    tool_name: Word = ""
    input: JsonObject = None
    output: JsonObject = None
    metadata: JsonObject = None


class MessageUpdate(_Shape):
    """What a runtime says about one message: a snapshot, an added piece of text, or both."""

    message_id: Id = ""
    turn_id: Id = ""
    role: Word = ""
    kind: Word = ""
    status: Word = ""
    semantics: JsonObject = None
    content_delta: Annotated[str | None, PlainValidator(_text_or_none)] = None
    content_offset: Annotated[int | None, PlainValidator(_offset)] = None
    """Code points of the joined text before the delta."""
    payload: JsonObject = None
    usage: Annotated[dict[str, int] | None, PlainValidator(_usage)] = None
    occurred_at_unix_ms: Time = 0
    started_at_unix_ms: Time = 0
    completed_at_unix_ms: Time = 0


Turns = Annotated[tuple[TurnReport, ...], FailFast(), BeforeValidator(_items)]
Interactions = Annotated[tuple[InteractionReport, ...], FailFast(), BeforeValidator(_items)]
Updates = Annotated[tuple[MessageUpdate, ...], FailFast(), BeforeValidator(_items)]


class SessionState(_Shape):
    """What a runtime says about a session and, in the same breath, about its parts."""

    kind: Word = ""
    root_agent_session_id: Id = ""
    root_turn_id: Id = ""
    parent_agent_session_id: Id = ""
    parent_turn_id: Id = ""
    parent_tool_call_id: Id = ""
    agent_target_id: Id = ""
    device_id: Id = ""
    provider: Word = ""
    provider_session_id: Id = ""
    model: Word = ""
    settings: JsonObject = None
    capabilities: Annotated[tuple[str, ...] | None, PlainValidator(_capabilities)] = None
    runtime_context: JsonObject = None
    runtime_context_patch: ContextPatch | None = None
    cwd: Trimmed = ""
    title: Prose = ""
    lifecycle_status: Word = ""
    current_phase: Word = ""
    last_error: ErrorText = ""
    occurred_at_unix_ms: Time = 0
    started_at_unix_ms: Time = 0
    ended_at_unix_ms: Time = 0
    turn: TurnReport | None = None
    root_provider_turn: ProviderTurnReport | None = None
    interaction_transition: InteractionReport | None = None
    turns: Turns = ()
    interactions: Interactions = ()
    messages: Updates = ()

    @model_validator(mode="after")
    def _replaces_or_patches_the_context(self) -> "SessionState":
        if self.runtime_context is not None and self.runtime_context_patch is not None:
            raise _Refusal("context_and_patch", "send runtimeContext or runtimeContextPatch, not both")
        return self

    @property
    def all_turns(self) -> tuple[TurnReport, ...]:
        """The turn parts in the order in which they are decided."""
        return self.turns if self.turn is None else (self.turn, *self.turns)

    @property
    def all_interactions(self) -> tuple[InteractionReport, ...]:
        """The interaction parts in the order in which they are decided."""
        transition = self.interaction_transition
        return self.interactions if transition is None else (transition, *self.interactions)


class _Envelope(_Shape):
    """What stands around every report."""

    room_id: Id = ""
    workspace_id: Id = ""
    """The room by its other name; blank once parsed."""
    agent_session_id: Id = ""
    agent_target_id: Id = ""
    device_id: Id = ""
    session_origin: Word = ""
    user_id: Word = ""
    source: Annotated[Source, BeforeValidator(_document)] = Source()

    @property
    def origin(self) -> str:
        """The session's origin; blank if the report does not say."""
        return self.session_origin or self.source.session_origin

    @property
    def created_at_unix_ms(self) -> int:
        """When the provider made the session; 0 if the report does not say."""
        return self.source.session_created_at_unix_ms


class StateReport(_Envelope):
    """One atomic report of a session and its parts."""

    state: Annotated[SessionState, BeforeValidator(_document)] = SessionState()
    # Parts may also stand beside the state; parsing moves them into it.
    turns: Turns = ()
    interactions: Interactions = ()
    messages: Updates = ()


class MessageReport(_Envelope):
    """Message updates of one session, in the order in which they apply; none is a valid report."""

    updates: Updates = ()


# From a body to a report.


def parse_state_report(
    body: Mapping[str, Json] | StateReport, room: str = "", session: str = ""
) -> StateReport:
    """Check a body, or take a report that was checked before, and fill what it leaves blank (SPEC S2).

    The address wins over the body: another room or session in the body is refused.
    """
    report = body if isinstance(body, StateReport) else _checked(StateReport, body, session)
    address = _address(report, room, session)
    state = _filled_state(report)
    _bound(state.messages)
    return report.model_copy(
        update={**address, "state": state, "turns": (), "interactions": (), "messages": ()}
    )


def parse_message_report(
    body: Mapping[str, Json] | MessageReport, room: str = "", session: str = ""
) -> MessageReport:
    """Check a body, or take a report that was checked before; the address wins over the body."""
    report = body if isinstance(body, MessageReport) else _checked(MessageReport, body, session)
    address = _address(report, room, session)
    _bound(report.updates)
    return report.model_copy(update=address)


def _filled_state(report: StateReport) -> SessionState:
    """The state with its parts, its blank fields filled from the top level, then from the source."""
    state, source = report.state, report.source
    return state.model_copy(
        update={
            "agent_target_id": state.agent_target_id or report.agent_target_id or source.agent_target_id,
            "device_id": state.device_id or report.device_id or source.device_id,
            "provider": state.provider or source.provider,
            "provider_session_id": state.provider_session_id or source.provider_session_id,
            "cwd": state.cwd or source.cwd,
            "turns": state.turns + report.turns,
            "interactions": state.interactions + report.interactions,
            "messages": state.messages + report.messages,
        }
    )


def _address(report: StateReport | MessageReport, room: str, session: str) -> dict[str, object]:
    """Whose report it is, and from which agent and device."""
    source = report.source
    return {
        "room_id": _the_one("room", room, report.room_id, report.workspace_id),
        "workspace_id": "",
        "agent_session_id": _the_one("session", session, report.agent_session_id),
        "agent_target_id": report.agent_target_id or source.agent_target_id,
        "device_id": report.device_id or source.device_id,
    }


def _the_one(what: str, given: str, *claimed: str) -> str:
    """The id that the address gives, or else the body; they may not contradict each other."""
    try:
        chosen = _id(given)
    except _Refusal as refusal:
        raise Rejected(refusal.reason, "command", "", f"{what}: {refusal}") from None
    for claim in claimed:
        if chosen and claim and claim != chosen:
            detail = f"the {what} is {chosen!r}, but the report also says {claim!r}; send one of them"
            raise Rejected("id_mismatch", "command", chosen, detail)
        chosen = chosen or claim
    if not chosen:
        raise Rejected("missing_identity", "command", "", f"no {what} is named; send its id")
    return chosen


# Size.


def update_bytes(update: MessageUpdate) -> int:
    """The bytes of an update's stored spelling."""
    return len(jsontext.to_bytes({name: value for name, value in update if value}))


def _bound(updates: tuple[MessageUpdate, ...]) -> None:
    """Refuse what is too large to store; tool calls are measured later, when their texts have been cut."""
    for update in updates:
        if update.kind != "tool_call" and not is_surely_small(
            (update.payload, update.content_delta, update.semantics)
        ):
            size = update_bytes(update)
            if size > UPDATE_BYTES_MAX:
                detail = f"the update takes {size} bytes, at most {UPDATE_BYTES_MAX} can be stored; split it"
                raise Rejected("too_large", "message", update.message_id, detail)


def is_surely_small(content: Json) -> bool:
    """Whether what an update says fits, as far as that shows without spelling it."""
    return BOUNDED_FIELDS_BYTES_MAX + _bytes_at_most(content) <= UPDATE_BYTES_MAX


def _bytes_at_most(value: Json) -> int:
    """A bound on the stored bytes that looks at no character: a text's worst is six bytes for each."""
    if isinstance(value, str):
        return 6 * len(value) + 3
    if isinstance(value, dict):
        return 3 + sum([6 * len(key) + 4 + _bytes_at_most(item) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return 3 + sum([_bytes_at_most(item) for item in value])
    return 26  # the longest number, and a comma


# From pydantic's errors to ours.

_TURN: Final = ("turn", ("turnId", "turn_id"))
_PROVIDER_TURN: Final = ("provider_turn", ("providerTurnId", "provider_turn_id"))
_INTERACTION: Final = ("interaction", ("requestId", "request_id"))
_MESSAGE: Final = ("message", ("messageId", "message_id"))
_PARTS: Final = {
    "turn": _TURN,
    "turns": _TURN,
    "rootProviderTurn": _PROVIDER_TURN,
    "root_provider_turn": _PROVIDER_TURN,
    "interactionTransition": _INTERACTION,
    "interaction_transition": _INTERACTION,
    "interactions": _INTERACTION,
    "messages": _MESSAGE,
    "updates": _MESSAGE,
}
"""Where each part of a report stands, and under which names it carries its id."""

_SESSION_NAMES: Final = ("agentSessionId", "agent_session_id")

_Report = TypeVar("_Report", StateReport, MessageReport)
_Location = tuple[int | str, ...]


def _checked(shape: type[_Report], body: Mapping[str, Json], session: str) -> _Report:
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise _rejection(error, body, session) from None


def _rejection(error: ValidationError, body: Mapping[str, Json], session: str) -> Rejected:
    """The first mistake in the domain's words: which part, which field, what was expected."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, _Refusal):
        reason, detail = cause.reason, str(cause)
    else:
        expected = "a list" if first["type"] == "tuple_type" else "an object"
        reason, detail = "invalid", _unexpected(expected, first["input"])
    part, name = _part(body, first["loc"], session)
    return Rejected(reason, part, name, f"{_path(first['loc'])}: {detail}")


def _path(location: _Location) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".") or "body"


def _part(body: Mapping[str, Json], location: _Location, session: str) -> tuple[str, str]:
    """The kind and id of the part in which a mistake stands, as far as it has a usable one."""
    in_state = location[:1] == ("state",)
    holder, steps = (body["state"], location[1:]) if in_state else (body, location)
    if steps and steps[0] in _PARTS:
        part, names = _PARTS[steps[0]]
        item = holder[steps[0]]
        for index in steps[1:2]:
            item = item[index] if isinstance(item, list | tuple) and isinstance(index, int) else item
        return part, _shown(item, names)
    if in_state:
        return "session", _shown({"id": session}, ("id",)) or _shown(body, _SESSION_NAMES)
    return "command", ""


def _shown(part: object, names: tuple[str, ...]) -> str:
    """A part's id under the first of its names, if it is fit to be shown."""
    if not isinstance(part, Mapping):
        return ""
    value = next((part[name] for name in names if name in part), "")
    text = value.strip() if isinstance(value, str) else ""
    return text if is_name(text) else ""
