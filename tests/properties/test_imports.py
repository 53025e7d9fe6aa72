"""What holds for imports of generated transcripts, whatever the format, however often and in which order."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from application.importing import ImportResult, import_transcript
from application.transcript import Transcript
from infrastructure.transcripts.claude_code import read_claude_code
from infrastructure.transcripts.codex import read_codex
from infrastructure.transcripts.gemini import read_gemini
from tests.application.test_importing import _CURSORS, _REPEATED, history, shown
from tests.domain import story as stories
from tests.domain.story import ROOM, Story
from tests.infrastructure.transcripts.script import SESSION
from tests.infrastructure.transcripts.test_claude_code_properties import sessions as claude_sessions
from tests.infrastructure.transcripts.test_format_properties import (
    codex_forks,
    codex_sessions,
    gemini_sessions,
)

LATER_MS = 1_798_761_600_000
HIDDEN = _CURSORS | _REPEATED | {"settled_at_unix_ms"}
Read = Callable[[bytes], Transcript]


@contextmanager
def told() -> Iterator[Story]:
    with stories.told() as story:
        story.clock.now = LATER_MS
        yield story


def claude(data: bytes) -> Transcript:
    return read_claude_code(data, f"{SESSION}.jsonl")


def codex(data: bytes) -> Transcript:
    return read_codex(data, "rollout-x.jsonl")


def gemini(data: bytes) -> Transcript:
    return read_gemini(data, "session-x.jsonl")


def take(story: Story, read: Read, data: bytes, name: str = "file-1", **more: Any) -> ImportResult:
    digest = sha256(data).hexdigest()
    return import_transcript(story.ledger, read(data), import_id=name, digest=digest, room=ROOM, **more)


FORMATS = pytest.mark.parametrize(
    ("read", "written"),
    [
        pytest.param(claude, claude_sessions().map(lambda one: one.script.data), id="claude-code"),
        pytest.param(codex, codex_sessions().map(lambda one: one.script.data), id="codex"),
        pytest.param(gemini, gemini_sessions().map(lambda one: one.data), id="gemini"),
    ],
)


@FORMATS
@given(st.data(), st.lists(st.floats(0, 1), max_size=3))
def test_a_file_taken_in_while_it_grows_ends_as_the_whole(
    read: Read, written: st.SearchStrategy[bytes], data: st.DataObject, shares: list[float]
) -> None:
    """J2: However a file was cut when it was taken in before, watched or not, the whole shows the same in
    the end; again, in whole or in part, it adds nothing.
    """
    whole = data.draw(written)
    with told() as once:
        take(once, read, whole)
        expected = shown(once.ledger, HIDDEN)

    with told() as grown:
        for share in sorted(shares):
            live = data.draw(st.booleans())
            take(grown, read, whole[: int(len(whole) * share)], live=live)
        take(grown, read, whole)

        assert shown(grown.ledger, HIDDEN) == expected
        before = history(grown.ledger)
        for share in (*shares, 1):
            take(grown, read, whole[: int(len(whole) * share)])
        assert history(grown.ledger) == before


@FORMATS
@given(st.data())
def test_a_dry_run_tells_what_the_import_will_tell(
    read: Read, written: st.SearchStrategy[bytes], data: st.DataObject
) -> None:
    """J2: A dry run stores nothing and says the same."""
    whole = data.draw(written)
    with told() as story:
        tried = take(story, read, whole, dry_run=True)

        assert list(story.ledger.deltas()) == []
        assert take(story, read, whole) == tried


@given(codex_forks(), st.permutations([0, 1]))
def test_a_fork_and_its_parent_count_once_in_either_order(family: Any, order: list[int]) -> None:
    """J5: Whichever file comes first, each session has the turns, messages and tokens that are its own."""
    files = [player.script.data for player in family]
    with told() as story:
        for index in order:
            take(story, codex, files[index], f"file-{index}")

        for player in family:
            view = story.session(player.script.session)
            assert (view.turns, view.messages) == (len(player.truth.turns), len(player.truth.texts))
            assert view.usage.get("output", 0) == player.truth.output_tokens
        assert story.session(family[1].script.session).forked_from == {"session": family[0].script.session}


@given(gemini_sessions())
def test_a_session_in_both_of_geminis_forms_is_one(player: Any) -> None:
    """J5: A session that went on in the newer form is in two files, and counts once in either order."""
    document = json.dumps({**player.rows[0], "messages": list(player.final.values())}).encode()
    pictures = []
    for order in ((0, 1), (1, 0)):
        with told() as story:
            for index in order:
                if index:
                    take(story, gemini, player.data, "gemini:s")
                else:
                    take(story, lambda data: read_gemini(data, "session-x.json"), document, "gemini:s.json")
            view = story.session("g")
            pictures.append((view.turns, view.messages, view.usage, view.tool_calls))

    assert pictures[0] == pictures[1]
    assert pictures[0][:2] == (len(player.truth.turns), len(player.truth.texts))
    assert pictures[0][2].get("output", 0) == player.truth.output_tokens
