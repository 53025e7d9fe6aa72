"""Records that a session took along from the one it was resumed or branched from: that one owns them.

Counting them here again would show the same prompts twice and bill the same tokens twice. Two shapes occur:

- A branched session marks each copied record with `forkedFrom`.
- A resumed session of 1.0 copied the earlier records into its new file, kept the old sessionId on the
  prompts and wrote its own on the answers. So the whole turn is copied when its prompt is, and only before
  the first prompt of the session's own; a foreign sessionId further on is a mere oddity.
"""

from infrastructure.transcripts.claude_records import Kind, Row

_STARTS = frozenset({Kind.PROMPT, Kind.COMMAND})


class Copies:
    """Tells copies from what a session wrote itself; asked once for each record, in file order."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._inside_copied_turn = False
        self._own_prompt_seen = False
        self.source_session_id = ""
        self.count = 0

    def is_copy(self, row: Row, kind: Kind) -> bool:
        source = row.forked_from or ("" if self._own_prompt_seen else row.session_id)
        if source and source != self._session_id:
            self._inside_copied_turn = not row.forked_from
            self.source_session_id = source
            copied = True
        elif kind in _STARTS and not row.sidechain:
            self._own_prompt_seen = True
            self._inside_copied_turn = copied = False
        else:
            copied = self._inside_copied_turn
        self.count += copied and kind is not Kind.QUIET
        return copied
