"""What a page of messages says: which rows can be taken in, how far it reaches, and whether it still fits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from application.remote import BadRow, MessagesPage, RemoteMessage
from domain import jsontext
from domain.ids import MessageId, RemoteCursor
from domain.pull import Pull


@dataclass(frozen=True, slots=True)
class Page:
    """A page of messages, and what was known when it was asked for."""

    epoch: int
    cursor: RemoteCursor
    """Up to where the session had been read."""
    after: RemoteCursor
    """Behind which version the rows were asked for."""
    read: MessagesPage
    passed: RemoteCursor | None = None
    """Where the last row ends, when that is bad and its version had to be found out by trying."""

    def fits(self, pull: Pull) -> bool:
        """Whether nobody has read on since it was asked for."""
        return (self.epoch, self.cursor) == (pull.epoch, pull.cursor)


@dataclass
class Rows:
    """A page's rows sorted into those to take in and those to park."""

    good: list[RemoteMessage] = field(default_factory=list)
    bad: list[tuple[RemoteCursor, BadRow]] = field(default_factory=list)
    """Each with the version to which it is passed."""
    end: RemoteCursor = RemoteCursor(0)
    last: MessageId = MessageId("")
    """The message at the end; blank when it is a bad row."""

    def reach(self, version: int, message: str) -> None:
        """The page holds a row at this version."""
        if version > self.end:
            self.end, self.last = RemoteCursor(version), MessageId(message)


def new_epoch(pull: Pull, page: Page) -> str:
    """Why the remote's versions no longer mean what they did; blank when they do (SPEC P8)."""
    read = page.read
    if read.epoch and pull.remote_epoch and read.epoch != pull.remote_epoch:
        return "announced"
    if page.after >= pull.cursor:
        return ""
    if not read.rows:
        return "empty"
    first = read.rows[0]
    if isinstance(first, RemoteMessage) and first.version == pull.cursor and pull.last:
        return "" if first.message_id == pull.last else "other_message"
    return ""


def sort_rows(pull: Pull, page: Page, refused: Mapping[str, str]) -> Rows:
    """The rows above where the page was asked from, in their order, and where each bad one ends.

    `refused` are messages that break a rule here, with the reason. A bad row whose version cannot be read
    ends before the next good one.
    """
    found = Rows(end=pull.cursor, last=pull.last)
    for index, row in enumerate(page.read.rows):
        if isinstance(row, RemoteMessage) and row.version <= page.after:
            continue
        if isinstance(row, RemoteMessage) and row.message_id not in refused:
            found.good.append(row)
            found.reach(row.version, row.message_id)
            continue
        bad = row if isinstance(row, BadRow) else _refused(index, row, refused[row.message_id])
        ends_at = bad.version or _before_the_next(page, index) or page.passed or 0
        found.bad.append((RemoteCursor(ends_at), bad))
        found.reach(ends_at, "")
    return found


def _before_the_next(page: Page, index: int) -> int | None:
    known = (row.version for row in page.read.rows[index + 1 :] if row.version)
    following = next(known, None)
    return None if following is None else following - 1


def _refused(index: int, row: RemoteMessage, reason: str) -> BadRow:
    """A row that can be read and breaks a rule here."""
    raw = jsontext.to_bytes({"messageId": row.message_id, "kind": row.kind, "payload": row.payload})
    return BadRow(index, raw, reason, row.version)
