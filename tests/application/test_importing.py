"""What an import keeps of a transcript, whatever is imported before, after, twice or in part."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from application import importing
from application.importing import ImportResult, import_transcript
from application.ledger import Ledger
from application.ports import StoredEvent
from application.transcript import Transcript
from domain.session import Imported, RecordKept
from domain.work import Draft
from infrastructure.transcripts.claude_code import read_claude_code
from tests.domain.story import ROOM, Story, told
from tests.infrastructure.transcripts.script import SESSION, Script

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
FOUND = Path(__file__).parents[2] / "../shared/transcripts/claude-code"


class Killed(Exception):
    """Stands for the death of the process."""


@pytest.fixture
def story() -> Iterator[Story]:
    with told() as story:
        yield story


def read(path: Path, size: int | None = None) -> Transcript:
    """The first `size` bytes of a file, under the name that its client gives it."""
    meta = path.with_suffix(".meta.json")
    data = path.read_bytes()
    name = str(path) if path.is_relative_to(SAMPLE) else f"{named_for(data, path)}.jsonl"
    return read_claude_code(data[:size], name, meta.read_bytes() if meta.exists() else b"")


def named_for(data: bytes, path: Path) -> str:
    """The session that a file belongs to; some of the found ones were renamed."""
    return read_claude_code(data, path.name).sessions[0].session_id


def take(
    story: Story, transcript: Transcript, import_id: str = "file-1", *, digest: str = "", **more: Any
) -> ImportResult:
    digest = digest or sha256(repr(transcript).encode()).hexdigest()
    return import_transcript(
        story.ledger, transcript, import_id=import_id, digest=digest, **{"room": ROOM, **more}
    )


def take_bytes(story: Story, data: bytes, **more: Any) -> ImportResult:
    return take(story, read_claude_code(data, f"{SESSION}.jsonl"), **more)


def take_files(story: Story, files: Iterable[Path]) -> list[ImportResult]:
    return [take(story, read(path), path.stem) for path in files]


def history(ledger: Ledger) -> list[StoredEvent]:
    """Every event of every session of the room, and of the roots that only their children have named."""
    views = [ledger.session(ROOM, one.session) for one in ledger.sessions(ROOM, deleted=True)]
    names = {name for view in views if view for name in (view.session, view.root) if name}
    return [event for name in sorted(names) for event in ledger.events(ROOM, name)]


_CURSORS = {"version", "stream_version", "message_version", "updated_at_unix_ms"}
"""Counters and clocks: they say how often something changed, not what it is."""
_REPEATED = {"last_event_at_unix_ms", "occurred_at_unix_ms", "completed_at_unix_ms"}
"""Times that a file may revise when it repeats a text later on."""


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: without(item, names) for name, item in value.items() if name not in names}
    if isinstance(value, list | tuple):
        return [without(item, names) for item in value]
    return value


def shown(ledger: Ledger, hidden: set[str] = _CURSORS) -> dict[str, Any]:
    """All that readers are shown: sessions, turns, interactions, messages."""
    found = {}
    for one in ledger.sessions(ROOM, deleted=True):
        view = ledger.session(ROOM, one.session)
        assert view is not None
        messages = ledger.messages(ROOM, one.session, limit=500).messages
        spoken = [message.model_dump() for message in sorted(messages, key=lambda message: message.id)]
        found[one.session] = without([view.model_dump(), spoken], hidden)
    return found


def sample_files() -> list[Path]:
    return sorted(SAMPLE.rglob("*.jsonl"))


def found_files() -> list[Path]:
    return sorted(FOUND.glob("*.jsonl"))


def every_file() -> list[Any]:
    absent = pytest.param(FOUND, marks=pytest.mark.skip(reason="the found transcripts are not here"), id="-")
    files = sample_files() + found_files()
    return [pytest.param(path, id=path.stem) for path in files] + ([] if found_files() else [absent])


# Once, twice, in part.


def test_the_ledger_tells_the_golden_outcomes_of_the_sample(story: Story) -> None:
    """J1: What the sample files tell stands in the ledger as it is written down for them."""
    golden = json.loads((SAMPLE / "golden.json").read_text(encoding="utf-8"))

    take_files(story, sample_files())

    told = [summary(story, one["sessionId"]) for sessions in golden.values() for one in sessions]
    assert told == [one for sessions in golden.values() for one in sessions]


def summary(story: Story, session: str) -> dict[str, Any]:
    view = story.session(session)
    ends = {one.turn_id: f"{one.outcome}" + "?" * bool(one.provisional) for one in view.turn_list}
    calls = [one for one in story.messages(session).values() if one.kind == "tool_call"]
    # A call that is open at the end of the file is canceled with its turn, and as provisionally.
    still_open = [one for one in calls if one.status == "canceled" and ends[str(one.turn_id)].endswith("?")]
    statuses = Counter("running" if one in still_open else str(one.status) for one in calls)
    return {
        "sessionId": view.session,
        "parentSessionId": view.parent,
        "parentToolCallId": view.parent_tool_call or "",
        "title": view.title,
        "turns": list(ends.values()),
        "messages": view.messages,
        "toolCalls": dict(statuses),
        "interactions": [one.kind for one in view.interaction_list],
        "usage": view.usage,
    }


@pytest.mark.parametrize("path", every_file())
def test_the_same_file_again_adds_nothing(path: Path, story: Story) -> None:
    """J2: Importing a file twice is importing it once."""
    transcript = read(path)
    first = take(story, transcript)
    before = history(story.ledger)

    again = take(story, transcript)

    assert first.events == len(before)
    assert (again.events, again.sessions, again.turns, again.messages) == (0, 0, 0, 0)
    assert history(story.ledger) == before


@pytest.mark.parametrize("path", every_file())
def test_a_file_that_grew_shows_what_the_whole_shows_and_never_goes_back(path: Path, story: Story) -> None:
    """J2: Behind every record, a prefix and then the whole show what the whole shows; the prefix again
    takes nothing back.
    """
    data = path.read_bytes()
    take(story, read(path))
    whole = shown(story.ledger, _CURSORS | _REPEATED)

    for size in [place + 1 for place, byte in enumerate(data[:-1]) if byte == ord("\n")]:
        if not sessions_of(read(path, size)) <= sessions_of(read(path)):
            continue  # A resumed copy seems to be its source until the first record of its own.
        with told() as grown:
            take(grown, read(path, size))
            take(grown, read(path))
            before = history(grown.ledger)

            assert shown(grown.ledger, _CURSORS | _REPEATED) == whole
            assert take(grown, read(path, size)).events == 0
            assert history(grown.ledger) == before


def sessions_of(transcript: Transcript) -> set[str]:
    return {session.session_id for session in transcript.sessions}


def test_a_longer_file_adds_only_the_difference(story: Story) -> None:
    """J2: Of a file that grew only what is behind its old end makes news."""
    script = Script()
    script.user("one")
    script.text("msg-1", "first")
    script.turn_end()
    take_bytes(story, script.data)
    script.user("two")
    script.text("msg-2", "second")

    result = take_bytes(story, script.data)

    assert (result.sessions, result.turns, result.messages) == (0, 1, 2)
    assert [text.payload["text"] for text in story.messages(SESSION).values()] == [
        "one",
        "first",
        "two",
        "second",
    ]


def test_a_text_that_went_on_in_the_file_is_appended_to(story: Story) -> None:
    """J2: A message whose next row was written later grows; it is the same message."""
    script = Script()
    script.user("go")
    script.text("msg-1", "Begun.", output=3)
    take_bytes(story, script.data)
    script.text("msg-1", "Done.", output=9)

    take_bytes(story, script.data)

    assert story.text("msg-1", SESSION) == "Begun.\n\nDone."
    assert story.session(SESSION).usage["output"] == 9


# Order.


def test_a_sub_agent_and_its_parent_may_be_read_in_either_order() -> None:
    """J5: The order of importing files does not matter."""
    family = [path for path in sample_files() if "5e550002" in str(path)]
    assert len(family) == 2

    pictures = [shown_after(order) for order in permutations(family)]

    assert all(picture == pictures[0] for picture in pictures)


def test_the_sample_may_be_read_in_any_order() -> None:
    """J5: Every rotation of the sample's files, forwards and backwards, shows the same."""
    files = sample_files()
    orders = [files[start:] + files[:start] for start in range(len(files))]

    pictures = [shown_after(order) for order in orders + [order[::-1] for order in orders]]

    assert all(picture == pictures[0] for picture in pictures)


def shown_after(files: Iterable[Path]) -> dict[str, Any]:
    with told() as story:
        take_files(story, files)
        return shown(story.ledger)


@pytest.mark.skipif(not FOUND.is_dir(), reason="the found transcripts are not here")
def test_a_fork_and_its_source_may_be_read_in_either_order() -> None:
    """J5: A fork owns what is its own and names its source, whichever file is read first."""
    files = [path for path in found_files() if path.stem.startswith(("01-", "02-"))]

    pictures = [shown_after(order) for order in permutations(files)]

    assert pictures[0] == pictures[1]
    source, fork = (named_for(path.read_bytes(), path) for path in files)
    assert pictures[0][fork][0]["forked_from"] == {"session": source}


# Dry run.


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.stem)
def test_a_dry_run_reports_the_same_and_stores_nothing(path: Path, story: Story) -> None:
    """J2: A dry run stores nothing, and says what the import will say."""
    transcript = read(path)

    tried = take(story, transcript, dry_run=True)

    assert story.ledger.sessions(deleted=True) == ()
    assert list(story.ledger.deltas()) == []
    assert tried == take(story, transcript)
    assert take(story, transcript, dry_run=True).events == 0


# Killed and run again.


@contextmanager
def dying(chunk: int, when: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kill the import that runs meanwhile at its commit of a chunk."""
    commits: list[int] = []
    run = Ledger.run

    def run_and_die(ledger: Ledger, *args: Any, **more: Any) -> Any:
        commits.append(1)
        if when == "before the commit" and len(commits) == chunk + 1:
            raise Killed
        committed = run(ledger, *args, **more)
        if when == "after the commit" and len(commits) == chunk + 1:
            raise Killed
        return committed

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "run", run_and_die)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize("chunk", range(4))
def test_a_rewritten_file_is_said_to_be_read_though_the_run_that_had_its_news_died(
    chunk: int, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8: What a killed run has taken in is news of the run that ends the import, too."""
    monkeypatch.setattr(importing, "CHUNK_ENTRIES_MAX", 3)
    whole = read(sample_files()[0])
    (session,) = whole.sessions
    before = replace(session, entries=(session.entries[0], *session.entries[2:]))
    take(story, replace(whole, sessions=(before,)), digest="d1")

    with dying(chunk, "after the commit", monkeypatch):
        take(story, whole, digest="d2")
    take(story, whole, digest="d2")

    read_to = [event.event for event in history(story.ledger) if isinstance(event.event, Imported)]
    assert [event.digest for event in read_to] == ["d1", "d2"]


@pytest.mark.parametrize("chunk", range(5))
@pytest.mark.parametrize("when", ["before the commit", "after the commit"])
def test_a_run_that_died_between_two_chunks_goes_on(
    chunk: int, when: str, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8: An import is a sequence of commits; a run that was killed between them goes on when it is run
    again, and ends where an undisturbed one ends.
    """
    monkeypatch.setattr(importing, "CHUNK_ENTRIES_MAX", 3)
    path = sample_files()[0]
    with told() as undisturbed:
        take(undisturbed, read(path))
        whole = shown(undisturbed.ledger, set())
        log = [event.event for event in history(undisturbed.ledger)]
    with dying(chunk, when, monkeypatch):
        take(story, read(path))
    take(story, read(path))

    assert shown(story.ledger, set()) == whole
    assert [event.event for event in history(story.ledger)] == log
    assert take(story, read(path)).events == 0


def test_each_chunk_is_a_commit_of_its_own(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: Every commit of an import holds at most one chunk, and carries its own command id."""
    monkeypatch.setattr(importing, "CHUNK_ENTRIES_MAX", 4)
    transcript = read(sample_files()[0])
    (session,) = transcript.sessions

    take(story, transcript, digest="d1")

    chunks = -(-len(session.entries) // 4)
    ids = dict.fromkeys(event.command_id for event in history(story.ledger))
    assert all(one.startswith("file-1:d1:") for one in ids)
    assert [one.rsplit(":", 1)[1] for one in ids] == [str(index) for index in range(chunks)]
    assert len({event.transaction for event in history(story.ledger)}) == chunks


# What is kept, and where it came from.


def test_every_event_names_its_source(story: Story) -> None:
    """J6: Import id, digest and offset of its record stand on every imported event."""
    script = Script()
    script.user("one")
    script.text("msg-1", "first")
    offsets = [0, len(script.rows[0]) + 1]

    take_bytes(story, script.data, digest="d1")

    sources = [event.source for event in history(story.ledger)]
    assert {(one.name, one.import_id, one.digest) for one in sources if one} == {
        ("claude-code", "file-1", "d1")
    }
    assert all(sources)
    by_message = {
        event.event.message_id: event.source.offset
        for event in history(story.ledger)
        if event.topic == "session.message_added" and event.source and hasattr(event.event, "message_id")
    }
    assert list(by_message.values()) == offsets


def test_a_tree_event_of_an_import_names_its_source_as_well(story: Story) -> None:
    """J6: What an imported child tells its root names the child's file."""
    files = [path for path in sample_files() if "5e550002" in str(path)]

    take_files(story, files)

    links = [event for event in history(story.ledger) if event.topic == "session.child_linked"]
    assert [event.source.import_id for event in links if event.source] == ["agent-a51c0ffee7"]


def test_the_last_event_says_how_far_the_file_was_read(story: Story) -> None:
    """J4: What was read, and up to where, stands in the session's history; a torn tail does not count."""
    script = Script()
    script.user("one")
    whole = script.data
    script.text("msg-1", "first")
    torn = script.data[:-20]

    result = take_bytes(story, torn, digest="d1")

    (read_to,) = (event.event for event in history(story.ledger) if isinstance(event.event, Imported))
    assert (read_to.read_from, read_to.read_to, read_to.records) == (0, len(whole), 1)
    assert (result.messages, take_bytes(story, script.data).messages) == (1, 1)


_ODD = (b'{"type":"new-thing","x":"\xff\xfe"}', b'{"type":"user", "message"', b"\xf0\x9f", b"\0\0{]")


def test_odd_records_are_kept_once_byte_by_byte(story: Story) -> None:
    """J4: Bytes that are no known record are kept as they are, with their place, once, and counted."""
    script = Script()
    script.user("one")
    script.rows += _ODD

    first = take_bytes(story, script.data)
    script.text("msg-1", "first")
    second = take_bytes(story, script.data)

    kept = [event.event for event in history(story.ledger) if isinstance(event.event, RecordKept)]
    raw = [(event.content or {})["raw"].encode("utf-8", "surrogateescape") for event in kept]
    assert raw == [script.data[event.offset : event.offset + event.length] for event in kept]
    assert [event.reason for event in kept] == ["unknown", "damaged", "damaged", "damaged"]
    assert (first.unknown, first.damaged) == (second.unknown, second.damaged) == (1, 3)
    assert second.messages == 1


def test_a_child_under_a_deleted_root_is_left_out(story: Story) -> None:
    """S8: A sub-agent whose root was deleted is not taken in, nor does it bring its root back."""
    child, parent = (path for path in sample_files() if "5e550002" in str(path))
    take(story, read(parent), "parent")
    root = read(parent).sessions[0].session_id
    story.ledger.delete(ROOM, root)

    result = take(story, read(child), "child")

    assert result.events == 0
    assert [one.session for one in story.ledger.sessions(ROOM, deleted=True)] == [root]
    assert story.session(root).deleted_at_unix_ms


def test_a_deleted_session_is_not_imported_again(story: Story) -> None:
    """S9: A file whose session was deleted brings nothing; restored, it goes on."""
    script = Script()
    script.user("one")
    take_bytes(story, script.data)
    story.ledger.delete(ROOM, SESSION)
    script.text("msg-1", "first")

    assert take_bytes(story, script.data, digest="d2").events == 0
    story.ledger.restore(ROOM, SESSION)
    assert take_bytes(story, script.data, digest="d2").messages == 1


# Turns.


def open_end(script: Script) -> None:
    script.user("go")
    script.call("msg-1", "call-1")


def test_an_open_end_is_provisional_until_the_file_goes_on(story: Story) -> None:
    """J3: A turn that is open at the end of its file ends provisionally, as interrupted while a tool is
    open; when the file has grown its real end replaces that.
    """
    script = Script()
    open_end(script)
    take_bytes(story, script.data)
    (turn,) = story.session(SESSION).turn_list
    assert (turn.outcome, turn.provisional, turn.cause) == ("interrupted", True, "end_of_file")
    assert story.message("call-1", SESSION).status == "canceled"

    script.result("call-1", "done")
    script.text("msg-2", "Finished.")
    script.turn_end()
    take_bytes(story, script.data)

    (turn,) = story.session(SESSION).turn_list
    assert (turn.outcome, turn.provisional, turn.cause) == ("completed", None, "reported")
    assert turn.final_assistant_message_id == "msg-2"
    assert story.message("call-1", SESSION).status == "completed"


def test_the_next_prompt_ends_a_turn_for_good(story: Story) -> None:
    """J3: A turn that the next prompt follows is judged by its last record, and finally."""
    script = Script()
    script.user("one")
    script.text("msg-1", "first")
    script.user("two")

    take_bytes(story, script.data)

    first, second = story.session(SESSION).turn_list
    assert (first.outcome, first.provisional) == ("completed", None)
    assert (second.outcome, second.provisional) == ("interrupted", True)


def test_an_older_copy_of_a_file_takes_no_end_back(story: Story) -> None:
    """J2: What the longer file said stays when the shorter one is imported again, under any digest."""
    script = Script()
    open_end(script)
    older = script.data
    script.result("call-1", "done")
    script.text("msg-2", "Finished.")
    take_bytes(story, script.data)
    before = history(story.ledger)

    take_bytes(story, older, digest="another digest")

    assert history(story.ledger) == before


def test_a_live_report_is_not_ended_twice(story: Story) -> None:
    """J2: A file that tells what was reported live adds what is news and leaves the reported end."""
    script = Script()
    turn = script.user("go")
    script.text("msg-1", "Done.")
    story.turn(turn, "running", session=SESSION)
    story.turn(turn, "completed", session=SESSION)

    take_bytes(story, script.data)

    (known,) = story.session(SESSION).turn_list
    assert (known.outcome, known.provisional, known.cause) == ("completed", None, "reported")
    assert story.text("msg-1", SESSION) == "Done."


# Room.


def rooms(ledger: Ledger) -> list[str]:
    return [one.room for one in ledger.sessions()]


@pytest.mark.parametrize(
    ("given", "cwd", "room"),
    [("mine", "/srv/demo", "mine"), ("", "/srv/demo", "/srv/demo"), ("", "", "local")],
)
def test_the_room_is_the_one_given_or_the_folder_or_local(
    given: str, cwd: str, room: str, story: Story
) -> None:
    """J1: The room is the one that is named, else the folder of the transcript, else `local`."""
    script = Script()
    script.user("go", cwd=cwd)

    take_bytes(story, script.data, room=given)

    assert rooms(story.ledger) == [room]


def test_a_session_stays_in_the_room_where_it_is_known(story: Story) -> None:
    """J1: Without a named room, a session that is known in one room stays there, and its children join it."""
    child, parent = (path for path in sample_files() if "5e550002" in str(path))
    take(story, read(parent), "parent", room="mine")

    take(story, read(parent), "parent", room="")
    take(story, read(child), "child", room="")

    assert rooms(story.ledger) == ["mine", "mine"]


# Size.


def test_a_text_that_is_too_large_is_cut_with_a_mark(story: Story) -> None:
    """W3: No file is refused for a text that is too large to keep: it is cut, and says so."""
    script = Script()
    script.user("x" * (5 * 2**20))
    script.text("msg-1", "fine")

    take_bytes(story, script.data)

    prompt, reply = story.messages(SESSION).values()
    assert prompt.payload["text"] == "x" * importing.TEXT_CHARACTERS_MAX + "[Output truncated]"
    assert reply.payload["text"] == "fine"


# Counts.


def test_usage_is_counted_once_at_its_greatest(story: Story) -> None:
    """J5: Rows of one API message repeat its usage; the sum takes each message once, at its greatest."""
    script = Script()
    script.user("go")
    script.thinking("msg-1", "hm", output=5)
    script.text("msg-1", "Look.", output=5)
    script.call("msg-1", "call-1", output=631)
    script.result("call-1")
    script.text("msg-2", "Done.", output=12)

    take_bytes(story, script.data)

    assert story.session(SESSION).usage["output"] == 643


def test_messages_are_texts_and_tool_calls_are_calls(story: Story) -> None:
    """J6: `messages` counts what user and assistant wrote, `toolCalls` the calls; thoughts are neither."""
    script = Script()
    script.user("go")
    script.thinking("msg-1", "hm")
    script.text("msg-1", "Look.")
    script.call("msg-1", "call-1")
    script.result("call-1")

    result = take_bytes(story, script.data)

    view = story.session(SESSION)
    assert (view.messages, view.tool_calls, result.messages) == (2, 1, 2)
    assert len(story.messages(SESSION)) == 4


def test_nothing_raises_out_of_an_import_of_hostile_bytes(story: Story) -> None:
    """J4: Whatever stands in a file, an import of it ends with counts and warnings."""
    hostile: list[Callable[[Draft], None] | bytes] = [b"", b"\0" * 64, b"[]", b"{", b"1e400", b'{"type":1}']
    script = Script()
    script.rows += [row for row in hostile if isinstance(row, bytes)]
    script.user("one")

    result = take_bytes(story, script.data)

    assert (result.messages, result.damaged > 0, result.unknown > 0) == (1, True, True)


@pytest.mark.parametrize("folder", ["/srv/" + "x" * 600, "/srv/\udcff", "/srv/a\0b"])
def test_a_folder_that_cannot_name_a_room_gets_a_name_of_its_own(folder: str, story: Story) -> None:
    """J1: A transcript is never refused for its folder: one that is no room's name is named for itself."""
    script = Script()
    script.user("go", cwd=folder)

    take_bytes(story, script.data, room="")
    take_bytes(story, script.data, room="")

    (room,) = rooms(story.ledger)
    assert len(room) == 36
