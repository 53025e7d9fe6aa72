"""Which records of a rollout are copies of the session that it was forked from.

A fork, and a sub-agent that was given its parent's context, begins with its own session_meta, then the
parent's, then the parent's records in one go, under new times. The parent owns them. The first turn that
began when the fork was there already is the fork's own, and all that follows.
"""

from infrastructure.transcripts.codex_records import Item
from infrastructure.transcripts.fields import as_text
from infrastructure.transcripts.times import time_ms

COPY_GAP_MS = 1_000
"""A copy is written in one go. Where no start is recorded, a longer pause ends it."""


class Copies:
    """Tells copies from what a session wrote itself; asked once for each record, in file order."""

    def __init__(self) -> None:
        self.source = ""
        self.count = 0
        self._copying = False
        self._own_id: str | None = None
        self._own_ms = 0
        self._latest_ms = 0
        self._began = False
        self._paused = False

    def is_copy(self, item: Item) -> bool:
        if item.kind == "session_meta":
            self._meta(item)
            return False
        if not self._copying:
            self._began = True
            return False
        self._paused |= self._latest_ms > 0 and item.at_ms > max(self._own_ms, self._latest_ms + COPY_GAP_MS)
        self._latest_ms = max(self._latest_ms, item.at_ms)
        self._copying = not self._is_own_start(item)
        self.count += self._copying
        return self._copying

    def _meta(self, item: Item) -> None:
        own_id = as_text(item.payload.get("id"))
        if self._own_id is None:
            self._own_id = own_id
            self._own_ms = time_ms(item.payload.get("timestamp")) or item.at_ms
            self._latest_ms = item.at_ms
            self._copy(as_text(item.payload.get("forked_from_id")))
        elif own_id != self._own_id and not self._began:
            self._copy(own_id)

    def _copy(self, source: str) -> None:
        self.source = self.source or source
        self._copying = self._copying or bool(source)

    def _is_own_start(self, item: Item) -> bool:
        if item.type in {"task_started", "turn_started"}:
            started_ms = time_ms(item.payload.get("started_at"))
            if started_ms:
                return started_ms >= self._own_ms // 1_000 * 1_000
            return self._paused
        return item.is_prompt and self._paused
