"""Deltas to send."""

from application.sinks import Parcel
from domain.delta import CommitDelta, CommittedDelta, Mutation
from domain.ids import Position

RECORDED_AT = 1_796_040_271_123
"""2026-11-30T12:04:31.123Z."""
HOSTILE = [
    "a/b c",
    'q"\r\nevil: 1\r\n\r\n',
    "nul \\u0000 half \\ud800",
    "\x1b[31m\x7f\u2028\u202e",
    "π 🜚 %41",
    "*.>.$JS.API",
    "~" + "é" * 400,
]
"""Ids that somebody may well send; NUL and lone surrogates are only let in as escapes."""


def committed(number: int = 1, room: str = "team", sessions: tuple[str, ...] = ("s-1",)) -> CommittedDelta:
    """The delta of a commit that opened these sessions."""
    transaction = f"tx-{number}"
    mutations = tuple(
        Mutation(
            mutation_id=f"{transaction}:{at}",
            workspace_id=room,
            agent_session_id=session,
            entity_kind="session",
            entity_id=session,
            operation="upsert",
            version=3,
        )
        for at, session in enumerate(sessions, start=1)
    )
    delta = CommitDelta(transaction_id=transaction, workspace_id=room, mutations=mutations)
    return CommittedDelta(delta, Position(number), Position(number), RECORDED_AT)


def parcel(
    number: int = 1,
    room: str = "team",
    sessions: tuple[str, ...] = ("s-1",),
    *,
    attempt: int = 1,
    redelivery: int = 0,
    gap: int = 0,
) -> Parcel:
    """That delta on its way."""
    return Parcel("sub", committed(number, room, sessions), attempt, redelivery, gap)
