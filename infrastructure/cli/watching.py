"""`reprise import --watch`: takes in what agents write, as they write it, and says each new message."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Final

from infrastructure.cli.import_run import last_commit
from infrastructure.cli.text import note, say, say_json
from infrastructure.text import short, when

if TYPE_CHECKING:
    from application.views import MessageView
    from infrastructure.cli.import_run import ImportRun
    from infrastructure.transcripts.files import Found

STEP_MS: Final = 50
DEBOUNCE_MS: Final = 200
"""Changes that come together are read together; a line is there within a second all the same."""
LOOK_AROUND_MS: Final = 30_000
"""So often the folders are searched anyway: a change may have gone unreported."""
PAGE: Final = 500


def watch(run: "ImportRun", folders: list[Path], find: "Callable[[], Found]", *, as_json: bool) -> None:
    """Go on until SIGINT or SIGTERM; a file that was moved, cut or written anew is read like any other.

    A turn at the end of a file that is being written goes on. When the watch ends, it is ended as a guess.
    """
    from watchfiles._rust_notify import RustNotify

    told = last_commit(run.ledger)
    position = told.position if told else 0
    names = [str(folder) for folder in folders]
    run.live = True
    with _until_stopped() as stop, RustNotify(names, False, False, 0, True, True) as changes:
        note(f"watching {', '.join(names)}; interrupt to stop")
        # What was written since the folders were searched has no report; after that each change has one.
        while not stop.is_set():
            run.take(find().files, lambda *_: None)
            position = _tell_new_messages(run, position, as_json=as_json)
            changes.watch(DEBOUNCE_MS, STEP_MS, LOOK_AROUND_MS, stop)
        run.live = False
        run.take(find().files, lambda *_: None)
        _tell_new_messages(run, position, as_json=as_json)
    note("stopped")


def _tell_new_messages(run: "ImportRun", after: int, *, as_json: bool) -> int:
    """One line for each message that was not there before `after`, session by session."""
    first: dict[tuple[str, str], int] = {}
    recorded: set[int] = set()
    for committed in run.ledger.deltas(after):
        after = committed.last_position
        recorded.add(committed.recorded_at)
        for mutation in committed.delta.mutations:
            if mutation.entity_kind == "message":
                session = (committed.room, mutation.agent_session_id)
                first[session] = min(first.get(session, mutation.version), mutation.version)
    for (room, name), version in first.items():
        messages = _messages(run, room, name, version - 1)
        for message in sorted(messages, key=lambda one: one.id):
            if message.created_at_unix_ms in recorded:
                _tell(room, name, message, as_json=as_json)
    return after


def _messages(run: "ImportRun", room: str, session: str, after: int) -> "Iterator[MessageView]":
    has_more = True
    while has_more:
        page = run.ledger.messages(room, session, after=after, limit=PAGE)
        yield from page.messages
        after, has_more = page.latest_version, page.has_more


def _tell(room: str, session: str, message: "MessageView", *, as_json: bool) -> None:
    if as_json:
        fields = {"room": room, "session": session, "message": message.message_id}
        said = {"role": message.role, "kind": message.kind, "status": message.status}
        say_json(fields | said | {"payload": message.payload})
    else:
        text = message.payload.get("text") or message.payload.get("toolName") or message.kind
        said_at = when(message.occurred_at_unix_ms)
        say(f"{said_at}  {session[:8]}  {message.role:<9}  {short(str(text))}")
    sys.stdout.flush()


@contextmanager
def _until_stopped() -> Iterator[Event]:
    """An event that SIGINT and SIGTERM set, as long as the watch lasts."""
    stop = Event()

    def handle(_: int, __: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
