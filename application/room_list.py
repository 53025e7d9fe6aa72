"""What a room's lists show from round to round: who lives there, and who is missing."""

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from application.pull_calls import Listed
from application.remote import AgentsPage, BadRow, RemoteSession
from domain.ids import SessionId
from domain.vocabulary import display_of

ABSENCES_MAX: Final = 3
"""So many complete lists in a row have to miss a session until it has vanished (SPEC P7)."""


@dataclass
class RoomList:
    """One room's sessions at its remote, as the last list had them."""

    known: set[SessionId] = field(default_factory=set)
    """Sessions that were pulled and have neither vanished nor been deleted here."""
    shown: dict[SessionId, RemoteSession] = field(default_factory=dict)
    deleted: set[SessionId] = field(default_factory=set)
    """Sessions that turned out to be deleted here."""
    bad_rows: Sequence[str] = ()
    """Why rows of the list could not be read."""
    _anew: set[SessionId] = field(default_factory=set)
    """Sessions whose epoch is another one than in the list before: their times say nothing (SPEC P8)."""
    _absences: Counter[SessionId] = field(default_factory=Counter)

    def take(self, page: AgentsPage, own_ids: AbstractSet[str]) -> None:
        """Take in a list; what lives here is none of a remote's business (SPEC P6)."""
        rows = [row for row in page.rows if isinstance(row, RemoteSession)]
        homes = [row.home or page.home for row in rows]
        before = {session: shown.epoch for session, shown in self.shown.items()}
        self.shown = {
            SessionId(row.id): replace(row, home=home)
            for row, home in zip(rows, homes, strict=True)
            if home not in own_ids
        }
        self.bad_rows = [row.reason for row in page.rows if isinstance(row, BadRow)]
        self._anew = {name for name, one in self.shown.items() if before.get(name, one.epoch) != one.epoch}
        self.deleted &= self.shown.keys()

    def to_read(self) -> Iterable[Listed]:
        """The sessions that may be read, as far as it decides when."""
        for session, shown in self.shown.items():
            if session not in self.deleted:
                is_live = display_of(shown.status) in ("working", "waiting")
                updated_at = 0 if session in self._anew else shown.updated_at_unix_ms
                yield Listed(session, updated_at, is_live)

    def missing(self) -> Sequence[SessionId]:
        """The sessions that have vanished with this list, which is the last of several that miss them."""
        if self.bad_rows:
            return ()
        absent = self.known - self.shown.keys()
        self._absences = Counter({session: self._absences[session] + 1 for session in absent})
        gone = sorted(session for session, lists in self._absences.items() if lists >= ABSENCES_MAX)
        self.known.difference_update(gone)
        return gone
