"""Finds sessions by what is shown of them, page by page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from application.ports import Listed, SessionRow
from application.views import SessionSummary, session_summary

LOOKED_AT_MAX: Final = 2_000
"""Sessions that are looked at for one page; a page that finds few of them ends there."""
READ_AT_ONCE: Final = 200

Pages = Callable[[Listed | None, int], Sequence[SessionRow]]
"""Reads sessions from behind a place, the ones that changed last first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions are looked for; blank and 0 mean any."""

    status: str = ""
    provider: str = ""
    kind: str = ""
    text: str = ""
    """Stands somewhere in the title or the id, in any case."""
    since_ms: int = 0
    until_ms: int = 0

    def fits(self, summary: SessionSummary) -> bool:
        """Whether a session is one of them; its times are looked after elsewhere."""
        words = ((self.status, summary.status), (self.provider, summary.provider), (self.kind, summary.kind))
        if any(wanted and wanted != said for wanted, said in words):
            return False
        text = self.text.casefold()
        return not text or text in summary.title.casefold() or text in summary.session.casefold()


@dataclass(frozen=True, slots=True)
class Found:
    """A page of sessions, and the place behind which the next one begins; None at the end."""

    items: tuple[SessionSummary, ...]
    next: Listed | None


def find(pages: Pages, wanted: Wanted, after: Listed | None, limit: int) -> Found:
    """The next sessions that are wanted, the ones that changed last first."""
    if after is None and wanted.until_ms:
        after = (wanted.until_ms, "", "")
    items: list[SessionSummary] = []
    rows = _rows(pages, after)
    place = after
    for row in islice(rows, LOOKED_AT_MAX):
        if row.state.updated_at < wanted.since_ms:
            return Found(tuple(items), None)
        if len(items) == limit:
            return Found(tuple(items), place)
        place = (row.state.updated_at, row.state.room, row.state.session)
        summary = session_summary(row)
        if wanted.fits(summary):
            items.append(summary)
    return Found(tuple(items), place if next(rows, None) else None)


def _rows(pages: Pages, after: Listed | None) -> Iterator[SessionRow]:
    while page := pages(after, READ_AT_ONCE):
        yield from page
        last = page[-1].state
        after = (last.updated_at, last.room, last.session)
