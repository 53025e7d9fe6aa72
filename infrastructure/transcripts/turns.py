"""Where the turns of a conversation begin and end.

A turn starts at a prompt and ends on evidence: the client's end record, the interrupt marker, or the next
prompt. The file's order is the order; a time is only copied. Without evidence the end of the file ends the
turn provisionally, judged by its last record of the conversation: hooks, progress and notes do not count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from application.transcript import Entry, Place, TurnEnd, TurnOutcome, TurnStart
from infrastructure.transcripts.drafts import Standing
from infrastructure.transcripts.ids import derived_id, usable_id

Origin = Literal["user_prompt", "provider_initiated"]


@dataclass(slots=True)
class OpenTurn:
    """What the end of a turn will be judged by."""

    turn_id: str
    at_ms: int
    place: Place
    last: Literal["text", "error", "other"] = "other"
    open_calls: set[str] = field(default_factory=set)
    error_code: str = ""
    error_message: str = ""

    def outcome(self) -> TurnOutcome:
        if self.last == "error":
            return "failed"
        return "completed" if self.last == "text" and not self.open_calls else "interrupted"


@dataclass(frozen=True, slots=True)
class Waker:
    """A record that starts a turn only if the model answers it."""

    turn_id: str
    origin: Origin


class Turns:
    """The turns of one session, told to `emit` as they start and end."""

    def __init__(self, session_id: str, emit: Callable[[Entry], None]) -> None:
        self._session_id = session_id
        self._emit = emit
        self._waker: Waker | None = None
        self.open: OpenTurn | None = None
        self.latest_id = ""
        """The open turn, else the one that ended last: late content belongs to it."""

    def start(self, turn_id: str, row: Standing, origin: Origin = "user_prompt") -> None:
        """A new turn; a turn still open has ended, as its last record says."""
        self.close()
        self._emit(TurnStart(turn_id, row.at_ms, row.place, origin))
        self.open = OpenTurn(turn_id, row.at_ms, row.place)
        self.latest_id = turn_id

    def await_answer(self, turn_id: str, origin: Origin) -> None:
        """A turn starts at the model's next row, if that comes before another prompt.

        Slash commands and news of background tasks are either answered by the model or by nobody. News
        reaches a working agent inside its turn; a command never does.
        """
        if origin == "user_prompt" or self.open is None:
            self._waker = Waker(turn_id, origin)

    def answered_locally(self) -> None:
        self._waker = None

    def answer(self, row: Standing) -> str:
        """The turn a row of the model belongs to."""
        waker, self._waker = self._waker, None
        if waker:
            self.start(waker.turn_id, row, waker.origin)
        return self.join(row)

    def join(self, row: Standing) -> str:
        """The turn a record inside a turn belongs to; before the first prompt the agent began one itself."""
        if not self.latest_id:
            turn_id = usable_id(row.uuid) or derived_id(self._session_id, "turn", "before the first prompt")
            self.start(turn_id, row, "provider_initiated")
        return self.latest_id

    def saw(self, row: Standing, what: Literal["text", "error", "other"]) -> None:
        """A record of the conversation: for now the last one of the open turn."""
        if self.open:
            self.open.last = what
            self.open.place = row.place
            self.open.at_ms = row.at_ms or self.open.at_ms

    def failed(self, row: Standing, code: str, message: str) -> None:
        self.saw(row, "error")
        if self.open:
            self.open.error_code, self.open.error_message = code, message

    def call_opened(self, call_id: str) -> None:
        if self.open:
            self.open.open_calls.add(call_id)

    def call_closed(self, call_id: str) -> None:
        if self.open:
            self.open.open_calls.discard(call_id)

    def end(self, row: Standing, outcome: TurnOutcome) -> None:
        """The file says that the open turn has ended; after an API error it has failed all the same."""
        self._waker = None
        if self.open:
            if self.open.last == "error" and outcome == "completed":
                outcome = "failed"
            self._end(self.open, outcome, row.at_ms or self.open.at_ms, row.place)

    def close(self, provisional: bool = False) -> None:
        """Nothing more comes: the open turn is judged by what it has."""
        self._waker = None
        if self.open:
            self._end(self.open, self.open.outcome(), self.open.at_ms, self.open.place, provisional)

    def _end(
        self, turn: OpenTurn, outcome: TurnOutcome, at_ms: int, place: Place, provisional: bool = False
    ) -> None:
        failed = outcome == "failed"
        end = TurnEnd(
            turn_id=turn.turn_id,
            outcome=outcome,
            at_ms=at_ms,
            place=place,
            provisional=provisional,
            error_message=turn.error_message if failed else "",
            error_code=turn.error_code if failed else "",
        )
        self._emit(end)
        self.open = None
