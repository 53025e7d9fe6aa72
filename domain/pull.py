"""How far a session that lives on another host was read there: the events of its pulls, and their state."""

from dataclasses import dataclass, replace
from typing import ClassVar, Final, assert_never

from domain.event import Event
from domain.ids import MessageId, RemoteCursor, TurnId

PARKED_MAX: Final = 1_000
"""Rows that are recognised when they are met again; an older one is parked once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled(Event):
    """A page of the remote's messages was taken in, up to a version of theirs (SPEC P2)."""

    TOPIC: ClassVar[str] = "session.pulled"
    epoch: int
    read_from: RemoteCursor
    read_to: RemoteCursor
    last: MessageId = MessageId("")
    """The message that stood at `read_to`; blank when it could not be read."""
    newest_turn: TurnId = TurnId("")
    """The turn of the newest message so far, in the remote's order of display."""
    newest_sequence: int = 0
    remote_epoch: str = ""
    """What the remote calls its epoch, if it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStarted(Event):
    """The remote's versions no longer mean what they did: it is read from the start (SPEC P8)."""

    TOPIC: ClassVar[str] = "session.epoch_started"
    epoch: int
    reason: str
    """announced: it says so; empty: nothing stands at the cursor; other_message: another one does."""
    remote_epoch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowParked(Event):
    """A row that cannot be taken in was passed, so that the rest could be. Content: `reason`, `raw`."""

    TOPIC: ClassVar[str] = "session.row_parked"
    epoch: int
    cursor: RemoteCursor
    """The version to which the row was passed."""
    digest: str
    """Of its bytes, so that meeting it again is no news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished(Event):
    """The remote no longer lists the session; what is known of it stays (SPEC P7)."""

    TOPIC: ClassVar[str] = "session.vanished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reappeared(Event):
    """The remote lists the session again."""

    TOPIC: ClassVar[str] = "session.reappeared"


PullEvent = Pulled | EpochStarted | RowParked | Vanished | Reappeared


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What the next pull of a session has to know."""

    epoch: int = 1
    cursor: RemoteCursor = RemoteCursor(0)
    last: MessageId = MessageId("")
    newest_turn: TurnId = TurnId("")
    newest_sequence: int = 0
    remote_epoch: str = ""
    parked: tuple[str, ...] = ()
    """Digests of the rows that were passed last."""
    vanished: bool = False

    @property
    def after(self) -> RemoteCursor:
        """Where to read on: the last row once more, which shows whether the epoch is the same (SPEC P8)."""
        return RemoteCursor(max(0, self.cursor - 1))


def evolve_pull(pull: Pull, event: PullEvent) -> Pull:
    """Fold an event of a pull."""
    match event:
        case Pulled():
            return replace(
                pull,
                cursor=event.read_to,
                last=event.last,
                newest_turn=event.newest_turn,
                newest_sequence=event.newest_sequence,
                remote_epoch=event.remote_epoch,
            )
        case EpochStarted():
            return Pull(
                epoch=event.epoch,
                remote_epoch=event.remote_epoch,
                parked=pull.parked,
                vanished=pull.vanished,
            )
        case RowParked():
            return replace(pull, parked=(*pull.parked, event.digest)[-PARKED_MAX:])
        case Vanished():
            return replace(pull, vanished=True)
        case Reappeared():
            return replace(pull, vanished=False)
        case _:
            assert_never(event)
