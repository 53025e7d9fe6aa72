"""What can go wrong, in the domain's words.

RepriseError
├── Rejected                a command that can never succeed unchanged; nothing was stored
├── NotFound                no such session, or an id that several rooms share
├── Outdated                a command meant another version of its session than the current one
├── Malformed               JSON that cannot be kept: too deep, numbers out of range, not JSON
└── StoreError              the store could not do its work; nothing was half stored
    ├── VersionConflict     somebody else wrote the stream in between
    ├── StoreBusy           another process held the store for too long: try again
    ├── LeaseLost           somebody else delivers the lane now
    ├── Trimmed             the deltas asked for are no longer kept
    ├── Overloaded          too many commands are waiting: try again later
    ├── StoreFull           no room on the disk
    ├── StoreUnavailable    the place cannot be opened, read or written
    ├── ForeignStore        the database belongs to another program
    ├── NewerStore          the store was written by a newer release
    ├── UnknownTopic        a stored event of a kind that this release does not know
    └── DamagedStore        the stored bytes contradict each other
"""

from dataclasses import dataclass


class RepriseError(Exception):
    """Expected trouble; its text says what to do."""


@dataclass
class Rejected(RepriseError):
    """The command can never succeed unchanged (SPEC C1); nothing was stored."""

    reason: str
    """A stable word, such as `unknown_turn`, `conflict` or `too_large`."""
    part: str
    """Which part of the command: session, turn, message, interaction, provider_turn or command."""
    id: str
    """The part's own id, as far as it has one."""
    detail: str
    """What is wrong and what to do, for a person."""

    def __str__(self) -> str:
        what = f"{self.part} {self.id}" if self.id else self.part
        return f"{what}: {self.detail} ({self.reason})"


class NotFound(RepriseError):
    """What was asked for is not there."""


class Outdated(RepriseError):
    """A command was meant for another version of what it would change than the one it found."""

    def __init__(self, what: str, expected: int, current: int) -> None:
        super().__init__(f"{what} is at version {current}, not {expected}: read it and decide again")
        self.current = current


class Malformed(RepriseError):
    """JSON that cannot be stored and returned equal."""


class StoreError(RepriseError):
    """The store could not do its work."""


class VersionConflict(StoreError):
    """A decision was made on a version of a stream that is no longer its last."""

    def __init__(self, stream: str, expected: int, current: int) -> None:
        super().__init__(
            f"{stream} is at version {current}, the decision was made at {expected}: load it again"
        )
        self.stream = stream
        self.expected = expected
        self.current = current


class StoreBusy(StoreError):
    """Another process held the store for longer than the lock time-out."""


class LeaseLost(StoreError):
    """Somebody else has got the lane in the meantime; what was to be said of it changes nothing."""


class Trimmed(StoreError):
    """Deltas were asked for that are no longer kept."""

    def __init__(self, asked: int, earliest: int) -> None:
        super().__init__(
            f"deltas up to position {earliest} are no longer kept, {asked} was asked for:"
            f" read the sessions as they are, then go on behind {earliest}"
        )
        self.asked = asked
        self.earliest = earliest
        """The position behind which everything is still there."""


class Overloaded(StoreError):
    """Too many commands are waiting for the writer; this one was not taken."""


class StoreFull(StoreError):
    """The disk has no room, or the database reached its size limit."""


class StoreUnavailable(StoreError):
    """The store's place cannot be opened, read or written."""


class ForeignStore(StoreError):
    """The database was made by another program."""


class NewerStore(StoreError):
    """The store was written by a newer release than this one."""


class UnknownTopic(StoreError):
    """A stored event names a topic or a shape version that this release does not know."""


class DamagedStore(StoreError):
    """Stored bytes contradict each other; `verify` names the first place."""
