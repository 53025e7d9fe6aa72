"""What an import keeps of Codex and Gemini transcripts: once, twice, in part, in any order."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from application.importing import ImportResult, import_transcript
from infrastructure.transcripts.files import import_id
from infrastructure.transcripts.formats import format_of
from tests.application.test_importing import _CURSORS, _REPEATED, history, shown, summary
from tests.domain import story as stories
from tests.domain.story import ROOM, Story
from tests.infrastructure.transcripts.reading import FOUND, OWN, found_files, own_files, read_bytes

FILES = [pytest.param(path, id=path.stem) for path in own_files() + found_files()]

HIDDEN = _CURSORS | _REPEATED | {"settled_at_unix_ms"}
"""Where a file has no times, an end has that of its import."""
LATER_MS = 1_798_761_600_000
"""2027-01-01: every transcript lies in the past."""


@contextmanager
def told() -> Iterator[Story]:
    with stories.told() as story:
        story.clock.now = LATER_MS
        yield story


@pytest.fixture
def story() -> Iterator[Story]:
    with told() as story:
        yield story


def take(story: Story, path: Path, size: int | None = None) -> ImportResult:
    data = path.read_bytes()
    name = import_id(format_of(path, data), path)
    transcript = read_bytes(path, data[:size])
    digest = sha256(data[:size]).hexdigest()
    return import_transcript(story.ledger, transcript, import_id=name, digest=digest, room=ROOM)


def line_ends(path: Path, data: bytes) -> list[int]:
    """Where a file may have ended before; a document tells nothing until it is whole, so a few do."""
    ends = [place + 1 for place, byte in enumerate(data[:-1]) if byte == ord("\n")]
    return ends[:: len(ends) // 4] if path.suffix == ".json" else ends


def shown_after(files: Iterable[Path]) -> dict[str, Any]:
    with told() as story:
        for path in files:
            take(story, path)
        return shown(story.ledger, HIDDEN)


@pytest.mark.parametrize("path", FILES)
def test_the_same_file_again_adds_nothing(path: Path, story: Story) -> None:
    """J2: Importing a file twice is importing it once."""
    first = take(story, path)
    before = history(story.ledger)
    story.clock.now += 1_000

    again = take(story, path)

    assert first.events == len(before) > 0
    assert again.events == 0
    assert history(story.ledger) == before


@pytest.mark.parametrize("path", FILES)
def test_a_file_that_grew_shows_what_the_whole_shows_and_never_goes_back(path: Path, story: Story) -> None:
    """J2: Behind every line, a prefix and then the whole show what the whole shows; the prefix again takes
    nothing back.
    """
    data = path.read_bytes()
    take(story, path)
    whole = shown(story.ledger, HIDDEN)

    for size in line_ends(path, data):
        with told() as grown:
            take(grown, path, size)
            take(grown, path)
            before = history(grown.ledger)

            assert shown(grown.ledger, HIDDEN) == whole
            assert take(grown, path, size).events == 0
            assert history(grown.ledger) == before


@pytest.mark.parametrize("path", FILES)
def test_a_file_watched_while_it_grows_ends_as_the_whole(path: Path) -> None:
    """J2: Taken in after every line, a file shows what it shows taken in once."""
    data = path.read_bytes()
    with told() as grown:
        for size in line_ends(path, data):
            take(grown, path, size)
        take(grown, path)

        assert shown(grown.ledger, HIDDEN) == shown_after([path])


def test_our_own_files_may_be_read_in_any_order() -> None:
    """J5: Parents, forks and sub-agents in any order show the same; tokens are counted once."""
    files = own_files()
    orders = [files[start:] + files[:start] for start in range(len(files))]

    pictures = [shown_after(order) for order in orders + [order[::-1] for order in orders]]

    assert all(picture == pictures[0] for picture in pictures)
    assert len(pictures[0]) == len(files)


@pytest.mark.parametrize("path", own_files(), ids=lambda path: path.stem)
def test_the_ledger_tells_the_golden_outcomes(path: Path, story: Story) -> None:
    """J1: What a file tells stands in the ledger as it is written down for it."""
    golden = json.loads((OWN / "golden.json").read_text(encoding="utf-8"))
    take(story, path)

    for one in golden[path.relative_to(OWN).as_posix()]["sessions"]:
        kept = summary(story, one["sessionId"])
        kept["messages"] += len(one["rewound"])  # readers are not told to count what was taken back
        assert kept == {name: one[name] for name in kept}


@pytest.mark.skipif(not FOUND.is_dir(), reason="the found transcripts are not here")
@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_snapshots_in_any_order_end_as_the_later_one(order: tuple[int, int]) -> None:
    """J2: Of two snapshots of one session the later adds the difference, the earlier takes nothing back."""
    names = ("04-real-same-session-early.json", "05-real-same-session-later.json")
    files = [FOUND / "gemini" / name for name in names]
    later = shown_after(files[1:])

    with told() as story:
        for index in order:
            data = files[index].read_bytes()
            transcript = read_bytes(files[index], data)
            digest = sha256(data).hexdigest()
            import_transcript(story.ledger, transcript, import_id="gemini:s", digest=digest, room=ROOM)

        assert shown(story.ledger, HIDDEN) == later
