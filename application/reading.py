"""Reads one session at its home, page by page, until it has all of it or something is in the way.

Whatever goes wrong, what was read before it is stored, and the next round goes on behind it (SPEC P2, P4).
"""

from dataclasses import dataclass, replace
from typing import Final, Protocol

from application.commands import Rule
from application.message_pages import Page
from application.mirroring import Took, mirror
from application.ports import Committed
from application.remote import (
    BadRow,
    Failure,
    FailureKind,
    MessagesPage,
    Remote,
    RemoteActivity,
    RemoteSession,
    failure,
)
from domain.errors import Rejected
from domain.ids import RemoteCursor, RoomId, SessionId
from domain.pull import Pull
from domain.session import Session

PAGE_ROWS: Final = 20
"""Messages asked for at a time (SPEC P1)."""
CALLS_MAX: Final = 100
"""Calls for a session in one round, bisecting and probing included; the next round goes on."""
FAR_END: Final = RemoteCursor(2**53)
"""Behind every version that a remote has."""


class Record(Protocol):
    """The ledger, as far as pulls use it. No call blocks."""

    async def run(self, room: RoomId, rule: Rule) -> Committed:
        """Decide and store; raises Rejected and StoreError."""

    async def state(self, room: RoomId, session: SessionId) -> Session | None:
        """A session as the read model has it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a session was read in one round."""

    complete: bool = False
    """Nothing was left to read, and nothing went wrong."""
    pages: int = 0
    """Pages that were stored or brought nothing new."""
    progress: int = 0
    """Pages that moved the cursor on."""
    messages: int = 0
    """New or changed ones."""
    events: int = 0
    failure: Failure | None = None
    calls: int = 0
    is_deleted: bool = False
    """It is deleted here, or its root is, so nobody was asked (SPEC P7, S8)."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a page, and how far the session has been read since."""

    took: Took
    pull: Pull


async def is_deleted(record: Record, room: RoomId, shown: RemoteSession) -> bool:
    """Whether a session may not be here: it is deleted, or its root is."""
    for session in (shown.id, shown.root_agent_session_id):
        state = await record.state(room, SessionId(session)) if session else None
        if state and state.is_deleted:
            return True
    return False


class SessionReader:
    """Reads one session in one round."""

    def __init__(
        self,
        record: Record,
        activity: RemoteActivity,
        remote: Remote,
        room: RoomId,
        shown: RemoteSession,
        home: str,
        pages_max: int,
    ) -> None:
        self._record = record
        self._activity = activity
        self._remote = remote
        self._room = room
        self._shown = shown
        self._home = home
        self._pages_max = pages_max
        self._session = SessionId(shown.id)
        self._reading = Reading()

    async def read(self) -> Reading:
        """Read until the remote has no more, or as many pages as may be, or a failure."""
        if await is_deleted(self._record, self._room, self._shown):
            return Reading(is_deleted=True)
        state = await self._record.state(self._room, self._session)
        pull = (state.pull if state else None) or Pull()
        limit, after = PAGE_ROWS, pull.after
        while self._reading.pages < self._pages_max and self._reading.calls < CALLS_MAX:
            # Fewer than a page are wanted above the cursor, at which a row may come again.
            again = int(after < pull.cursor and limit < PAGE_ROWS)
            read = await self._call(after, limit + again)
            if isinstance(read, Failure):
                if read.kind is not FailureKind.TOO_LARGE:
                    return replace(self._reading, failure=read)
                if after < pull.cursor and (limit == 1 or not pull.last):
                    after = pull.cursor  # The row at the cursor may have filled it, or was passed for that.
                    continue
                if limit > 1:
                    limit //= 2
                    continue
                read = _of_one_bad_row(read, after)
            taken = await self._take(Page(pull.epoch, pull.cursor, after, read))
            if isinstance(taken, Failure):
                return replace(self._reading, failure=taken)
            took, before, pull, limit = taken.took, pull, taken.pull, min(limit * 2, PAGE_ROWS)
            if took is Took.REFUSED:
                return replace(self._reading, is_deleted=True)
            if took is Took.ALL and not read.has_more:
                return replace(self._reading, complete=True)
            if took is not Took.ALL or pull.cursor > before.cursor:
                self._note_progress(before, pull)
                after = pull.after
            elif after < pull.cursor:
                after = pull.cursor  # The row at the cursor filled the page.
            else:
                reason = "the remote says that there is more, and sends none of it"
                return replace(self._reading, failure=failure(FailureKind.PROTOCOL, reason))
        return self._reading

    def _note_progress(self, before: Pull, pull: Pull) -> None:
        if pull.epoch == before.epoch and pull.cursor > before.cursor:
            self._reading = replace(self._reading, progress=self._reading.progress + 1)

    async def _call(self, after: RemoteCursor, limit: int) -> MessagesPage | Failure:
        self._reading = replace(self._reading, calls=self._reading.calls + 1)
        page = await self._activity.list_messages(self._remote, self._room, self._session, after, limit)
        if isinstance(page, Failure) or page.epoch:
            return page
        return replace(page, epoch=self._shown.epoch)  # Some say it in their list alone.

    async def _take(self, page: Page) -> Taken | Failure:
        """Store a page."""
        rows = page.read.rows
        if rows and isinstance(last := rows[-1], BadRow) and last.version is None:
            found = await self._behind_bad(page)
            if isinstance(found, Failure):
                return found
            page = replace(page, passed=found)
        try:
            rule = mirror(self._session, self._shown, self._home, page)
            committed = await self._record.run(self._room, rule)
        except Rejected as error:
            return failure(FailureKind.PROTOCOL, f"the remote shows what cannot be: {error}")
        taken = Taken(committed.answer["took"], committed.answer["pull"])
        if taken.took in (Took.ALL, Took.EPOCH):
            self._note_stored(committed)
        return taken

    def _note_stored(self, committed: Committed) -> None:
        mutations = committed.delta.delta.mutations if committed.delta else ()
        self._reading = replace(
            self._reading,
            pages=self._reading.pages + 1,
            messages=self._reading.messages + sum(one.entity_kind == "message" for one in mutations),
            events=self._reading.events + committed.events,
        )

    async def _behind_bad(self, page: Page) -> RemoteCursor | Failure:
        """Where the bad row at the end of a page ends, by trying (SPEC P4).

        Steps of 1, 2, 4 … find an answer without it; halving the last step finds the first such place, so
        that no good row behind it is skipped. A row that is too large is passed only when another answer is
        not, for else it is the remote that is at fault.
        """
        low = max([page.after, *(row.version for row in page.read.rows[:-1] if row.version)])
        latest = page.read.latest_version if page.read.latest_version > low else low + 1
        if not page.read.latest_version:
            latest = FAR_END
            beyond = await self._call(FAR_END, 1)
            if isinstance(beyond, Failure):
                return beyond
        step, high = 1, 0
        while not high and self._reading.calls < CALLS_MAX:
            tried = min(low + step, latest)
            found = await self._starts_bad(RemoteCursor(tried))
            if isinstance(found, Failure):
                return found
            if not found or tried == latest:
                high = tried
            else:
                low, step = tried, step * 2
        while high - low > 1 and self._reading.calls < CALLS_MAX:
            middle = (low + high) // 2
            found = await self._starts_bad(RemoteCursor(middle))
            if isinstance(found, Failure):
                return found
            low, high = (middle, high) if found else (low, middle)
        return RemoteCursor(high or low)

    async def _starts_bad(self, after: RemoteCursor) -> bool | Failure:
        """Whether the first row behind a version is one that cannot be read."""
        page = await self._call(after, 1)
        if isinstance(page, Failure):
            return True if page.kind is FailureKind.TOO_LARGE else page
        return bool(page.rows) and isinstance(page.rows[0], BadRow) and page.rows[0].version is None


def _of_one_bad_row(found: Failure, after: RemoteCursor) -> MessagesPage:
    """The page of a single row that is too large to be read; where it stood tells it from others."""
    row = BadRow(0, f"{found.reason}, behind version {after}".encode(), found.reason)
    return MessagesPage((row,), latest_version=0, has_more=True)
