"""What a transcript tells, small enough to be written down and compared by eye."""

from collections import Counter
from typing import Any

from application.transcript import Interaction, KeptRecord, Message, Session, Transcript, TurnEnd, TurnStart


def messages_of(session: Session) -> list[Message]:
    return [entry for entry in session.entries if isinstance(entry, Message)]


def texts_of(session: Session) -> list[str]:
    """User and assistant text, in file order."""
    return [message.payload["text"] for message in messages_of(session) if is_text(message)]


def is_text(message: Message) -> bool:
    return message.kind == "text" and message.role in {"user", "assistant"}


def turns_of(session: Session) -> list[str]:
    """The outcome of each turn, with a question mark when it is provisional."""
    ends = [entry for entry in session.entries if isinstance(entry, TurnEnd)]
    starts = [entry for entry in session.entries if isinstance(entry, TurnStart)]
    assert [end.turn_id for end in ends] == [start.turn_id for start in starts]
    return [end.outcome + "?" * end.provisional for end in ends]


def tool_calls_of(session: Session) -> dict[str, int]:
    calls = (message.status for message in messages_of(session) if message.kind == "tool_call")
    return dict(Counter(calls))


def interactions_of(session: Session) -> list[Interaction]:
    return [entry for entry in session.entries if isinstance(entry, Interaction)]


def kept_of(session: Session) -> list[KeptRecord]:
    return [entry for entry in session.entries if isinstance(entry, KeptRecord)]


def usage_of(session: Session) -> dict[str, int]:
    total = Counter[str]()
    for message in messages_of(session):
        total.update(message.usage or {})
    return dict(total)


def warnings_of(transcript: Transcript) -> list[str]:
    return [remark.code for remark in transcript.warnings]


def summary(session: Session) -> dict[str, Any]:
    return {
        "sessionId": session.session_id,
        "parentSessionId": session.parent_session_id,
        "parentToolCallId": session.parent_tool_call_id,
        "title": session.title,
        "turns": turns_of(session),
        "messages": len(texts_of(session)),
        "toolCalls": tool_calls_of(session),
        "interactions": [interaction.kind for interaction in interactions_of(session)],
        "usage": usage_of(session),
    }
