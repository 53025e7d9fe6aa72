"""The words of the wire and what they fold to (SPEC S6, T1, T5, M7, I1)."""

from typing import Final, Literal

Phase = Literal["submitted", "running", "waiting", "settling", "settled"]
Outcome = Literal["completed", "failed", "canceled", "interrupted"]
EndCause = Literal["reported", "overtaken", "stale", "root", "deleted", "end_of_file", "pulled"]
Kind = Literal["root", "child"]
InteractionKind = Literal["approval", "question", "plan"]
InteractionStatus = Literal["pending", "answered", "superseded"]
DisplayStatus = Literal["working", "waiting", "idle", "completed", "failed", "canceled"]
TurnOrigin = Literal["user_prompt", "goal_arm", "goal_continuation", "provider_initiated", "legacy_unknown"]

DEFAULT_ORIGIN: Final = "WORKSPACE_AGENT_SESSION_ORIGIN_RUNTIME"
"""Where a session comes from when its report does not say."""

TURN_ORIGINS: Final[frozenset[str]] = frozenset(
    ("user_prompt", "goal_arm", "goal_continuation", "provider_initiated", "legacy_unknown")
)

RANK: Final[dict[str, int]] = {"submitted": 0, "running": 1, "waiting": 1, "settling": 2, "settled": 3}
"""Phases never go to a lower rank; running and waiting alternate."""

_PHASES: Final[dict[str, Phase]] = {
    "submitted": "submitted",
    "running": "running",
    "working": "running",
    "streaming": "running",
    "in_progress": "running",
    "active": "running",
    "waiting": "waiting",
    "waiting_approval": "waiting",
    "awaiting_approval": "waiting",
    "waiting_input": "waiting",
    "settling": "settling",
    "settled": "settled",
}

_OUTCOMES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "complete": "completed",
    "success": "completed",
    "succeeded": "completed",
    "failed": "failed",
    "failure": "failed",
    "error": "failed",
    "errored": "failed",
    "canceled": "canceled",
    "cancelled": "canceled",
    "interrupted": "interrupted",
}

_INTERACTION_KINDS: Final[dict[str, InteractionKind]] = {
    "approval": "approval",
    "question": "question",
    "ask-user": "question",
    "ask_user": "question",
    "plan": "plan",
    "exit-plan": "plan",
    "exit_plan": "plan",
}

TURNLESS_KINDS: Final = frozenset(("session_audit", "collaboration"))
"""Message kinds that belong to the session and to no turn (SPEC M4)."""

MESSAGE_TERMINAL: Final = frozenset(("completed", "failed", "canceled", "errored"))


def phase_of(word: str) -> tuple[Phase, Outcome | None] | None:
    """The phase a wire word means, with the outcome it implies; None for an unknown word."""
    word = word.casefold()
    if phase := _PHASES.get(word):
        return phase, None
    if outcome := _OUTCOMES.get(word):
        return "settled", outcome
    return None


def outcome_of(word: str) -> Outcome | None:
    """The outcome a wire word means; None for an unknown word."""
    return _OUTCOMES.get(word.casefold())


def interaction_kind_of(word: str) -> InteractionKind | None:
    """The interaction kind a wire word means; None for an unknown word."""
    return _INTERACTION_KINDS.get(word.casefold())


def message_status_of(word: str) -> str:
    """A message's status in one spelling; the vocabulary is open."""
    word = word.casefold()
    return "canceled" if word == "cancelled" else word


_LIFECYCLE_ENDS: Final[dict[str, DisplayStatus]] = {
    "completed": "completed",
    "ended": "completed",
    "failed": "failed",
    "errored": "failed",
    "canceled": "canceled",
    "cancelled": "canceled",
}

_SESSION_WORDS: Final[dict[str, DisplayStatus]] = {
    "failed": "failed",
    "waiting": "waiting",
    "waiting_approval": "waiting",
    "awaiting_approval": "waiting",
    "waiting_input": "waiting",
    "submitted": "working",
    "working": "working",
    "running": "working",
    "streaming": "working",
    "settling": "working",
    "idle": "idle",
    "settled": "idle",
    "ready": "idle",
}


def lifecycle_end(word: str) -> DisplayStatus | None:
    """How a session that reports this lifecycle status has ended; None while it lives."""
    return _LIFECYCLE_ENDS.get(word.casefold())


def display_of(word: str) -> DisplayStatus | None:
    """What a phase or lifecycle word shows to people; None for a word that shows nothing."""
    return _SESSION_WORDS.get(word.casefold())
